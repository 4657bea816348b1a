"""Guards that start from the slots of a live frame: its locals and its value stack, on states made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from saker import _C


class Frame:
    """Guards of one state; `failure` of another, asked often enough for the shortcuts of guards to be taken."""

    def __init__(self, locals: dict[str, Any], stack: list[Any] | None = None, names: tuple[str, ...] = ()) -> None:
        self.guards = _C.FrameGuards(names or tuple(locals), locals, stack or [])

    def failure(self, locals: dict[str, Any], stack: list[Any] | None = None) -> str:
        [told] = {self.guards.failure(locals, stack or []) for _ in range(4)}
        return told


def test_a_state_holds_of_itself() -> None:
    state = {"x": torch.ones(3), "n": 2, "name": "a", "items": [1, {"k": 2.0}], "f": len}
    stack = [torch.zeros(2, 2), 7, None]
    frame = Frame(state, stack)
    assert frame.failure(state, stack) == ""
    assert frame.failure({**state, "x": torch.zeros(3)}, [torch.ones(2, 2), 7, None]) == ""
    assert any(text.startswith("stack[0]: Float(2, 2)") for text in frame.guards.texts)


@pytest.mark.parametrize(
    "change, told",
    [
        ({"x": torch.ones(4)}, "x: Float(3)"),
        ({"x": torch.ones(3, dtype=torch.float64)}, "x: Float(3)"),
        ({"x": torch.ones(3, requires_grad=True)}, "x: Float(3)"),
        ({"x": 1}, "type(x) is torch.Tensor"),
        ({"n": 3}, "n == 2"),
        ({"n": 2.0}, "n == 2"),
        ({"name": "b"}, "name == 'a'"),
        ({"items": [1, {"k": 3.0}]}, "items[1]['k'] == 2.0"),
        ({"items": [1]}, "len(items) == 2"),
        ({"items": (1, {"k": 2.0})}, "type(items) is list"),
        ({"f": max}, "f is len"),
    ],
)
def test_a_local_that_differs_is_named(change: dict[str, Any], told: str) -> None:
    state = {"x": torch.ones(3), "n": 2, "name": "a", "items": [1, {"k": 2.0}], "f": len}
    frame = Frame(state)
    assert told in frame.failure({**state, **change})
    assert frame.failure(state) == ""


@pytest.mark.parametrize("stack, told", [([1, 3], "stack[1] == 2"), ([1], "stack[1] exists"), ([], "stack[0] exists")])
def test_the_value_stack(stack: list[Any], told: str) -> None:
    frame = Frame({}, [1, 2])
    assert frame.failure({}, [1, 2]) == ""
    assert told in frame.failure({}, stack)


def test_what_is_not_bound() -> None:
    frame = Frame({"a": 1}, names=("a", "b"))
    assert "b is not bound" in frame.guards.texts
    assert frame.failure({"a": 1}) == ""
    assert frame.failure({"a": 1, "b": None}) == "b is not bound"
    assert frame.failure({}) == "a exists"


def test_one_object_in_two_slots() -> None:
    shared = [1]
    one, two = Frame({"a": shared}, [shared]), Frame({"a": [1]}, [[1]])
    assert one.failure({"a": shared}, [shared]) == ""
    assert one.failure({"a": [1]}, [[1]]) == "stack[0] is a"
    assert two.failure({"a": [2]}, [[1]]) == "a[0] == 1"


def test_what_a_slot_holds_may_change_in_place() -> None:
    items = [1, 2]
    frame = Frame({"items": items})
    items.append(3)
    assert frame.failure({"items": items}) == "len(items) == 2"
    items.pop()
    assert frame.failure({"items": items}) == ""


def test_a_live_frame() -> None:
    def walk(x: torch.Tensor, steps: int) -> Iterator[torch.Tensor]:
        for step in range(steps):
            x = x * 2
            yield x
            done = step

        yield x + done

    def state(generator: Any) -> dict[str, Any]:
        found = dict(generator.gi_frame.f_locals)
        return found

    names = walk.__code__.co_varnames
    first = walk(torch.ones(2), 3)
    next(first)
    frame = Frame(state(first), names=names)
    other = walk(torch.zeros(2), 3)
    next(other)
    assert frame.failure(state(other)) == ""
    next(other)
    assert frame.failure(state(other)) == "step == 0"
    longer = walk(torch.zeros(2), 4)
    next(longer)
    assert frame.failure(state(longer)) == "steps == 3"
