"""Floats that change from call to call, wherever a program keeps them: one more recording after the second value, and
then replays. Optimizers with counts and rates of their own."""

from __future__ import annotations

import collections
import copy
import dataclasses
import math
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

import saker
from alone import alone
from differential import same

CALLS = 10


@dataclasses.dataclass
class Settings:
    rate: float
    steps: int = 1


class Named(NamedTuple):
    rate: float


class Asked:
    def __init__(self, rate: float) -> None:
        self._rate = rate

    @property
    def rate(self) -> float:
        return self._rate


PLACES: dict[str, tuple[Callable, Callable[[float], Any]]] = {
    "dataclass": (lambda x, a: x * a.rate, Settings),
    "named tuple": (lambda x, a: x * a.rate, Named),
    "property": (lambda x, a: x * a.rate, Asked),
    "namespace": (lambda x, a: x * a.rate, lambda v: types.SimpleNamespace(rate=v)),
    "dict in a dict": (lambda x, a: x * a["of"]["rate"], lambda v: {"of": {"rate": v}}),
    "ordered dict": (lambda x, a: x * a["rate"], lambda v: collections.OrderedDict(rate=v)),
    "default dict": (lambda x, a: x * a["rate"], lambda v: collections.defaultdict(float, rate=v)),
    "list": (lambda x, a: x * a[0] + a[1], lambda v: [v, v * 2]),
    "tuple": (lambda x, a: x * a[0] + a[1], lambda v: (v, v * 2)),
    "deque": (lambda x, a: x * a[0], lambda v: collections.deque([v])),
    "number of NumPy": (lambda x, a: x * a, np.float64),
}

USES: dict[str, Callable[[torch.Tensor, float], Any]] = {
    "float()": lambda x, s: x * float(s),
    "above": lambda x, s: x > s,
    "at most": lambda x, s: x <= s,
    "equal": lambda x, s: x == s,
    "the number first": lambda x, s: s < x,
    "a mask": lambda x, s: torch.where(x > s, x, s),
    "a threshold": lambda x, s: x * (x.abs() > s),
    "the smaller": lambda x, s: x * min(s, 7.5),
    "the larger": lambda x, s: x * max(0.01, s),
    "computed": lambda x, s: x * math.exp(-s) + math.sqrt(s),
    "returned": lambda x, s: (x * s, s),
}


def check(function: Callable, make: Callable[[float], Any], *, grad: bool = False) -> None:
    compiled, before = saker.compile(function), saker.stats()
    for step in range(CALLS):
        value = 0.05 * (step + 1)
        mine = torch.tensor([0.05, 0.1, -0.3, 2.0], requires_grad=grad)
        theirs = mine.detach().clone().requires_grad_(grad)
        found, expected = compiled(mine, make(value)), function(theirs, make(value))
        if grad:
            same(found.detach(), expected.detach())
            found.sum().backward()
            expected.sum().backward()
            same(mine.grad, theirs.grad)
        else:
            same(found, expected)
    after = saker.stats()
    assert after["graphs"] - before["graphs"] <= 3
    assert after["replays"] - before["replays"] >= CALLS - 3


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", PLACES)
def test_places(name: str, grad: bool) -> None:
    check(*PLACES[name], grad=grad)


@pytest.mark.parametrize("name", USES)
def test_uses(name: str) -> None:
    check(USES[name], float)


def test_a_choice_that_changes() -> None:
    """min() and max() give the other argument from the fifth call on, and again."""

    def clipped(x: torch.Tensor, s: float) -> torch.Tensor:
        return x * min(max(s, 0.2), 0.5)

    compiled, x = saker.compile(clipped), torch.rand(4)
    values = [0.05 * step for step in range(15)] + [0.3, 0.1, math.nan, -0.0, 0.2, 0.5, math.inf]
    for value in values * 2:
        found, expected = compiled(x, value), clipped(x, value)
        assert torch.equal(found.view(torch.int32), expected.view(torch.int32)), value


