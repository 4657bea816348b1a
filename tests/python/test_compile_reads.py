"""What C code reads of classes, functions, exceptions, cells, tensors and the interpreter: after it has changed, a call
gives what eager mode gives."""

from __future__ import annotations

import abc
import functools
import sys
import threading
import types
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import saker
from alone import alone

X = torch.tensor([1.0, 2.0, 3.0])


class Space(types.SimpleNamespace):
    """What the programs read; each test has its own."""


def _class(**attributes: Any) -> Any:
    return type("Made", (), attributes)


def _cell(value: Any) -> Any:
    return types.CellType(value)


def _set(owner: str, name: str, value: Any) -> Callable[[Space], None]:
    return lambda w: setattr(getattr(w, owner), name, value)


def _put(name: str, value: Any) -> Callable[[Space], None]:
    return lambda w: setattr(w, name, value() if isinstance(value, types.FunctionType) else value)


def space() -> Space:
    base = type("Base", (), {"level": 1, "__annotations__": {"a": int}})
    other = type("Other", (), {"level": 2})
    node = type("Node", (base,), {})

    def function(x, k=1):
        "doc"
        return x * k

    def method(self, x):
        "doc"
        return x

    holder = type("Holder", (), {"method": method})
    return Space(
        base=base,
        other=other,
        node=node,
        object=node(),
        function=function,
        holder=holder,
        bound=holder().method,
        error=ValueError("a", 1),
        stop=StopIteration(3),
        cell=_cell(2),
        empty=types.CellType(),
        kinds=(base,),
        union=int | str,
        held=torch.arange(3.0),
        pair=torch.arange(3.0),
        partial=functools.partial(function, k=2),
        default=defaultdict(int),
        module=types.ModuleType("module"),
        slots=type("Slots", (), {"__slots__": ("a",)})(),
    )


