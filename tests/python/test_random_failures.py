"""Replays that end in the middle, because an operator fails on data: the generators of Python and numpy are left as
eager mode leaves them. What comes after the operator has not been drawn."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import saker

Tensor = torch.Tensor
GOOD, BAD = torch.tensor([0, 1, 2]), torch.tensor([0, 1, 9])


class State:
    def __init__(self) -> None:
        self.counter = torch.zeros(3)
        self.own = random.Random(7)
        self.array = np.random.default_rng(7)


def drawn_behind(state: State, x: Tensor, i: Tensor) -> Tensor:
    state.counter.add_(1)
    return F.embedding(i, x) * random.random()


def drawn_before_and_behind(state: State, x: Tensor, i: Tensor) -> Tensor:
    factor = random.random()
    state.counter.add_(1)
    factor = factor + random.random()
    y = F.embedding(i, x) * random.uniform(1, 2)
    return y * factor + random.random()


def drawn_before(state: State, x: Tensor, i: Tensor) -> Tensor:
    state.counter.add_(1)
    factor = random.random()
    return F.embedding(i, x) * factor


def drawn_from_two(state: State, x: Tensor, i: Tensor) -> Tensor:
    factor = state.own.random()
    state.counter.add_(1)
    y = F.embedding(i, x * random.random()) * factor
    return y * state.own.random() * random.random()


def drawn_between_two_that_may_fail(state: State, x: Tensor, i: Tensor) -> Tensor:
    state.counter.add_(1)
    y = F.embedding(GOOD, x) * random.random()
    y = F.embedding(i, y) * random.random()
    return F.embedding(i, y) * random.random()


def drawn_behind_without_a_write(state: State, x: Tensor, i: Tensor) -> Tensor:
    return F.embedding(i, x * random.random()) * random.random()


def drawn_and_caught(state: State, x: Tensor, i: Tensor) -> Tensor:
    state.counter.add_(1)
    try:
        return F.embedding(i, x) * random.random()
    except IndexError:
        return x * random.random()


def ints(state: State, x: Tensor, i: Tensor) -> Tensor:
    state.counter.add_(1)
    y = F.embedding(i, x)
    return y * random.randint(0, 1)


def seeded_behind(state: State, x: Tensor, i: Tensor) -> Tensor:
    state.counter.add_(1)
    y = F.embedding(i, x) * random.random()
    random.seed(3)
    return y * random.random()


def by_numpy(state: State, x: Tensor, i: Tensor) -> Tensor:
    first = np.random.rand(4).astype(np.float32)
    state.counter.add_(1)
    y = F.embedding(i, x * torch.from_numpy(first))
    return y * torch.from_numpy(np.random.rand(4).astype(np.float32))


def by_a_generator_of_numpy(state: State, x: Tensor, i: Tensor) -> Tensor:
    state.counter.add_(1)
    y = F.embedding(i, x)
    return y * torch.from_numpy(state.array.random(4, dtype=np.float32))


REPLAYED = [
    *[drawn_behind, drawn_before_and_behind, drawn_before, drawn_from_two, drawn_between_two_that_may_fail],
    *[drawn_behind_without_a_write, seeded_behind, by_numpy, by_a_generator_of_numpy],
]


def outcome(program: Callable, compiled: bool) -> list[Any]:
    state = State()
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    x = torch.randn(3, 4)
    function = saker.compile(program) if compiled else program
    seen: list[Any] = []
    for i in (GOOD, GOOD, BAD, GOOD, BAD, BAD, GOOD):
        try:
            seen.append(function(state, x, i).tolist())
        except IndexError as error:
            seen.append(str(error))
        seen.append((state.counter.tolist(), random.getstate(), state.own.getstate()))
        seen.append((np.random.get_state()[1].tolist(), np.random.get_state()[2], str(state.array.bit_generator.state)))
    return seen


@pytest.mark.parametrize("program", [*REPLAYED, drawn_and_caught, ints])
def test_generators_after_a_failure(program: Callable) -> None:
    expected = outcome(program, compiled=False)
    before = saker.stats()["replays"]
    assert outcome(program, compiled=True) == expected
    assert program not in REPLAYED or saker.stats()["replays"] - before >= 2
