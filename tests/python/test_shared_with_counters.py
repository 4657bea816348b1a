"""Functions that count, given tensors on one memory: calls whose tensors lie apart are computed as such, and back."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import saker


class Counter:
    def __init__(self) -> None:
        self.count = 1
        self.last: Tensor | None = None


def read(state: Counter, a: Tensor, b: Tensor) -> list[Tensor]:
    state.count += 1
    return [a * 2 + b]


def scaled(state: Counter, a: Tensor, b: Tensor) -> list[Tensor]:
    state.count += 1
    return [a[0] * state.count + b[0]]


def written(state: Counter, a: Tensor, b: Tensor) -> list[Tensor]:
    b.add_(1)
    state.count += 1
    return [a * state.count]


def written_through_a_view(state: Counter, a: Tensor, b: Tensor) -> list[Tensor]:
    view = b.t()
    view[0] = b.sum()
    state.count += 1
    state.last = view
    return [a.real + b.mean(), view]


PROGRAMS = [read, scaled, written, written_through_a_view]


def arguments(kind: str, size: int) -> tuple[Tensor, Tensor]:
    base = torch.randn(size, size)
    if kind == "same":
        return base, base
    if kind == "view":
        return base, base[:]
    if kind == "transposed":
        return base, base.t()
    return base, torch.randn(size, size)


PLANS = [
    ["view"] * 3 + ["apart"] * 2 + ["view", "apart"],
    ["same"] * 3 + ["apart", "view", "apart", "same"],
    ["transposed"] * 3 + ["apart", "view", "transposed"],
    ["apart"] * 3 + ["view", "same", "transposed", "apart"],
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan[0])
@pytest.mark.parametrize("sizes", [(4,), (4, 4, 5, 6)], ids=["fixed", "changing"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_memory_may_be_shared_or_not(program, plan: list[str], sizes: tuple[int, ...], dynamic: bool | None) -> None:
    states = Counter(), Counter()
    compiled = saker.compile(lambda a, b: program(states[1], a, b), dynamic=dynamic)
    with torch.no_grad():
        for i, kind in enumerate(plan):
            torch.manual_seed(i)
            ours = arguments(kind, sizes[i % len(sizes)])
            torch.manual_seed(i)
            theirs = arguments(kind, sizes[i % len(sizes)])
            expected = program(states[0], *theirs)
            found = compiled(*ours)
            for one, other in zip([*found, *ours], [*expected, *theirs], strict=True):
                assert torch.equal(one, other), (i, kind)
    assert states[0].count == states[1].count
