"""Classes of named tuples that a compiled function makes: each call has a new one, as in eager mode."""

from __future__ import annotations

import collections
import pickle
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker
from differential import same

FIELDS = ["a", "b"]


def plain(a: torch.Tensor, b: torch.Tensor) -> Any:
    P = collections.namedtuple("P", ["x", "y", "xy"])
    p = P(a, b, a + b)
    return P(p.x, p[1], p.xy + b)


def with_defaults(a: torch.Tensor, b: torch.Tensor) -> Any:
    P = namedtuple("P", ["x", "y", "xy"], defaults=(None, 1, None))
    p = P(a, xy=b)
    return P(p.x, p[1], p.xy + b), P._field_defaults


def tensors_as_defaults(a: torch.Tensor, b: torch.Tensor) -> Any:
    P = namedtuple("P", "x y", defaults=[b * 2])
    return P(a), P(a, b)._replace(x=b)


def renamed(a: torch.Tensor, b: torch.Tensor) -> Any:
    P = namedtuple("P", ["class", "y"], rename=True)
    return P(a, b), P._fields


def from_a_list_outside(a: torch.Tensor, b: torch.Tensor) -> Any:
    P = namedtuple("P", FIELDS)
    return P(*[a * b] * len(FIELDS))


def list_that_changes(a: torch.Tensor, b: torch.Tensor) -> Any:
    fields = ["x"]
    P = namedtuple("P", fields)
    fields.append("y")
    return P(a + b), fields


def only_inside(a: torch.Tensor, b: torch.Tensor) -> Any:
    P = namedtuple("P", "x, y")
    x, y = P(y=a, x=b)
    return x - y, isinstance(P(1, 2), P), repr(P(1, 2)), P(1, 2)._asdict()


def in_a_list(a: torch.Tensor, b: torch.Tensor) -> Any:
    P = namedtuple("P", "x")
    return [P(a), P(b)], {"p": P(a + b)}


def deeper(a: torch.Tensor, b: torch.Tensor) -> Any:
    def make() -> Any:
        return namedtuple("Inner", "x")

    P = namedtuple("P", "x y")
    return P(make()(a), b)


PROGRAMS: list[Callable] = [
    plain, with_defaults, tensors_as_defaults, renamed, from_a_list_outside, list_that_changes, only_inside, in_a_list,
    deeper,
]  # fmt: skip


def described(result: Any) -> Any:
    """A tree in which classes are told by what can be seen of them."""
    if isinstance(result, tuple) and type(result) is not tuple:
        cls = type(result)
        about = cls.__name__, cls.__qualname__, cls.__module__, cls.__doc__, cls._fields, cls.__mro__[1:], cls.__slots__
        return [str(about), *map(described, result)]
    if isinstance(result, (list, tuple)):
        return [described(each) for each in result]
    if isinstance(result, dict):
        return {key: described(value) for key, value in result.items()}
    return result


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_mode(program: Callable) -> None:
    compiled = saker.compile(program, fullgraph=True)
    for step in range(4):
        a, b = torch.full((2,), float(step), requires_grad=step > 2), torch.ones(2)
        before = saker.stats()["replays"]
        got = compiled(a, b)
        assert (saker.stats()["replays"] > before) == (step not in (0, 3))
        same(described(got), described(program(a, b)))


def test_each_call_has_its_own_class() -> None:
    compiled = saker.compile(in_a_list)
    classes = []
    for _ in range(4):
        pair, other = compiled(torch.ones(2), torch.ones(2))
        assert type(pair[0]) is type(pair[1]) is type(other["p"])
        classes.append(type(pair[0]))
    assert len(set(classes)) == 4


def test_the_class_is_returned() -> None:
    def program(x: torch.Tensor) -> Any:
        P = namedtuple("P", "x y", defaults=[3])
        return P, P(x)

    compiled = saker.compile(program)
    before = saker.stats()["replays"]
    for _ in range(3):
        cls, made = compiled(torch.ones(2))
        assert type(made) is cls and cls(1) == (1, 3) and cls.__module__ == __name__
        assert cls.__new__.__defaults__ == (3,)
        with pytest.raises(pickle.PicklingError):
            pickle.dumps(cls(1))
    assert saker.stats()["replays"] == before + 2


@pytest.mark.parametrize("change", ["attribute", "doc", "defaults", "subclass"])
def test_a_class_that_is_changed_runs_eagerly(change: str) -> None:
    def program(x: torch.Tensor) -> Any:
        P = namedtuple("P", "x y")
        if change == "attribute":
            P.scale = 3
        elif change == "doc":
            P.__doc__ = "A pair."
        elif change == "defaults":
            P.__new__.__defaults__ = (5,)
            return P(x)
        elif change == "subclass":

            class P(P):  # type: ignore[no-redef]
                scale = 4

        return P(x, 1)

    compiled = saker.compile(program)
    for _ in range(3):
        got, expected = compiled(torch.ones(2)), program(torch.ones(2))
        same(tuple(got), tuple(expected))
        assert type(got).__doc__ == type(expected).__doc__
        assert getattr(type(got), "scale", None) == getattr(type(expected), "scale", None)


def test_bad_names_raise() -> None:
    def program(x: torch.Tensor, name: str) -> Any:
        return namedtuple("P", [name])(x)

    compiled = saker.compile(program)
    for name in ("good", "good", "not good", "class", "good"):
        try:
            expected: Any = described(program(torch.ones(2), name))
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)[:20]):
                compiled(torch.ones(2), name)
            continue
        same(described(compiled(torch.ones(2), name)), expected)
