"""Hooks on results and arguments of compiled functions, retained gradients and gradients with respect to results: when
they run, in which order, and with what, as in eager mode."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import saker

sys.path.insert(0, str(Path(__file__).parent / "helpers"))
from hook_programs import bits, differs

COMPILERS = [saker.compile, saker.aot_function]
Log = list[Any]


def equal(function: Callable[..., Any], scenario: Callable[[Callable[..., Any]], Any], compile: Any) -> None:
    compiled = compile(function)
    expected = scenario(function)
    for _ in range(3):
        assert scenario(compiled) == expected


def leaves(count: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.rand(3).add_(0.5).requires_grad_() for _ in range(count)]


def apart(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x.sin(), y.cos()


def linked(x: torch.Tensor, y: torch.Tensor) -> Any:
    a = x.sin()
    return a.exp(), a, y * x


def shared(x: torch.Tensor, y: torch.Tensor) -> Any:
    trunk = x.sin() * y
    return (trunk * x).exp(), (trunk * y).cos(), trunk.tanh() + y.sin()


def interleaved(x: torch.Tensor, y: torch.Tensor) -> Any:
    b = y.exp()
    a = x.sin() * 2
    b = (b * b).cos()
    return a, b, x * 3


@pytest.mark.parametrize("compile", COMPILERS)
@pytest.mark.parametrize("function", [apart, linked, shared, interleaved])
@pytest.mark.parametrize("asked", range(4))
def test_hooks_of_results_run_where_gradients_are_led(function: Any, asked: int, compile: Any) -> None:
    def scenario(call: Callable[..., Any]) -> Log:
        given, log = leaves(2), []
        results = call(*given)
        for i, result in enumerate(results):
            result.register_hook(lambda grad, i=i: log.append((i, bits(grad))))
        loss = sum(result.sum() for result in results)
        if asked == 3:
            torch.autograd.backward(results[-1].sum())
        else:
            loss.backward(inputs=[given[asked]] if asked < 2 else given)
        return [log, bits([x.grad for x in given])]

    equal(function, scenario, compile)


@pytest.mark.parametrize("compile", COMPILERS)
@pytest.mark.parametrize("function", [apart, linked, shared, interleaved])
@pytest.mark.parametrize("result", range(2))
@pytest.mark.parametrize("given", range(2))
@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_with_respect_to_results_that_have_hooks(
    function: Any, result: int, given: int, create_graph: bool, compile: Any
) -> None:
    def scenario(call: Callable[..., Any]) -> Any:
        x = leaves(2)
        results = call(*x)
        results[result].register_hook(lambda grad: -grad)
        losses = [each.sum() for each in results]
        wanted = [x[given], results[result]]
        return bits(torch.autograd.grad(losses, wanted, allow_unused=True, create_graph=create_graph))

    equal(function, scenario, compile)


@pytest.mark.parametrize("compile", COMPILERS)
@pytest.mark.parametrize("function", [apart, linked, shared, interleaved])
def test_hooks_of_results_and_leaves_take_turns(function: Any, compile: Any) -> None:
    def scenario(call: Callable[..., Any]) -> Log:
        given, log = leaves(2), []
        for i, x in enumerate(given):
            x.register_hook(lambda grad, i=i: log.append(("hook", i, bits(grad))))
            x.register_post_accumulate_grad_hook(lambda x, i=i: log.append(("post", i, bits(x.grad))))
        results = call(*given)
        for i, result in enumerate(results):
            result.register_hook(lambda grad, i=i: log.append(("result", i, bits(grad))))
        loss = sum(result.sum() for result in results)
        loss.backward(retain_graph=True)
        loss.backward()
        return log

    equal(function, scenario, compile)


def test_hooks_of_parameters_run_from_the_last_layer_to_the_first() -> None:
    def scenario(model: nn.Module, call: Callable[..., Any]) -> Log:
        log: Log = []
        call(torch.ones(2, 4)).sum().backward()
        model.log.clear()  # type: ignore[operator, union-attr]
        call(torch.ones(2, 4)).sum().backward()
        log.extend(model.log)  # type: ignore[arg-type]
        return log

    def build() -> nn.Module:
        torch.manual_seed(0)
        model = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU()) for _ in range(5)])
        model.log = []  # type: ignore[assignment]
        for name, parameter in model.named_parameters():
            parameter.register_post_accumulate_grad_hook(lambda p, name=name: model.log.append((name, bits(p.grad))))
        return model

    plain, model = build(), build()
    compiled = saker.compile(model)
    before = saker.stats()["replays"]
    for _ in range(2):
        plain.zero_grad()
        model.zero_grad()
        assert scenario(model, compiled) == scenario(plain, plain)
    assert saker.stats()["replays"] > before


def test_an_optimizer_in_the_backward() -> None:
    def build() -> tuple[nn.Module, Log]:
        torch.manual_seed(0)
        model, log = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)), []

        def step(p: torch.Tensor, name: str) -> None:
            with torch.no_grad():
                p -= 0.1 * p.grad  # type: ignore[operator]
            log.append(name)
            p.grad = None

        for name, parameter in model.named_parameters():
            parameter.register_post_accumulate_grad_hook(lambda p, name=name: step(p, name))
        return model, log

    (plain, expected), (model, found) = build(), build()
    compiled = saker.compile(model)
    for _ in range(4):
        plain(torch.ones(2, 4)).sum().backward()
        compiled(torch.ones(2, 4)).sum().backward()
        assert found == expected
        assert bits(list(model.parameters())) == bits(list(plain.parameters()))


@pytest.mark.parametrize("compile", COMPILERS)
def test_a_long_chain_of_calls_is_freed(compile: Any) -> None:
    compiled = compile(apart)
    a, b = (x * 1 for x in leaves(2))
    for _ in range(20_000):
        a, b = compiled(a, b)
    del a, b


@pytest.mark.parametrize("compile", COMPILERS)
def test_what_a_backward_frees_is_freed_in_turn(compile: Any) -> None:
    def scenario(call: Callable[..., Any]) -> Any:
        given, log = leaves(2), []
        for i, x in enumerate(given):
            x.register_post_accumulate_grad_hook(lambda x, i=i: log.append((i, bits(x.grad))))
        results = call(*given)
        sum(result.sum() for result in results).backward()
        for result in results:
            try:
                result.sum().backward()
            except RuntimeError as error:
                log.append(str(error)[:40])
        return log

    equal(shared, scenario, compile)


@pytest.mark.parametrize("compile", COMPILERS, ids=["compile", "aot"])
@pytest.mark.parametrize("first", range(0, 600 if os.environ.get("SAKER_SWEEP") != "full" else 20_000, 50))
def test_random_programs_and_callers(first: int, compile: Any) -> None:
    found = [each for seed in range(first, first + 50) if (each := differs(seed, compile))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("compile", COMPILERS, ids=["compile", "aot"])
def test_an_argument_that_nobody_reads_is_written_before_gradients_are_differentiated(compile: Any) -> None:
    assert not differs(51833, compile)


def parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Some are results of one operator, and belong to one node."""
    u, s, v = torch.linalg.svd(x.sin())
    largest, _ = x.max(0)
    return u.abs(), s, v.abs(), x.cos(), largest


