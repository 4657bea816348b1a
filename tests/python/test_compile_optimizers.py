"""Steps of optimizers inside of compiled functions: learning rates that schedulers change, and counts of steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker
from differential import same
from trained import SCHEDULERS, Make, Trained, step_both

STEPS = 12

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda ps: torch.optim.SGD(ps, lr=0.1),
    "sgd momentum": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.01),
    "sgd nesterov": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "sgd maximize": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, dampening=0.1, maximize=True),
    "sgd foreach": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=True),
    "sgd nesterov foreach": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, foreach=True),
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.1),
    "adam loop": lambda ps: torch.optim.Adam(ps, lr=0.1, weight_decay=0.01, foreach=False),
    "adam foreach": lambda ps: torch.optim.Adam(ps, lr=0.1, weight_decay=0.01, foreach=True),
    "adam amsgrad": lambda ps: torch.optim.Adam(ps, lr=0.1, amsgrad=True, foreach=False),
    "adam amsgrad foreach": lambda ps: torch.optim.Adam(ps, lr=0.1, amsgrad=True, foreach=True),
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=0.1),
    "adamw loop": lambda ps: torch.optim.AdamW(ps, lr=0.1, foreach=False),
    "adamw foreach": lambda ps: torch.optim.AdamW(ps, lr=0.1, foreach=True),
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_step(name: str, scheduler: str) -> None:
    given, expected = Trained(OPTIMIZERS[name], scheduler), Trained(OPTIMIZERS[name], scheduler)
    before = saker.stats()

    @saker.compile
    def step() -> None:
        given.optimizer.step()

    for _ in range(STEPS):
        step_both(given, expected, step)
        assert [p._version for p in given.model.parameters()] == [p._version for p in expected.model.parameters()]
    assert saker.stats()["replays"] - before["replays"] >= STEPS - 5
    assert saker.stats()["graphs"] - before["graphs"] <= 4


def test_the_rate_is_an_argument() -> None:
    def update(parameters: list[torch.Tensor], gradients: list[torch.Tensor], rate: float, decay: float) -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.mul_(1 - rate * decay)
            parameter.add_(gradient, alpha=-rate)
        torch._foreach_addcdiv_(parameters, gradients, [g.abs() + 1 for g in gradients], [rate, rate * 2])

    given, expected = [torch.randn(3), torch.randn(2, 2)], []
    expected = [each.clone() for each in given]
    compiled, before = saker.compile(update), saker.stats()["replays"]
    for step in range(STEPS):
        gradients = [torch.randn(3), torch.randn(2, 2)]
        compiled(given, gradients, 0.5 / (step + 1), 0.01)
        update(expected, gradients, 0.5 / (step + 1), 0.01)
        same(given, expected)
    assert saker.stats()["replays"] - before >= STEPS - 3


class OwnAdam:
    """An optimizer as a user writes it."""

    def __init__(self, parameters: list[torch.Tensor], rate: float, count: float) -> None:
        self.parameters, self.rate, self.count = parameters, rate, count
        self.means = [torch.zeros_like(each) for each in parameters]
        self.squares = [torch.zeros_like(each) for each in parameters]

    def step(self, gradients: list[torch.Tensor]) -> None:
        self.count += 1
        first, second = 1 - 0.9**self.count, 1 - 0.999**self.count
        size = self.rate * math.sqrt(second) / first
        for parameter, gradient, mean, square in zip(self.parameters, gradients, self.means, self.squares, strict=True):
            mean.mul_(0.9).add_(gradient, alpha=0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            parameter.addcdiv_(mean, square.sqrt() + 1e-8, value=-size)


@pytest.mark.parametrize("start", [0.0, 0])
@pytest.mark.parametrize("falls", [False, True])
def test_own_optimizer(falls: bool, start: float) -> None:
    """Steps that are counted in a float have one recording. Powers of an int that counts are compared."""
    torch.manual_seed(0)
    given = OwnAdam([torch.randn(3), torch.randn(2, 2)], 0.1, start)
    expected = OwnAdam([each.clone() for each in given.parameters], 0.1, start)
    compiled, before = saker.compile(given.step), saker.stats()["replays"]
    for step in range(STEPS):
        gradients = [torch.randn(3), torch.randn(2, 2)]
        if falls:
            given.rate = expected.rate = 0.1 * 0.9**step
        compiled(gradients)
        expected.step(gradients)
        same([given.parameters, given.means, given.squares], [expected.parameters, expected.means, expected.squares])
        assert given.count == expected.count and type(given.count) is type(start)
    if isinstance(start, float):
        assert saker.stats()["replays"] - before >= STEPS - 5


# --- numbers that are read from data ---

ITEMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "returned": lambda x: x.sum().item(),
    "computed": lambda x: x.sum().item() * 2 + 1,
    "a divisor": lambda x: x / (x.abs().sum().item() + 1),
    "alpha": lambda x: torch.add(x, x, alpha=x.mean().item()),
    "clamped": lambda x: x.clamp(-abs(x.mean().item()), 1.0),
    "a root": lambda x: x * math.sqrt(abs(x.sum().item())),
    "a list": lambda x: torch._foreach_mul([x, x + 1], [x.sum().item(), x.mean().item()]),
    "in a list": lambda x: [x * 2, x.sum().item(), {"mean": x.mean().item()}],
    "a power": lambda x: x.abs() ** (1 + abs(x.sum().item())),
    "full": lambda x: x + torch.full((4,), x.sum().item()),
    "written": lambda x: x.clone().mul_(x.sum().item()),
    "half": lambda x: x.half().sum().item(),
}


@pytest.mark.parametrize("name", ITEMS)
def test_item(name: str) -> None:
    function = ITEMS[name]
    compiled, before = saker.compile(function, fullgraph=True), saker.stats()["replays"]
    for _ in range(6):
        x = torch.randn(4)
        same(compiled(x), function(x))
    assert saker.stats()["replays"] - before == 5


def test_item_with_gradients() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, float]:
        loss = (x * x).sum()
        return loss * (1 / (1 + abs(loss.item()))), loss.item()

    compiled = saker.compile(function)
    for _ in range(4):
        x = torch.randn(4, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        (got, number), (expected, other) = compiled(x), function(y)
        assert number == other and type(number) is float
        got.backward()
        expected.backward()
        same(x.grad, y.grad)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2 if x.sum().item() > 0 else x * 3,
        lambda x: x[int(x.sum().item()) % 2],
        lambda x: f"{x.sum().item():.3f}",
        lambda x: {x.sum().item(): 1},
        lambda x: x * max(x.sum().item(), 0.0),
        lambda x: x * round(x.sum().item(), 2),
        lambda x: math.sqrt(abs(x).sum()) * x,
        lambda x: x * x.long().sum().item(),
        lambda x: x * (x.sum().item() ** 0.5).real,
    ],
)
def test_items_that_decide_run_eagerly(function: Callable[[torch.Tensor], Any]) -> None:
    compiled = saker.compile(function)
    for step in range(6):
        x = torch.randn(4) + (-1) ** step
        same(compiled(x), function(x))


def test_numbers_that_are_equal_by_chance() -> None:
    """The values of arguments tell which is which: where two are equal, the call is not recorded."""

    def function(x: torch.Tensor, low: float, high: float) -> torch.Tensor:
        return x.clamp(low, high)

    compiled = saker.compile(function)
    for low, high in [(-1.0, 1.0), (-0.5, 0.5), (0.25, 0.25), (-0.3, 0.3), (0.1, 0.2), (-0.7, 0.9), (0.4, 0.4)]:
        x = torch.randn(8)
        same(compiled(x, low, high), function(x, low, high))


# --- arithmetic that fails ---


def test_a_division_by_zero_raises_what_python_raises() -> None:
    def function(x: torch.Tensor, total: torch.Tensor, rate: float) -> torch.Tensor:
        total += 1
        return torch.add(x, x, alpha=1 / rate)

    compiled = saker.compile(function)
    totals = torch.zeros(()), torch.zeros(())
    for rate in (1.0, 2.0, 3.0, 4.0, 0.0, 5.0):
        x = torch.randn(3)
        if rate == 0:
            with pytest.raises(ZeroDivisionError, match="float division by zero"):
                function(x, totals[1], rate)
            with pytest.raises(ZeroDivisionError, match="float division by zero"):
                compiled(x, totals[0], rate)
        else:
            same(compiled(x, totals[0], rate), function(x, totals[1], rate))
        same(totals[0], totals[1])


def test_a_failure_that_is_caught() -> None:
    def function(x: torch.Tensor, total: torch.Tensor, rate: float) -> torch.Tensor:
        total += 1
        try:
            return torch.add(x, x, alpha=math.sqrt(rate))
        except ValueError:
            return x

    compiled = saker.compile(function)
    totals = torch.zeros(()), torch.zeros(())
    for rate in (1.0, 2.0, 3.0, -4.0, 5.0, -1.0, 6.0):
        x = torch.randn(3)
        same(compiled(x, totals[0], rate), function(x, totals[1], rate))
        same(totals[0], totals[1])


def test_a_root_of_a_negative_number_is_complex() -> None:
    def function(x: torch.Tensor, rate: float) -> Any:
        return x * rate**0.5

    compiled = saker.compile(function)
    for rate in (1.0, 2.0, 3.0, -4.0, 5.0, 6.0):
        x = torch.randn(3)
        same(compiled(x, rate), function(x, rate))