# A program, and changes of what it reads. A program that is not replayed says so.
READS: dict[str, tuple[Callable[[torch.Tensor, Space], Any], list[Callable[[Space], Any]]]] = {
    "is a view": (lambda x, w: (x, w.held._is_view()), [_put("held", lambda: torch.arange(6.0)[:3]), _put("held", X)]),
    "is an alias": (
        lambda x, w: (x * 2, torch._C._is_alias_of(w.held, w.pair)),
        [lambda w: setattr(w, "pair", w.held.view(3)), _put("pair", lambda: torch.ones(3))],
    ),
    "arguments of an error": (lambda x, w: (x, w.error.args), [_set("error", "args", (2,))]),
    "text of an error": (lambda x, w: (x, str(w.error), repr(w.error)), [_set("error", "args", (2,))]),
    "cause": (lambda x, w: (x, w.error.__cause__ is None), [_set("error", "__cause__", KeyError())]),
    "context": (lambda x, w: (x, w.error.__context__ is None), [_set("error", "__context__", KeyError())]),
    "hidden context": (lambda x, w: (x, w.error.__suppress_context__), [_set("error", "__suppress_context__", True)]),
    "value of a stop": (lambda x, w: (x, w.stop.value), [_set("stop", "value", 7)]),
    "contents of a cell": (lambda x, w: x * w.cell.cell_contents, [_set("cell", "cell_contents", 5)]),
    "subclasses": (
        lambda x, w: (x, [c.__name__ for c in w.base.__subclasses__()]),
        [lambda w: setattr(w, "more", type("More", (w.base,), {}))],
    ),
    "annotations": (
        lambda x, w: (x, dict(w.base.__annotations__)),
        [lambda w: w.base.__annotations__.update(b=1), _set("base", "__annotations__", {})],
    ),
    "documentation": (lambda x, w: (x, w.base.__doc__), [_set("base", "__doc__", "new")]),
    "module of a class": (lambda x, w: (x, w.base.__module__), [_set("base", "__module__", "new")]),
    "order of bases": (
        lambda x, w: (x, [c.__name__ for c in w.node.__mro__], w.node.__base__.__name__),
        [lambda w: setattr(w.node, "__bases__", (w.other,))],
    ),
    "mro()": (
        lambda x, w: (x, [c.__name__ for c in w.node.mro()]),
        [lambda w: setattr(w.node, "__bases__", (w.other,))],
    ),
    "bases": (
        lambda x, w: (x, [c.__name__ for c in w.node.__bases__]),
        [lambda w: setattr(w.node, "__bases__", (w.other,))],
    ),
    "isinstance": (
        lambda x, w: (x, isinstance(w.object, w.base), issubclass(w.node, w.base)),
        [lambda w: setattr(w.node, "__bases__", (w.other,))],
    ),
    "isinstance of a tuple": (
        lambda x, w: (x, isinstance(w.object, w.kinds)),
        [_put("kinds", lambda: (int,)), _put("kinds", lambda: (object,))],
    ),
    "isinstance of a union": (lambda x, w: (x, isinstance(3, w.union)), [_put("union", lambda: str | float)]),
    "super": (
        lambda x, w: x * super(w.node, w.object).level,
        [lambda w: setattr(w.node, "__bases__", (w.other,))],
    ),
    "callable": (
        lambda x, w: (x, callable(w.object)),
        [_set("node", "__call__", lambda self: 1), lambda w: delattr(w.node, "__call__")],
    ),
    "abs": (lambda x, w: (x, abs(w.object)), [_set("node", "__abs__", lambda self: 4)]),
    "text of a class": (lambda x, w: (x, f"{w.node}"), [_set("node", "__qualname__", "Renamed")]),
    "text of a function": (
        lambda x, w: (x, repr(w.function)[:18], "%s" % (w.function,) > "a"),  # noqa: UP031
        [_set("function", "__qualname__", "renamed")],
    ),
    "documentation of a method": (
        lambda x, w: (x, w.bound.__doc__),
        [lambda w: setattr(w.holder.method, "__doc__", "new")],
    ),
    "contents of a module": (
        lambda x, w: (x, w.module.__dict__.get("a")),
        [_set("module", "a", 3), _set("module", "a", 4)],
    ),
    "a default": (lambda x, w: (x, w.default.default_factory), [_set("default", "default_factory", list)]),
    "an empty slot": (lambda x, w: (x, hasattr(w.slots, "a")), [_set("slots", "a", 3)]),
    "arguments of a partial": (
        lambda x, w: w.partial(x),
        [lambda w: w.partial.keywords.update(k=3), lambda w: w.partial.__setstate__((w.function, (), {"k": 5}, None))],
    ),
    "defaults": (lambda x, w: w.function(x), [_set("function", "__defaults__", (6,))]),
    "code": (lambda x, w: w.function(x), [lambda w: setattr(w.function, "__code__", (lambda x, k=1: x - k).__code__)]),
    "recursion limit": (lambda x, w: (x, sys.getrecursionlimit()), [lambda w: sys.setrecursionlimit(1234)]),
    "an exception of the caller": (lambda x, w: (x, sys.exc_info()[0]), []),
}


@pytest.fixture(autouse=True)
def restored() -> Any:
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)


def outcome(fn: Callable, *args: Any) -> Any:
    try:
        result = fn(*args)
    except Exception as error:
        return type(error).__name__, str(error)
    return repr(result)


@pytest.mark.parametrize("name", READS)
def test_a_change_is_noticed(name: str) -> None:
    program, changes = READS[name]
    mine, theirs = space(), space()
    compiled = saker.compile(lambda x, w: program(x, w), backend="eager", fullgraph=name != "abs")
    for change in [None, *changes]:
        if change:
            change(mine)
            change(theirs)
        for _ in range(2):
            assert outcome(program, X, mine) == outcome(compiled, X, theirs)
        before = saker.stats()["replays"]
        assert outcome(program, X, mine) == outcome(compiled, X, theirs)
        if name != "abs" or change:  # abs() of what has none raises
            assert saker.stats()["replays"] == before + 1


@alone
def test_methods_of_tensors_that_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: torch.Tensor) -> Any:
        return x * 2, x[0], -x, len(x), x @ x

    compiled = saker.compile(program, backend="eager", fullgraph=True)
    for _ in range(3):
        assert outcome(compiled, X) == outcome(program, X)
    replacements = {
        "__mul__": lambda a, b: torch.add(a, 100),
        "__getitem__": lambda a, i: "item",
        "__neg__": lambda a: torch.add(a, 7),
        "__len__": lambda a: 9,
        "__matmul__": lambda a, b: torch.add(a, b),
    }
    for name, replacement in replacements.items():
        monkeypatch.setattr(torch.Tensor, name, replacement)
        assert outcome(compiled, X) == outcome(program, X), name
        before = saker.stats()["replays"]
        assert outcome(compiled, X) == outcome(program, X), name
        assert saker.stats()["replays"] == before + 1
    monkeypatch.undo()
    assert outcome(compiled, X) == outcome(program, X)


