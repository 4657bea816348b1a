"""min() and max() of tensors: which one it is, is asked of the data again by each replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker
from differential import same

Tensor = torch.Tensor


def larger(a: Tensor, b: Tensor) -> Tensor:
    return max(a.sum(), b.sum()) * 2


def bounded(a: Tensor, b: Tensor) -> Any:
    return min(max(a.sum(), 0), 1) + b


def of_a_map(a: Tensor, b: Tensor) -> Tensor:
    return max(map(lambda t: t.sum(), [a, b])) - min([a.sum(), b.sum()])


def with_a_key(a: Tensor, b: Tensor) -> Tensor:
    return max(a, b, key=lambda t: t.sum()) * 3


def which(a: Tensor, b: Tensor) -> Any:
    return max(a.sum(), b.sum()), min(a, b, key=lambda t: t.sum()) is a


PROGRAMS = [larger, bounded, of_a_map, with_a_key, which]
named = pytest.mark.parametrize("fn", PROGRAMS, ids=[fn.__name__ for fn in PROGRAMS])


def result_of(fn: Callable, *values: Tensor) -> Any:
    """What the call gives, and the gradients of its first result."""
    leaves = [value.clone().requires_grad_() for value in values]
    found = fn(*leaves)
    first = found[0] if isinstance(found, tuple) else found
    first.sum().backward()
    return leaves_of(found), [leaf.grad for leaf in leaves]


def leaves_of(found: Any) -> Any:
    return [
        each.detach() if isinstance(each, torch.Tensor) else each for each in torch.utils._pytree.tree_leaves(found)
    ]


@named
def test_the_same_one(fn):
    fast = saker.compile(fn)
    before = saker.stats()
    for i in range(4):
        a, b = torch.full((3,), 2.0 + i), torch.full((3,), -1.0 - i)
        same(result_of(fast, a, b), result_of(fn, a, b))
    after = saker.stats()
    assert after["graphs"] - before["graphs"] == 1
    assert after["replays"] - before["replays"] == 3


@named
def test_another_one(fn):
    """The call runs eagerly, and so do later ones."""
    fast = saker.compile(fn)
    torch.manual_seed(0)
    for _ in range(6):
        a, b = torch.randn(3), torch.randn(3)
        same(result_of(fast, a, b), result_of(fn, a, b))
    stops = saker.stats()["stops"]
    assert stops.get("choice-changed", 0) > 0
    before = saker.stats()["replays"]
    same(result_of(fast, a, b), result_of(fn, a, b))
    assert saker.stats()["replays"] == before


def test_behind_a_write():
    """What was written cannot be taken back: the call is not recorded."""
    state = torch.zeros(3)

    def fn(a: Tensor, b: Tensor) -> Tensor:
        state.add_(1)
        return max(a.sum(), b.sum()) + state

    fast = saker.compile(fn)
    for i in range(4):
        a, b = torch.full((3,), (-1.0) ** i), torch.zeros(3)
        state.zero_()
        wanted = fn(a, b)
        state.zero_()
        same(fast(a, b), wanted)
        assert torch.equal(state, torch.ones(3))


def test_random_numbers_are_drawn_once():
    def fn(a: Tensor) -> Tensor:
        return max(torch.rand(2).sum(), a.sum()) + torch.rand(2)

    fast = saker.compile(fn)
    for value in (9.0, 9.0, -9.0, 9.0):
        torch.manual_seed(3)
        wanted = fn(torch.tensor([value])), torch.rand(1)
        torch.manual_seed(3)
        same((fast(torch.tensor([value])), torch.rand(1)), wanted)


def test_equal_ones_and_nan():
    fast = saker.compile(larger)
    nan = float("nan")
    for a, b in [(1.0, 1.0), (nan, 1.0), (1.0, nan), (nan, nan), (1.0, 2.0), (2.0, 1.0)]:
        one, other = torch.full((2,), a), torch.full((2,), b)
        same(fast(one, other), larger(one, other))
