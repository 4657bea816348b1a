"""Lengths of tensors (`len(x)`), what Python makes of sizes, and how a size that fits no recording is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import saker
from differential import same

LABELS = torch.arange(64) % 4

ONE_FOR_ALL: dict[str, Callable[[torch.Tensor], Any]] = {
    "divides": lambda x: x / len(x),
    "a range": lambda x: x + torch.arange(len(x))[:, None],
    "rows of a loss": lambda x: functional.cross_entropy(x @ x.t(), torch.arange(len(x))),
    "a new tensor": lambda x: (torch.zeros(len(x), 3), x.new_ones(len(x)), torch.tensor(len(x))),
    "a mask": lambda x: torch.ones(len(x), len(x)).tril() @ x,
    "a half": lambda x: x[: len(x) // 2],
    "returned": lambda x: (x * 2, len(x)),
    "of a result": lambda x: (x * len(torch.cat([x, x])), len(x.t())),
    "a number to Python": lambda x: x * (len(x) if isinstance(len(x), int) and type(len(x)) is int else 0),
    "the smaller": lambda x: x[: min(len(x), 100)],
    "divmod": lambda x: (x * divmod(len(x), 3)[0], divmod(x.shape[0], 2)[1] + len(x)),
    "divmod of two": lambda x: x * divmod(x.numel(), len(x))[0],
}

# Python needs the number itself.
ONE_FOR_EACH: dict[str, Callable[[torch.Tensor], Any]] = {
    "a loop": lambda x: sum(x[i] for i in range(len(x))),
    "mapped": lambda x: x * sum(map(len, [x, x])),
    "a text": lambda x: (x, f"{len(x)}"),
    "a list": lambda x: [x] * len(x),
    "a divmod of a float": lambda x: x * divmod(len(x), 2.5)[1],
}


def counts() -> tuple[int, int]:
    told = saker.stats()
    return told["graphs"], told["replays"]


@pytest.mark.parametrize("name", [*ONE_FOR_ALL, *ONE_FOR_EACH])
def test_lengths(name: str) -> None:
    function = ONE_FOR_ALL.get(name) or ONE_FOR_EACH[name]
    compiled = saker.compile(function)
    before = counts()
    for rows in range(4, 16):
        x = torch.randn(rows, 4, requires_grad=True)
        same_values(compiled(x), function(x))
    if name in ONE_FOR_ALL:
        assert counts()[0] - before[0] <= 3
        assert counts()[1] - before[1] >= 12 - 4


def same_values(got: Any, expected: Any) -> None:
    """Results of compiled gradients have nodes of their own."""
    detached = [
        tuple(each.detach() if isinstance(each, torch.Tensor) else each for each in parts)
        for parts in ((one if isinstance(one, tuple) else (one,)) for one in (got, expected))
    ]
    for one, other in zip(*detached, strict=True):
        assert type(one) is type(other)
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


@pytest.mark.parametrize("call", ["len", "divmod"])
def test_errors_of_lengths_are_those_of_python(call: str) -> None:
    function = {"len": lambda x: len(x.sum()), "divmod": lambda x: divmod(len(x), len(x) - len(x))}[call]
    compiled = saker.compile(function)
    for rows in (3, 4, 5):
        with pytest.raises(Exception) as expected:
            function(torch.ones(rows))
        with pytest.raises(expected.type) as got:
            compiled(torch.ones(rows))
        assert str(got.value) == str(expected.value)


class OfItsOwn(torch.Tensor):
    def __len__(self) -> int:
        return 7


def test_a_class_with_a_length_of_its_own() -> None:
    function = lambda x: x.sum() * len(x)  # noqa: E731
    compiled = saker.compile(function)
    for rows in range(3, 8):
        x = torch.ones(rows).as_subclass(OfItsOwn)
        assert torch.equal(compiled(x), function(x))


class Counting(nn.Module):
    """Batch norm writes to its statistics before the loss looks at labels."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.norm(self.linear(x)), labels)


def state(model: nn.Module) -> list[torch.Tensor | None]:
    return [*(each.clone() for each in model.state_dict().values()), *(each.grad for each in model.parameters())]


def step(run: Callable[..., torch.Tensor], model: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> Any:
    model.zero_grad()
    try:
        loss = run(x, labels)
    except IndexError as error:
        return str(error), state(model)
    loss.backward()
    return loss.detach(), state(model)


def test_a_loss_behind_statistics_has_one_recording_for_all_sizes() -> None:
    torch.manual_seed(0)
    model, eager = Counting(), Counting()
    eager.load_state_dict(model.state_dict())
    compiled = saker.compile(model)
    before = counts()
    for rows in range(4, 16):
        x = torch.randn(rows, 3)
        same(step(compiled, model, x, LABELS[:rows]), step(eager, eager, x, LABELS[:rows]))
    assert counts()[0] - before[0] == 2
    assert counts()[1] - before[1] == 10


def test_such_a_loss_that_fails_leaves_what_eager_mode_leaves() -> None:
    torch.manual_seed(0)
    model, eager = Counting(), Counting()
    eager.load_state_dict(model.state_dict())
    compiled = saker.compile(model)
    for rows in range(4, 16):
        x, labels = torch.randn(rows, 3), LABELS[:rows].clone()
        if rows % 3 == 0:
            labels[1] = 9
        same(step(compiled, model, x, labels), step(eager, eager, x, labels))


def test_without_gradients_each_size_has_its_own() -> None:
    model = Counting()
    eager = Counting()
    eager.load_state_dict(model.state_dict())
    compiled = saker.compile(model)
    with torch.no_grad():
        for rows in range(4, 9):
            x = torch.randn(rows, 3)
            same(compiled(x, LABELS[:rows]), eager(x, LABELS[:rows]))
            same(state(model), state(eager))


TOLD: dict[str, tuple[Callable[..., Any], list[tuple[tuple[int, ...] | float, ...]], str]] = {
    "a size that is fixed": (
        lambda x: sum(x[i] for i in range(x.shape[0])),
        [((3, 2),), ((4, 2),), ((5, 2),)],
        "x.size(0): expected 4, found 5 (recording 2, the nearest of 2)",
    ),
    "sizes that are equal": (
        lambda x, y: x + y,
        [((3, 2), (3, 2)), ((4, 2), (4, 2)), ((5, 2), (1, 2))],
        "y.size(0): expected at least 2, found 1 (recording 2, the nearest of 2)",
    ),
    "a float": (
        lambda x, s: x * s if s > 0.5 else x - s,
        [((4, 2), 0.75), ((5, 2), 0.875), ((6, 2), 0.25)],
        "expected 0.5 < f0, found f0 = 0.25 (s) (recording 2, the nearest of 2)",
    ),
    "a relation": (
        lambda x: x * 2 if x.shape[0] % 2 == 0 else x,
        [((4, 2),), ((6, 2),), ((7, 2),)],
        "expected s0 % 2 == 0, found s0 = 7 (x.size(0)) (recording 2, the nearest of 2)",
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_size_that_does_not_fit_is_told_by_name(name: str) -> None:
    function, calls, expected = TOLD[name]
    compiled = saker.compile(function)
    for shapes in calls:
        compiled(*(torch.ones(shape) if isinstance(shape, tuple) else shape for shape in shapes))
    assert saker.stats()["functions"][-1]["changed"] == expected
