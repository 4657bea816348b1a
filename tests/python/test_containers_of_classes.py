"""Classes that derive from containers and iterate in their own way: what they hold is what the container of C holds."""

from __future__ import annotations

import collections
import platform
from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker

ASKED: list[str] = []


def own_ways(base: type) -> type:
    """A class whose instances say of themselves that they hold nothing, and note that they were asked."""

    class Own(base):
        def __iter__(self) -> Any:
            ASKED.append("iter")
            return iter(())

        def __len__(self) -> int:
            ASKED.append("len")
            return 0

        def __getitem__(self, key: Any) -> Any:
            ASKED.append("item")
            return 7

    return Own


BASES = [list, tuple, set, frozenset, collections.deque, dict, collections.OrderedDict]


def contents(base: type) -> Any:
    return {1: 2, 3: 4} if issubclass(base, dict) else [1, 2, 3]


def same_thing(base: type, call: Callable[[Any, torch.Tensor], Any]) -> None:
    """`call` on new containers and on an old one, compared with eager mode: results, and what the class was asked."""
    own = own_ways(base)
    compiled = saker.compile(call)
    x = torch.ones(3)
    kept = own(contents(base))
    for holder in (own(contents(base)), kept, kept, own(contents(base))):
        ASKED.clear()
        expected = call(holder, x)
        asked = list(ASKED)
        ASKED.clear()
        found = compiled(holder, x)
        assert torch.equal(found, expected)
        assert asked == ASKED


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
@pytest.mark.parametrize(
    "call",
    [
        lambda holder, x: x * len(holder),
        lambda holder, x: x * sum(1 for _ in holder),
        lambda holder, x: x * (holder[0] if hasattr(holder, "__getitem__") else 1),
        lambda holder, x: x * (2 if holder else 3),
        lambda holder, x: x * len([*holder]),
        lambda holder, x: x * (1 in holder),
        lambda holder, x: x + len(repr(holder)),
    ],
    ids=["len", "iterate", "item", "bool", "spread", "contains", "repr"],
)
def test_what_is_asked_of_an_argument(base: type, call: Callable) -> None:
    same_thing(base, call)


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_one_that_the_call_makes_and_gives(base: type) -> None:
    own = own_ways(base)

    def make(x: torch.Tensor) -> Any:
        return x + 1, own(contents(base))

    compiled = saker.compile(make)
    for _ in range(3):
        _, made = compiled(torch.ones(3))
        assert type(made) is own
        # The container of C is asked, past the class.
        assert list(base.__iter__(made)) == list(base.__iter__(own(contents(base))))
        assert base.__len__(made) == len(contents(base))


@pytest.mark.parametrize("base", [list, set, collections.deque, dict], ids=lambda base: base.__name__)
def test_one_that_the_call_changes(base: type) -> None:
    own = own_ways(base)

    def change(holder: Any, x: torch.Tensor) -> torch.Tensor:
        if isinstance(holder, dict):
            dict.__setitem__(holder, 9, 9)
        elif isinstance(holder, set):
            set.add(holder, 9)
        else:
            base.append(holder, 9)
        return x + 1

    compiled = saker.compile(change)
    for _ in range(3):
        expected, found = own(contents(base)), own(contents(base))
        change(expected, torch.ones(3))
        compiled(found, torch.ones(3))
        assert list(base.__iter__(found)) == list(base.__iter__(expected))


def test_a_named_tuple_that_computes_its_last_field() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * len(platform.system())

    platform.system()  # it is cached by the first call
    compiled = saker.compile(f)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(3)), f(torch.ones(3)))