def test_comparisons_with_special_numbers() -> None:
    x = torch.tensor([0.0, -0.0, 1.0, math.nan, math.inf, 5e-324, 0.1])
    for function in (lambda x, s: x > s, lambda x, s: s >= x, lambda x, s: x == s, lambda x, s: x != s):
        compiled = saker.compile(function)
        for dtype in (torch.float32, torch.float64, torch.float16, torch.int64):
            given = x.nan_to_num(0, 3).to(dtype) if dtype is torch.int64 else x.to(dtype)
            for value in (0.5, 0.1, 1.0, 0.0, -0.0, math.nan, math.inf, 5e-324, 1e30, 0.1):
                same(compiled(given, value), function(given, value))


class Average(nn.Module):
    """An average whose decay the module changes in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.decay, self.steps = 0.9, 0
        self.register_buffer("kept", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.decay = min(0.999, (1 + self.steps) / (10 + self.steps))
        self.kept.mul_(self.decay).add_(x, alpha=1 - self.decay)
        return self.kept * 1


@alone
def test_a_decay_that_the_module_changes() -> None:
    mine, theirs = Average(), Average()
    compiled, before = saker.compile(mine), saker.stats()["graphs"]
    for _ in range(12):
        x = torch.randn(3)
        same(compiled(x), theirs(x))
        assert (mine.decay, mine.steps) == (theirs.decay, theirs.steps)
    assert saker.stats()["graphs"] - before <= 4


Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "NAdam": lambda ps: torch.optim.NAdam(ps, lr=0.05),
    "Adadelta": lambda ps: torch.optim.Adadelta(ps, lr=0.05),
    "Adagrad": lambda ps: torch.optim.Adagrad(ps, lr=0.05, lr_decay=0.01),
    "Adamax": lambda ps: torch.optim.Adamax(ps, lr=0.05),
    "RMSprop": lambda ps: torch.optim.RMSprop(ps, lr=0.05, momentum=0.9, centered=True),
    "Rprop": lambda ps: torch.optim.Rprop(ps, lr=0.05),
    "AdamW, two groups": lambda ps: torch.optim.AdamW([{"params": ps[:1], "lr": 0.1}, {"params": ps[1:]}], lr=0.05),
}

# What decides on data: they run eagerly, with eager mode's results.
EAGER: dict[str, Make] = {
    "RAdam, which compares its count": lambda ps: torch.optim.RAdam(ps, lr=0.05),
    "ASGD, which compares its count": lambda ps: torch.optim.ASGD(ps, lr=0.05, foreach=False),
    "Adafactor, which takes the smaller of two": lambda ps: torch.optim.Adafactor(ps, lr=0.05),
    "AdamW, a rate that is a tensor": lambda ps: torch.optim.AdamW(ps, lr=torch.tensor(0.05), foreach=False),
}


@pytest.mark.parametrize("name", [*OPTIMIZERS, *EAGER])
def test_steps_of_optimizers(name: str) -> None:
    make = OPTIMIZERS.get(name) or EAGER[name]
    given = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    models = [copy.deepcopy(given) for _ in range(2)]
    mine, theirs = (make(list(model.parameters())) for model in models)
    schedules = [lr_scheduler.LambdaLR(each, lambda epoch: 1 / (1 + epoch)) for each in (mine, theirs)]
    before = saker.stats()

    @saker.compile
    def step() -> None:
        mine.step()

    for _ in range(12):
        x = torch.randn(3, 4)
        for model in models:
            model.zero_grad()
            model(x).pow(2).sum().backward()
        step()
        theirs.step()
        for each in schedules:
            each.step()
        same([list(models[0].parameters())], [list(models[1].parameters())])
        same([dict(each) for each in mine.state.values()], [dict(each) for each in theirs.state.values()])
    after = saker.stats()
    if name in OPTIMIZERS:
        assert after["replays"] - before["replays"] >= 7
        assert after["graphs"] - before["graphs"] <= 4
