"""Hooks on the backward of modules and tensors in compiled code: they run when, and with what, eager mode runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import saker
from differential import same

LOG: list[Any] = []
BACKENDS = ["aten", "eager", "aot_eager", lambda gm, examples: gm.forward]


def note(name: str, *tensors: torch.Tensor | None) -> None:
    LOG.append((name, *(None if t is None else t.detach().clone() for t in tensors)))


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))


def looks_at_gradients() -> nn.Module:
    model = layers()
    model[0].register_full_backward_hook(lambda module, given, made: note("first", given[0], made[0]))
    model[2].register_full_backward_hook(lambda module, given, made: (given[0] * 2,))
    return model


def changes_gradients_before() -> nn.Module:
    model = layers()
    model[0].register_full_backward_pre_hook(lambda module, made: (made[0] * 3,))
    return model


def around_the_whole_model() -> nn.Module:
    model = looks_at_gradients()
    model.register_full_backward_hook(lambda module, given, made: note("all", *given, *made))
    return model


def two_hooks_in_turn() -> nn.Module:
    model = layers()
    model[1].register_full_backward_hook(lambda module, given, made: (given[0] + 1,))
    model[1].register_full_backward_hook(lambda module, given, made: note("second", given[0]))
    model[1].register_full_backward_pre_hook(lambda module, made: note("before", made[0]))
    return model


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = Split()
        self.inner.register_full_backward_hook(lambda module, given, made: note("split", *given, *made))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, count, right = self.inner(x, 2, x.detach() * 3)
        return left * right + count


class Split(nn.Module):
    def forward(self, x: torch.Tensor, count: int, other: torch.Tensor) -> tuple[torch.Tensor, int, torch.Tensor]:
        return x * count, count, (x + other).sin()


def steps(model: nn.Module, call: Callable, count: int = 4) -> list[Any]:
    out = []
    for step in range(count):
        torch.manual_seed(step)
        x = torch.randn(2, 4, requires_grad=step != 2)
        model.zero_grad()
        LOG.clear()
        result = call(x)
        if result.requires_grad:
            (result * torch.randn_like(result)).sum().backward()
        grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
        out.append((result.detach(), x.grad, grads, list(LOG)))
    return out


MODELS = [looks_at_gradients, changes_gradients_before, around_the_whole_model, two_hooks_in_turn, Pair]


@pytest.mark.parametrize("backend", BACKENDS, ids=["aten", "eager", "aot_eager", "user"])
@pytest.mark.parametrize("make", MODELS)
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_hooks_of_modules(make: Callable[[], nn.Module], backend: Any) -> None:
    model, plain = make(), make()
    compiled = saker.compile(model, fullgraph=True, backend=backend)
    before = saker.stats()["replays"]
    same(steps(model, compiled), steps(plain, plain))
    assert saker.stats()["replays"] > before


def test_hooks_that_come_and_go() -> None:
    model, plain = layers(), layers()
    compiled = saker.compile(model, fullgraph=True)
    same(steps(model, compiled), steps(plain, plain))
    hook = lambda module, given, made: note("late", *given, *made)  # noqa: E731
    handles = [each[0].register_full_backward_hook(hook) for each in (model, plain)]
    same(steps(model, compiled), steps(plain, plain))
    for handle in handles:
        handle.remove()
    same(steps(model, compiled), steps(plain, plain))
    assert not LOG


def test_hooks_without_gradients() -> None:
    model = looks_at_gradients()
    compiled = saker.compile(model, fullgraph=True)
    x = torch.randn(2, 4)
    with torch.no_grad():
        for _ in range(3):
            same(compiled(x), model(x))


# --- on tensors ---


def doubles(gradient: torch.Tensor) -> torch.Tensor:
    note("doubles", gradient)
    return gradient * 2


def takes_away(parameter: torch.Tensor) -> None:
    note("takes", parameter.grad)
    parameter.grad = None


def on_a_result(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = (x * w).sin()
    y.register_hook(doubles)
    return (y * 2).sum()


def by_a_new_function(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = (x * w).sin()
    factor = 3
    y.register_hook(lambda gradient: gradient * factor)
    y.mul_(2)
    return (y * 2).sum()


def on_an_argument(x: torch.Tensor, w: torch.Tensor) -> Any:
    w.register_hook(doubles)
    return (x * w).sum()


def after_accumulation(x: torch.Tensor, w: torch.Tensor) -> Any:
    w.register_post_accumulate_grad_hook(takes_away)
    return (x * w).sum()


def on_what_needs_no_gradient(x: torch.Tensor, w: torch.Tensor) -> Any:
    x.register_hook(doubles)
    return (x * w).sum()


REPLAYED = [on_a_result, by_a_new_function, on_an_argument, after_accumulation]
EAGER = [on_what_needs_no_gradient]


def outcome(call: Callable, step: int) -> Any:
    torch.manual_seed(step)
    x, w = torch.randn(3), torch.randn(3, requires_grad=True)
    LOG.clear()
    try:
        loss = call(x, w)
        loss.backward()
    except RuntimeError as error:
        return str(error)
    return loss.detach(), w.grad, list(LOG)


@pytest.mark.parametrize("backend", BACKENDS, ids=["aten", "eager", "aot_eager", "user"])
@pytest.mark.parametrize("function", REPLAYED + EAGER)
def test_hooks_of_tensors(function: Callable, backend: Any) -> None:
    compiled = saker.compile(function, backend=backend)
    before = saker.stats()["replays"]
    for step in range(4):
        same(outcome(compiled, step), outcome(function, step))
    assert (saker.stats()["replays"] > before) == (function in REPLAYED)
