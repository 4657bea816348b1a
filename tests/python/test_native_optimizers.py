"""Generated code of optimizers' steps: learning rates and counts of steps are given to kernels as they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

import saker
from generated_code import needs_code
from saker import _C
from test_native import launches

Tensor = torch.Tensor
pytestmark = needs_code

SHAPES = [(64, 32), (64,), (128, 65), (5, 7, 3), (1,)]
STEPS = 9


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SAKER_COMPILE", "sync")
    yield
    saker.reset()


Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, tuple[Make, bool]] = {  # and whether the results are eager mode's to the bit
    "sgd": (lambda ps: torch.optim.SGD(ps, lr=0.1, weight_decay=0.01), True),
    "momentum": (lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9), True),
    "momentum loop": (lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=False), True),
    "momentum foreach": (lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, foreach=True), True),
    # Square roots are correctly rounded, which those of MKL are not always.
    "adamw loop": (lambda ps: torch.optim.AdamW(ps, lr=0.1, foreach=False), False),
    "adamw foreach": (lambda ps: torch.optim.AdamW(ps, lr=0.1, foreach=True), False),
    "adam amsgrad loop": (lambda ps: torch.optim.Adam(ps, lr=0.1, amsgrad=True, foreach=False), False),
    "adam foreach": (lambda ps: torch.optim.Adam(ps, lr=0.1, weight_decay=0.01, foreach=True), False),
    "rmsprop": (lambda ps: torch.optim.RMSprop(ps, lr=0.1, momentum=0.5), False),
    "adagrad": (lambda ps: torch.optim.Adagrad(ps, lr=0.1, lr_decay=0.1), False),
}


class Trained:
    def __init__(self, make: Make) -> None:
        generator = torch.Generator().manual_seed(0)
        self.parameters = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]
        self.optimizer = make(self.parameters)
        self.scheduler = lr_scheduler.ExponentialLR(self.optimizer, 0.9)

    def gradients(self, step: int) -> None:
        generator = torch.Generator().manual_seed(step)
        for each in self.parameters:
            each.grad = torch.randn(each.shape, generator=generator)

    def state(self) -> list[Tensor]:
        kept = [each.detach() for each in self.parameters]
        for state in self.optimizer.state.values():
            kept += [each for each in state.values() if isinstance(each, Tensor)]
        return kept


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_with_a_rate_that_changes(name: str, bound: bool) -> None:
    make, exact = OPTIMIZERS[name]
    ours, others = Trained(make), Trained(make)

    def whole() -> None:
        ours.optimizer.step()

    step = saker.compile(ours.optimizer.step if bound else whole, backend="native")
    graphs = 0
    for number in range(STEPS):
        ours.gradients(number)
        others.gradients(number)
        before = saker.stats()
        _, count = launches(step)
        others.optimizer.step()
        ours.scheduler.step()
        others.scheduler.step()
        if number >= 5:  # what is recorded and compiled is there
            assert count > 0, _C.code_error()
            assert saker.stats()["replays"] - before["replays"] == 1
            assert saker.stats()["graphs"] == graphs
        graphs = saker.stats()["graphs"]
        near = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-5, "atol": 1e-5}
        for one, other in zip(ours.state(), others.state(), strict=True):
            torch.testing.assert_close(one, other, **near)
        assert [each._version for each in ours.parameters] == [each._version for each in others.parameters]


def updated(x: Tensor, y: Tensor, rate: float) -> Tensor:
    x.mul_(1 - rate)
    x.add_(y, alpha=-rate)
    return (x * rate + y / rate).clamp(min=rate)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_a_number_that_is_an_argument(dtype: torch.dtype) -> None:
    compiled, count = saker.compile(updated, backend="native"), 0
    for rate in (0.1, 0.25, 3.0, -1e-3, 1.0, 1e4, 0.7):
        # Whole vectors: at the ends of rows eager mode rounds sums with alpha twice in half precision.
        x, y = torch.randn(64).to(dtype), torch.randn(64).to(dtype)
        ours, other = x.clone(), x.clone()
        found, launched = launches(lambda ours=ours, y=y, rate=rate: compiled(ours, y, rate))
        count += launched
        torch.testing.assert_close(found, updated(other, y, rate), rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(ours, other, rtol=0, atol=0, equal_nan=True)
    assert count > 0, _C.code_error()


def read_between(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    x.mul_(3)
    number = x.select(0, 0).item()
    x.sub_(7)
    x.mul_(2)
    return y * number + 1


def test_a_number_that_is_read_between_writes() -> None:
    """It is what it was there, whatever kernels write before and behind it."""
    compiled, count = saker.compile(read_between, backend="native"), 0
    for step in range(5):
        x, y = torch.randn(40) + step, torch.randn(40)
        ours, other = x.clone(), x.clone()
        found, launched = launches(lambda ours=ours, y=y: compiled(ours, y))
        count += launched
        assert torch.equal(found, read_between(other, y))
        assert torch.equal(ours, other)
    assert count > 0, _C.code_error()


def divided(x: Tensor, y: Tensor, rate: float) -> Tensor:
    x.add_(1)
    x.mul_(2)
    y.sub_(x)
    y.mul_(1 / rate)
    x.add_(y)
    return x * (1 / rate)


@pytest.mark.parametrize("backend", ["native", "aten"])
def test_a_number_without_a_value(backend: str) -> None:
    """Python raises in the middle: what was written before is written, and is counted."""
    compiled = saker.compile(divided, backend=backend)
    for rate in (0.5, 0.25, 2.0, 0.0, 4.0, 0.0, 1.0):
        x, y = torch.randn(40), torch.randn(40)
        outcomes = []
        for function in (compiled, divided):
            own = [x.clone(), y.clone()]
            first = [each._version for each in own]
            try:
                result: Tensor | str = function(*own, rate)
            except ZeroDivisionError as error:
                result = str(error)
            outcomes.append((result, *own, *[each._version - old for each, old in zip(own, first, strict=True)]))
        for one, other in zip(*outcomes, strict=True):
            assert torch.equal(one, other) if isinstance(one, Tensor) else one == other
