"""Gradients of programs that compute with numbers of Python's that change: compiled where operators take the numbers as
operands, with eager mode's bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import saker
from differential import same

STEPS = 10


def instead() -> dict[str, int]:
    return {name: count for name, count in saker.stats()["instead"].items() if count}


Program = Callable[[torch.Tensor, torch.Tensor, float], Any]

COMPILED: dict[str, Program] = {
    "a product": lambda x, w, s: (x * w).sin() * (s * 0.5),
    "a quotient": lambda x, w, s: (x * w).sin() / (1 + s * s),
    "from the other side": lambda x, w, s: (1 - s) - (x * w).exp() + (s + 1) / (x * x + 1),
    "a sum of losses": lambda x, w, s: (x * w).pow(2).sum() * s + (1 - s) * x.abs().sum(),
    "a number as it is": lambda x, w, s: (((x * w).sum() * s).sin() * s + s).exp() * (x * s),
    "of no dimension": lambda x, w, s: ((x * w).sum() * (s * 3)).sin() * s,
    "a power of a tensor": lambda x, w, s: (x * w).abs() + torch.tensor(2.0) * (s + 1),
    "a function": lambda x, w, s: torch.sin(x * w) * math.sqrt(s) + math.exp(-s) * w,
    "the same twice": lambda x, w, s: x * (s * 2) + w * (s * 2) * (s * 2),
    "a write": lambda x, w, s: (x * w).mul_(s * 2).add_(s / 3),
    "a buffer": lambda x, w, s: torch.zeros(4).add_(s * 2) * x * w,
    "detached": lambda x, w, s: ((x * w).detach() * (s * 2), x * w * (s * 3)),
    "a number returned": lambda x, w, s: ((x * w).sin() * (s * 2), s * 3, s),
    "no gradient of one": lambda x, w, s: (x * w).sin() * (s * 0.5) + (x.detach() * (1 - s)).cos(),
    "subtracted from": lambda x, w, s: (s * 2 - x * w).sin() + (s - w) + (1 - s) / (x * x + 1),
    "a power": lambda x, w, s: (x * w) ** 2 * s**2,
    "in a region without": lambda x, w, s: x * w * (s + 1) + without(w, s),
    "dependent results": lambda x, w, s: ((x * w * (s / 2)).sum(), x.cos() * (s * 2)),
}


def without(w: torch.Tensor, s: float) -> torch.Tensor:
    with torch.no_grad():
        return w * (s * 4)


# Where an operator takes the number elsewhere, autograd follows the recording.
FOLLOWED: dict[str, Program] = {
    "alpha": lambda x, w, s: torch.add(x, w, alpha=s * 2),
    "leaky": lambda x, w, s: nn.functional.leaky_relu(x * w, s / 2),
    "clamped": lambda x, w, s: (x * w).clamp(-s, s * 2),
    "a tensor of the number": lambda x, w, s: torch.scalar_tensor(s * 2) * x * w,
    "a half of the number": lambda x, w, s: torch.scalar_tensor(s, dtype=torch.float16) * x * w,
    "of data": lambda x, w, s: x * (w.sum().item() * 0.5) + s * w,
}


def leaves(result: Any) -> list[torch.Tensor]:
    parts = result if isinstance(result, tuple) else (result,)
    return [each for each in parts if isinstance(each, torch.Tensor) and each.requires_grad]


def plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    return value.detach() if isinstance(value, torch.Tensor) else value


def check(function: Program, dtype: torch.dtype, twice: bool = False) -> None:
    compiled = saker.compile(function)
    before, graphs = saker.stats()["replays"], saker.stats()["graphs"]
    for step in range(STEPS):
        s = 0.25 + 0.125 * step
        given = [torch.randn(4, dtype=dtype, requires_grad=True) for _ in range(2)]
        expected = [each.detach().clone().requires_grad_() for each in given]
        got, wanted = compiled(*given, s), function(*expected, s)
        same(plain(got), plain(wanted))
        grads = [
            torch.autograd.grad([each.sum() for each in leaves(result)], tensors, create_graph=twice, allow_unused=True)
            for result, tensors in ((got, given), (wanted, expected))
        ]
        same(plain(grads[0]), plain(grads[1]))
        if twice and any(g is not None and g.requires_grad for g in grads[1]):
            seconds = [
                torch.autograd.grad(
                    sum(g.pow(2).sum() for g in found if g is not None and g.requires_grad), tensors, allow_unused=True
                )
                for found, tensors in ((grads[0], given), (grads[1], expected))
            ]
            same(*seconds)
    assert saker.stats()["replays"] - before >= STEPS - 3
    assert saker.stats()["graphs"] - graphs <= 3


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", COMPILED)
def test_operands(name: str, dtype: torch.dtype, twice: bool) -> None:
    before = instead()
    check(COMPILED[name], dtype, twice)
    assert instead() == before


@pytest.mark.parametrize("name", FOLLOWED)
def test_numbers_that_formulas_may_look_at(name: str) -> None:
    before = instead().get("number-is-data", 0)
    check(FOLLOWED[name], torch.float32)
    assert instead()["number-is-data"] > before


def test_a_number_that_has_no_value_raises_what_python_raises() -> None:
    def function(x: torch.Tensor, s: float) -> torch.Tensor:
        return x.sin() * (1 / s)

    compiled = saker.compile(function)
    for s in (1.0, 2.0, 3.0, 0.0, 4.0, 0.0):
        x = torch.randn(3, requires_grad=True)
        if s == 0:
            with pytest.raises(ZeroDivisionError, match="float division by zero"):
                compiled(x, s)
            continue
        y = x.detach().clone().requires_grad_()
        got, expected = compiled(x, s), function(y, s)
        same(got.detach(), expected.detach())
        same(torch.autograd.grad(got.sum(), x), torch.autograd.grad(expected.sum(), y))


@pytest.mark.parametrize("s", [0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 5e-324, 1e308])
def test_special_numbers(s: float) -> None:
    def function(x: torch.Tensor, s: float) -> torch.Tensor:
        return (x * (s * 1.0)).sin() + x * x * (s - 1)

    compiled = saker.compile(function)
    for each in (0.5, 0.25, s, 0.75, s):
        x = torch.tensor([0.0, -0.0, 1.5, math.inf], requires_grad=True)
        y = x.detach().clone().requires_grad_()
        got, expected = compiled(x, each), function(y, each)
        same(got.detach(), expected.detach())
        same(torch.autograd.grad(got.sum(), x), torch.autograd.grad(expected.sum(), y))


class Weighted(nn.Module):
    """A loss of two parts, weighted by a schedule that the module keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        self.weight, self.decay = 1.0, 0.9

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.weight *= self.decay
        out = self.net(x)
        return nn.functional.mse_loss(out, y) * (1 - self.weight) + out.abs().mean() * (self.weight * 0.5)


def test_training_with_a_schedule_of_losses() -> None:
    torch.manual_seed(0)
    given, expected = Weighted(), Weighted()
    expected.load_state_dict(given.state_dict())
    compiled, before, followed = saker.compile(given), saker.stats()["replays"], instead()
    steps = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (given, expected)]
    for _ in range(STEPS):
        x, y = torch.randn(3, 4), torch.randn(3, 2)
        for module, step in zip((compiled, expected), steps, strict=True):
            step.zero_grad()
            module(x, y).backward()
            step.step()
        for one, other in zip(given.parameters(), expected.parameters(), strict=True):
            assert torch.equal(one, other)
        assert given.weight == expected.weight
    assert saker.stats()["replays"] - before >= STEPS - 3
    assert instead() == followed