def test_methods_of_modules_that_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).requires_grad_(False)
    compiled = saker.compile(model, fullgraph=True)
    for _ in range(2):
        assert outcome(compiled, X) == outcome(model, X)
    for owner, name, replacement in [
        (nn.Linear, "forward", lambda self, x: x * 9),
        (nn.ReLU, "__call__", lambda self, x: x - 1),
        (nn.Sequential, "forward", lambda self, x: self[1](x)),
    ]:
        monkeypatch.setattr(owner, name, replacement)
        for _ in range(2):
            assert outcome(compiled, X) == outcome(model, X), name


def test_the_thread_that_calls() -> None:
    def program(x: torch.Tensor) -> Any:
        return x * 2, threading.current_thread().name, threading.get_ident() == main

    main = threading.get_ident()
    compiled = saker.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert compiled(X)[1:] == ("MainThread", True)
    seen = []
    thread = threading.Thread(target=lambda: seen.extend([compiled(X), compiled(X)]), name="other")
    thread.start()
    thread.join()
    assert [told[1:] for told in seen] == [("other", False)] * 2


def test_the_exception_that_the_caller_handles() -> None:
    def program(x: torch.Tensor) -> Any:
        return x * 2, sys.exc_info()[0]

    def raised(x: torch.Tensor) -> Any:
        try:
            raise KeyError
        except KeyError as error:
            return x * 2, error.__context__

    for fn in (program, raised):
        compiled = saker.compile(fn, backend="eager")
        for _ in range(2):
            assert outcome(compiled, X) == outcome(fn, X)
        try:
            raise OSError("outer")
        except OSError:
            for _ in range(2):
                assert outcome(compiled, X) == outcome(fn, X)
        before = saker.stats()["replays"]
        assert outcome(compiled, X) == outcome(fn, X)
        assert saker.stats()["replays"] == before + 1


def test_an_exception_from_outside_is_raised() -> None:
    def program(x: torch.Tensor, error: ValueError) -> Any:
        try:
            raise error
        except ValueError as caught:
            return x * 2, caught.args

    def depth(error: ValueError) -> int:
        traceback, found = error.__traceback__, 0
        while traceback:
            traceback, found = traceback.tb_next, found + 1
        return found

    compiled = saker.compile(program, backend="eager")
    mine, theirs = ValueError(1), ValueError(1)
    for _ in range(3):
        assert outcome(program, X, mine) == outcome(compiled, X, theirs)
        assert depth(mine) == depth(theirs)


def test_classes_that_are_registered() -> None:
    class Shape(abc.ABC):  # noqa: B024
        pass

    class Square:
        pass

    def program(x: torch.Tensor) -> Any:
        return x + 1, isinstance(Square(), Shape)

    compiled = saker.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert compiled(X)[1] is False
    Shape.register(Square)
    for _ in range(2):
        assert compiled(X)[1] is True


def make_cached(limit: int | None) -> tuple[Callable, Callable, list[int]]:
    count = [0]

    @functools.lru_cache(maxsize=limit)
    def table(n: int, k: int = 0) -> torch.Tensor:
        count[0] += 1
        return torch.full((3,), float(n * 100 + k * 10 + count[0]))

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + table(1) + table(1, k=2)

    return program, table, count


@pytest.mark.parametrize("limit", [None, 1, 2, 128])
def test_caches_that_forget(limit: int | None) -> None:
    """Results, how often the function ran, and what the cache counts are eager mode's."""
    eager, mine, ran = make_cached(limit)
    program, theirs, runs = make_cached(limit)
    compiled = saker.compile(program, backend="eager")
    changes: list[Callable[[Any], Any]] = [
        lambda table: None,
        lambda table: table.cache_clear(),
        lambda table: table(7),
        lambda table: (table(8), table(9), table(10)),
        lambda table: table.cache_clear(),
    ]
    before = saker.stats()["replays"]
    for change in changes:
        change(mine)
        change(theirs)
        for _ in range(3):
            assert torch.equal(eager(X), compiled(X))
            assert ran == runs
            assert mine.cache_info() == theirs.cache_info()
    replays = saker.stats()["replays"] - before
    assert replays == 0 if limit == 1 else replays > 4
