"""Values that a function reads from outside are written anew between calls, so that a new object comes to lie where an
old one has died: guards must tell them apart, whatever their addresses are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch

import saker

Program = tuple[Callable[[int], None], Callable[[torch.Tensor], torch.Tensor], Callable[[int], float]]


class Holder:
    pass


class Slots:
    __slots__ = ("value",)


def text(i: int) -> str:
    return "x" * (i + 1)


def attribute() -> Program:
    holder = Holder()
    return lambda i: setattr(holder, "value", text(i)), lambda x: x * len(holder.value), lambda i: i + 1


def float_attribute() -> Program:
    holder = Holder()

    def fn(x):
        return x + 1 if holder.value > 4.0 else x - 1

    return lambda i: setattr(holder, "value", i * 1.5), fn, lambda i: 2 if i * 1.5 > 4 else 0


def tuple_attribute() -> Program:
    holder = Holder()
    return lambda i: setattr(holder, "value", (i + 1, 2)), lambda x: x * holder.value[0], lambda i: i + 1


def nested_attribute() -> Program:
    holder = Holder()

    def put(i: int) -> None:
        holder.value = {"k": [(text(i),)]}

    return put, lambda x: x * len(holder.value["k"][0][0]), lambda i: i + 1


def size_attribute() -> Program:
    holder = Holder()
    return lambda i: setattr(holder, "value", torch.Size([i + 1])), lambda x: x * holder.value[0], lambda i: i + 1


def method_attribute() -> Program:
    holder = Holder()

    class Number:
        def __init__(self, number: int) -> None:
            self.number = text(number)

        def get(self) -> int:
            return len(self.number)

    return lambda i: setattr(holder, "value", Number(i).get), lambda x: x * holder.value(), lambda i: i + 1


def function_attribute() -> Program:
    holder = Holder()

    def put(i: int) -> None:
        holder.value = eval(f"lambda x: x * {i + 1}")

    return put, lambda x: holder.value(x), lambda i: i + 1


def object_attribute() -> Program:
    holder = Holder()

    def put(i: int) -> None:
        holder.value = Holder()
        holder.value.text = text(i)

    return put, lambda x: x * len(holder.value.text), lambda i: i + 1


def kind_of_attribute() -> Program:
    holder = Holder()

    def fn(x):
        return x * (2 if isinstance(holder.value, list) else 3 if isinstance(holder.value, float) else 4)

    kinds = [lambda: [1.5], lambda: 7.5, lambda: 1000]
    return lambda i: setattr(holder, "value", kinds[i % 3]()), fn, lambda i: (2, 3, 4)[i % 3]


def cell() -> Program:
    value = ""

    def put(i: int) -> None:
        nonlocal value
        value = text(i)

    return put, lambda x: x * len(value), lambda i: i + 1


def tuple_in_cell() -> Program:
    value = ()

    def put(i: int) -> None:
        nonlocal value
        value = (i + 1,)

    return put, lambda x: x * value[0], lambda i: i + 1


def slot() -> Program:
    holder = Slots()
    return lambda i: setattr(holder, "value", text(i)), lambda x: x * len(holder.value), lambda i: i + 1


def tuple_in_slot() -> Program:
    holder = Slots()
    return lambda i: setattr(holder, "value", (i + 1,)), lambda x: x * holder.value[0], lambda i: i + 1


def class_attribute() -> Program:
    class Own:
        value = ""

    return lambda i: setattr(Own, "value", text(i)), lambda x: x * len(Own.value), lambda i: i + 1


def in_list() -> Program:
    held = [""]
    return lambda i: held.__setitem__(0, text(i)), lambda x: x * len(held[0]), lambda i: i + 1


def tuple_in_list() -> Program:
    held = [()]
    return lambda i: held.__setitem__(0, (i + 1,)), lambda x: x * held[0][0], lambda i: i + 1


def in_dict() -> Program:
    held = {"a": ""}
    return lambda i: held.__setitem__("a", text(i)), lambda x: x * len(held["a"]), lambda i: i + 1


def tuple_in_dict() -> Program:
    held = {"a": ()}
    return lambda i: held.__setitem__("a", (i + 1,)), lambda x: x * held["a"][0], lambda i: i + 1


def defaults() -> Program:
    def fn(x, value=""):
        return x * len(value)

    return lambda i: setattr(fn, "__defaults__", (text(i),)), fn, lambda i: i + 1


class Pair(NamedTuple):
    a: int
    b: int = 2


class Own(tuple):
    __slots__ = ()


def named_attribute() -> Program:
    held = SimpleNamespace(a=None)

    def put(i: int) -> None:
        held.a = None
        held.a = Pair(i + 1)

    return put, lambda x: x * held.a.a, lambda i: i + 1


def tuple_of_a_class_in_list() -> Program:
    held: list[Any] = [None]

    def put(i: int) -> None:
        held[0] = None
        held[0] = Own((i + 1,))

    return put, lambda x: x * held[0][0], lambda i: i + 1


PROGRAMS = [
    *(attribute, float_attribute, tuple_attribute, nested_attribute, size_attribute, method_attribute),
    *(function_attribute, object_attribute, kind_of_attribute, cell, tuple_in_cell, slot, tuple_in_slot),
    *(class_attribute, in_list, tuple_in_list, in_dict, tuple_in_dict, defaults),
    *(named_attribute, tuple_of_a_class_in_list),
]


@pytest.mark.parametrize("values", [4, 10])
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_values_are_told_apart(make: Callable[[], Program], values: int) -> None:
    before = saker.stats()["replays"]
    for _ in range(5):
        put, fn, expected = make()
        put(0)
        compiled = saker.compile(fn)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there are more values than recordings
            for _ in range(4):
                for i in range(values):
                    put(i)
                    assert compiled(torch.ones(2)).tolist() == [expected(i)] * 2
    if make not in (function_attribute, defaults):  # each of these is a new function, which is recorded
        assert saker.stats()["replays"] > before