@pytest.mark.parametrize("wrap", [saker.compile, saker.aot_function])
@pytest.mark.parametrize("used", [(0,), (2,), (0, 1), (1, 2), (0, 1, 2), (0, 3), (3, 4), (0, 1, 2, 3, 4)])
def test_gradients_by_some_results_of_one_operator(used: tuple[int, ...], wrap: Callable) -> None:
    compiled = wrap(parts)
    matrix = torch.tensor([[0.9, 0.1, 0.3], [-0.2, 0.7, 0.5], [0.4, -0.6, 1.1]], dtype=torch.float64)
    for factor in (1.0, 0.5, 0.25):
        found = []
        for call in (parts, compiled):
            x = (matrix * factor).requires_grad_()
            results = call(x)
            found.append(torch.autograd.grad(sum(results[i].square().sum() for i in used), x)[0])
        torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("first", ["relu", "gelu"])
def test_hooks_of_parameters_of_equal_layers_keep_their_order(first: str) -> None:
    """Layers that are differentiated once: within each of them gradients are given in eager mode's order."""
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.ModuleList([nn.Linear(4, 8), nn.Linear(8, 4)]) for _ in range(6))
    activate = getattr(nn.functional, first)

    def model(x: torch.Tensor) -> torch.Tensor:
        for begin, end in layers:  # type: ignore[misc]
            x = x + end(activate(begin(x)))
        return x

    def called(call: Callable[..., Any]) -> Log:
        layers.zero_grad()
        log.clear()
        call(torch.ones(2, 4)).square().sum().backward()
        return list(log)

    log: Log = []
    for name, parameter in layers.named_parameters():
        parameter.register_hook(lambda grad, name=name: log.append((name, bits(grad))))
        parameter.register_post_accumulate_grad_hook(lambda p, name=name: log.append(("post", name, bits(p.grad))))
    compiled, before = saker.compile(model), saker.stats()["replays"]
    for _ in range(4):
        assert called(compiled) == called(model)
    assert saker.stats()["replays"] == before + 3
