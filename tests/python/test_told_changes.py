"""What is told when a call is recorded again: what did not hold, by the names of the user's code."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import nn

import saker
from told import default_logs  # noqa: F401

SCALE = 2


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.kind = "plain"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight if self.kind == "plain" else x


class Slotted:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Inner(), Inner()])
        self.inner = Inner()
        self.mode = "fast"
        self.act = torch.relu
        self.config = {"names": ["a", "b"]}
        self.slotted = Slotted("s")

    def forward(self, batch: dict, *rest: Any, flag: bool = True) -> torch.Tensor:
        x = batch["ids"] + len(self.config["names"][1]) + len(rest[1]) + len(self.slotted.name)
        for layer in self.layers:
            x = layer(x)
        x = self.inner(x) * len(self.mode) * SCALE
        return self.act(x) if flag else x


def changed(compiled: Any, *args: Any, **kwargs: Any) -> str:
    """What is told when this call is recorded again."""
    inner = compiled._compiled if isinstance(compiled, nn.Module) else compiled
    compiled(*args, **kwargs)
    return [report["changed"] for report in saker._C.compiled_reports(inner) if report["outcome"] == "captured"][-1]


def batch(*sizes: int, **how: Any) -> dict:
    return {"ids": torch.ones(*sizes, **how)}


def replace(owner: Any, name: str, value: Any) -> Any:
    return lambda net: setattr(owner(net), name, value)


CHANGES: dict[str, tuple[Any, str]] = {
    "an attribute": (replace(lambda net: net, "mode", "slow"), "self.mode: expected 'fast', found 'slow'"),
    "a function": (
        replace(lambda net: net, "act", torch.tanh),
        "self.act: expected torch.relu, found torch.tanh",
    ),
    "of a part": (
        replace(lambda net: net.inner, "kind", "other"),
        "self.inner.kind: expected 'plain', found 'other'",
    ),
    "of an element": (
        replace(lambda net: net.layers[1], "kind", "other"),
        "self.layers[1].kind: expected 'plain', found 'other'",
    ),
    "in containers": (
        lambda net: net.config["names"].__setitem__(1, "bbb"),
        "self.config['names'][1]: expected 'b', found 'bbb'",
    ),
    "in a slot": (replace(lambda net: net.slotted, "name", "ttt"), "self.slotted.name: expected 's', found 'ttt'"),
    "a parameter": (
        lambda net: net.inner.weight.requires_grad_(False),
        "self.inner.weight.requires_grad: expected True, found False",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_in_a_module(name: str) -> None:
    change, text = CHANGES[name]
    net = Net()
    compiled = saker.compile(net, dynamic=False)
    given = batch(3)
    compiled(given, 1, "rest", flag=True)
    change(net)
    assert changed(compiled, given, 1, "rest", flag=True) == text


def test_what_changed_in_arguments() -> None:
    compiled = saker.compile(Net(), dynamic=False)

    def call(given: dict, *rest: Any, **kwargs: Any) -> str:
        return changed(compiled, given, *rest, **kwargs)

    call(batch(4, 3), 1, "rest")
    assert call(batch(5, 3), 1, "rest") == "batch['ids'].size(0): expected 4, found 5"
    told = call(batch(5, 3), 1, "other")
    assert told == "rest[1]: expected 'rest', found 'other' (recording 2, the nearest of 2)"
    told = call(batch(4, 3, dtype=torch.float64), 1, "rest")
    assert told == "batch['ids'].dtype: expected Float, found Double (recording 1, the nearest of 3)"
    told = call(batch(4, 3), 1, "rest", flag=False)
    assert told.startswith("the keyword arguments: expected [], found ['flag']")
    told = call(batch(4, 3), 1, "rest", 3)
    assert told.startswith("the number of positional arguments: expected 3, found 4")
    other = saker.compile(lambda x: x + 1, dynamic=False)
    other(torch.ones(4, 3))
    assert changed(other, torch.ones(3, 4).t()) == "x.stride(): expected (3, 1), found (1, 4)"


def test_what_changed_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    word, words = "a", ["b"]

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * len(word) * len(words[0]) * SCALE * len(NAME)

    compiled = saker.compile(fn, dynamic=False)
    x = torch.ones(2)
    compiled(x)
    word = "cc"
    assert changed(compiled, x) == "word: expected 'a', found 'cc'"
    words[0] = "dd"
    assert changed(compiled, x).startswith("words[0]: expected 'b', found 'dd' (recording 2, ")
    monkeypatch.setitem(globals(), "NAME", "another")
    assert changed(compiled, x).startswith("NAME: expected 'name', found 'another' (recording 3, ")
    with torch.no_grad():
        assert "around the call" in changed(compiled, x)
    assert changed(compiled, x.double()).startswith("x.dtype: expected Float, found Double")


NAME = "name"


def test_types_that_changed() -> None:
    compiled = saker.compile(lambda x, k: x if k else x + 1)
    x = torch.ones(2)
    compiled(x, [1])
    assert changed(compiled, x, (1,)) == "type(k): expected list, found tuple"
    told = changed(compiled, x, {"a": 1})
    assert told.startswith("type(k): expected tuple, found dict (recording 2, the nearest of 2)")


def counted(fn: Any) -> Any:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


def with_self(fn: Any) -> Any:
    @functools.wraps(fn)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return fn(self, *args, **kwargs)

    return wrapper


class Decorated(nn.Module):
    @counted
    @with_self
    def forward(self, ids: torch.Tensor, name: str = "a", *more: int) -> torch.Tensor:
        return ids * len(name) * (more[0] if more else 1)


def test_arguments_of_decorated_functions_have_their_own_names() -> None:
    @counted
    def fn(ids: torch.Tensor, name: str) -> torch.Tensor:
        return ids * len(name)

    x = torch.ones(2, 3)
    for each in (fn, Decorated(), Decorated().forward):
        compiled = saker.compile(each, dynamic=False)
        compiled(x, "a")
        assert changed(compiled, x, "bb") == "name: expected 'a', found 'bb'"
        assert changed(compiled, torch.ones(3, 3), "bb").startswith("ids.size(0): expected 2, found 3")
    compiled = saker.compile(Decorated(), dynamic=False)
    compiled(x, "a", 2)
    assert changed(compiled, x, "a", 3) == "more[0]: expected 2, found 3"
    told = saker.explain(Decorated())(x)
    assert any(guard.startswith("ids: ") for guard in told.guard_groups["arguments"]), told.guard_groups["arguments"]


def test_of_many_keys_those_that_differ_are_told() -> None:
    compiled = saker.compile(lambda d: sum(each.sum() for each in d.values()))

    def given(count: int) -> dict[str, torch.Tensor]:
        return {f"k{i}": torch.ones(3) for i in range(count)}

    compiled(given(9))
    assert changed(compiled, given(10)) == "list(d): expected [..., 'k8'], found [..., 'k8', 'k9']"


def test_objects_are_not_asked_for_their_text() -> None:
    class Hostile:
        def __init__(self, value: int) -> None:
            self.value = value

        def __repr__(self) -> str:
            raise AssertionError("asked")

        __str__ = __repr__

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

        __hash__ = object.__hash__

    def fn(x: torch.Tensor, given: Any) -> torch.Tensor:
        return x * (given.value if isinstance(given, Hostile) else 1)

    compiled = saker.compile(fn, dynamic=False)
    x = torch.ones(2)
    compiled(x, Hostile(2))
    assert changed(compiled, x, Hostile(3)) == "given.value: expected 2, found 3"
    told = changed(compiled, x, "text")
    assert "type(given): expected test_told_changes.test_objects_are_not_asked_for_their_text.<locals>.Hostile" in told
    assert "found str" in told


def test_the_log_of_recompiles(capfd: pytest.CaptureFixture[str]) -> None:
    saker.set_logs("recompiles")
    compiled = saker.compile(lambda x, k: x * len(k), dynamic=False)
    compiled(torch.ones(2), "a")
    compiled(torch.ones(2), "bb")
    [line] = capfd.readouterr().err.splitlines()
    assert line.endswith("was recorded again: k: expected 'a', found 'bb'")
    assert line.startswith("[saker recompiles] test_told_changes.test_the_log_of_recompiles.<locals>.<lambda> ")


def test_recordings_are_numbered_from_one_after_a_reset(capfd: pytest.CaptureFixture[str]) -> None:
    fast = saker.compile(lambda x, name: x * len(name))
    x = torch.ones(2)
    for _ in range(2):
        for name in ("a", "bb", "ccc"):
            fast(x, name)
        saker.reset()
    saker.set_logs("recompiles")
    try:
        for name in ("a", "bb", "ccc"):
            fast(x, name)
        torch.set_default_dtype(torch.float64)
        fast(x, "a")
    finally:
        torch.set_default_dtype(torch.float32)
        saker.set_logs()
    told = capfd.readouterr().err
    assert "(recording 2, the nearest of 2)" in told
    assert "another default dtype around the call" in told
