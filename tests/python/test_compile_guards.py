"""Guards that have held several times notice every change all the same; caches and weak references in compiled code."""

from __future__ import annotations

import collections
import contextlib
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import saker

SCALE = 2.0
NAMES = {"a": 1, "b": 2}


class Part(nn.Module):
    kind = 1

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.factor = 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.weight) * self.factor * self.kind


class Doubled(Part):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 2


class Slots:
    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.parts = nn.ModuleList(Part() for _ in range(3))
        self.order = collections.OrderedDict((("x", 2), ("y", 3)))
        self.steps = [1, 2]
        self.flags = {"twice"}
        self.slots = Slots(5)
        self.table: dict[str, int] = {}
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = part(x)
        for i, each in enumerate(self.order.values()):
            x = x * (each + i)
        for step in self.steps:
            x = x + step
        if "twice" in self.flags:
            x = x * 2
        if self.table:
            x = x - len(self.table)
        if hasattr(self, "late"):
            x = x + self.late
        for value in NAMES.values():
            x = x + value
        return (x - self.mean) * self.slots.value * SCALE


def set_global(model: Model) -> None:
    globals()["SCALE"] = 7.0


def class_of(model: Model) -> None:
    model.parts[1].__class__ = Doubled


def dict_of(model: Model) -> None:
    model.parts[1].__dict__ = {**model.parts[1].__dict__, "factor": 10}


def class_attribute(model: Model) -> None:
    Part.kind = 5


def add_hook(model: Model) -> None:
    model.parts[2].register_forward_hook(lambda module, args, result: result + 1)


def shadow(model: Model) -> None:
    model.parts[0].kind = 4


def patch_forward(model: Model) -> None:
    model.parts[0].forward = lambda x: x


def code_of(model: Model) -> None:
    Slots.__init__.__code__ = Slots.__init__.__code__.replace()
    Part.forward.__defaults__ = ()
    model.slots = Slots(6)


class Tripled(nn.Parameter):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result * 3 if func is torch.Tensor.__rmatmul__ or func is torch.Tensor.matmul else result


def class_of_parameter(model: Model) -> None:
    model.parts[0].weight.__class__ = Tripled


def swap(model: Model) -> None:
    torch.utils.swap_tensors(model.mean, torch.ones(1))


def transpose_data(model: Model) -> None:
    model.parts[0].weight.data = model.parts[0].weight.data.t()


CHANGES: dict[str, Callable[[Model], Any]] = {
    "number": lambda m: setattr(m.parts[1], "factor", 8),
    "instance attribute over a class attribute": shadow,
    "class attribute": class_attribute,
    "class": class_of,
    "dict": dict_of,
    "submodule": lambda m: m.parts.__setitem__(0, Doubled()),
    "one more submodule": lambda m: m.parts.append(Part()),
    "parameter": lambda m: setattr(m.parts[0], "weight", nn.Parameter(torch.ones(4, 4))),
    "requires_grad": lambda m: m.parts[0].weight.requires_grad_(False),
    "dtype of data": lambda m: m.double(),
    "buffer": lambda m: setattr(m, "mean", torch.ones(4)),
    "class of a parameter": class_of_parameter,
    "tensors swapped": swap,
    "strides of data": transpose_data,
    "offset of data": lambda m: setattr(m.mean, "data", torch.arange(8.0)[2:6]),
    "requires_grad of a buffer": lambda m: m.mean.requires_grad_(),
    "a buffer that was computed": lambda m: m.mean.add_(torch.ones(4, requires_grad=True)),
    "in place": lambda m: m.mean.add_(1),
    "hook": add_hook,
    "forward": patch_forward,
    "order of an OrderedDict": lambda m: m.order.move_to_end("x"),
    "value in an OrderedDict": lambda m: m.order.update(x=9),
    "element of a list": lambda m: m.steps.__setitem__(0, 5),
    "longer list": lambda m: m.steps.append(5),
    "set": lambda m: m.flags.clear(),
    "slot": lambda m: setattr(m.slots, "value", 6),
    "other object with slots": code_of,
    "attribute that was not there": lambda m: setattr(m, "late", 3),
    "dict that was empty": lambda m: m.table.update(k=1),
    "global": set_global,
    "dict in a global": lambda m: NAMES.update(c=3),
    "other order in a dict": lambda m: NAMES.update(a=NAMES.pop("a")),
    "training": lambda m: m.eval(),
}


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    monkeypatch.setitem(globals(), "NAMES", {"a": 1, "b": 2})
    monkeypatch.setattr(Part, "kind", 1)


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("through", ["module", "closure", "argument"])
@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_noticed(change: str, through: str) -> None:
    model = Model()
    x = torch.randn(2, 4)
    calls = {"module": model, "closure": lambda x: (model(x),)[0], "argument": lambda x, m=model: m(x)}
    compiled = saker.compile(calls[through], fullgraph=True)
    for _ in range(4):
        torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)
    before = saker.stats()["replays"]
    compiled(x)
    assert saker.stats()["replays"] == before + 1
    CHANGES[change](model)
    if model.mean.dtype == torch.float64:
        x = x.double()
    for _ in range(3):
        got, expected = compiled(x), model(x)
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
        assert got.requires_grad == expected.requires_grad


@pytest.mark.usefixtures("restored")
def test_unrelated_changes_need_no_recording() -> None:
    model = Model()
    x = torch.randn(2, 4)
    compiled = saker.compile(model, fullgraph=True)
    for i in range(20):
        model.parts[0].__dict__["unrelated"] = i
        globals()["UNRELATED"] = i
        torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)
    assert len(saker._C.compiled_reports(compiled._compiled)) == 1


def test_two_models_in_turn() -> None:
    holder = types.SimpleNamespace(model=None)
    models = [nn.Linear(4, 4), nn.Linear(4, 4)]
    x = torch.randn(2, 4)
    compiled = saker.compile(lambda x: (holder.model(x),)[0])
    for i in range(40):
        holder.model = models[i % 2]
        torch.testing.assert_close(compiled(x), holder.model(x), rtol=0, atol=0)


def test_objects_that_die_are_not_looked_at() -> None:
    holder = types.SimpleNamespace(parts=[])
    x = torch.randn(2, 4)
    compiled = saker.compile(lambda x: [part(x) for part in holder.parts])
    for _ in range(20):
        holder.parts = [Part() for _ in range(3)]
        torch.testing.assert_close(compiled(x), [part(x) for part in holder.parts], rtol=0, atol=0)


# --- caches, weak references, read-only views ---

CALLS: list[str] = []


@functools.lru_cache(None)
def once(text: str) -> None:
    CALLS.append(text)


@functools.lru_cache
def table(n: int) -> torch.Tensor:
    return torch.arange(n) * torch.rand(1)


def test_a_cached_function_is_not_run_again() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        once("said")
        return x + table(4)

    CALLS.clear()
    once.cache_clear()
    table.cache_clear()
    x = torch.randn(4)
    compiled = saker.compile(fn, fullgraph=True)
    first = compiled(x)
    state = torch.get_rng_state()
    before = saker.stats()["replays"]
    assert torch.equal(compiled(x), first)
    assert saker.stats()["replays"] == before + 1
    assert torch.equal(torch.get_rng_state(), state)
    assert CALLS == ["said"]
    assert torch.equal(fn(x), first)


def test_errors_of_a_cached_function_are_raised() -> None:
    @functools.lru_cache
    def fails(n: int) -> int:
        raise ValueError(n)

    def fn(x: torch.Tensor) -> torch.Tensor:
        try:
            fails(3)
        except ValueError as error:
            return x + error.args[0]
        return x

    x = torch.randn(2)
    compiled = saker.compile(fn)
    for _ in range(2):
        assert torch.equal(compiled(x), x + 3)


def test_weak_references() -> None:
    first, second = Part(), Part()
    holder = types.SimpleNamespace(ref=weakref.ref(first))

    def fn(x: torch.Tensor) -> torch.Tensor:
        part = holder.ref()
        return x if part is None else x * part.factor

    x = torch.randn(2)
    compiled = saker.compile(fn, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(x), x * 3)
    second.factor = 4
    holder.ref = weakref.ref(second)
    assert torch.equal(compiled(x), x * 4)
    del second
    assert torch.equal(compiled(x), x)


def test_read_only_views_of_dicts() -> None:
    numbers = {"a": 1}
    view = types.MappingProxyType(numbers)

    def inside(x: torch.Tensor) -> torch.Tensor:
        return x + sum(types.MappingProxyType(numbers).values())

    def outside(x: torch.Tensor) -> torch.Tensor:
        return x + sum(view.values())

    x = torch.randn(2)
    for fn in (inside, outside):
        compiled = saker.compile(fn)
        numbers.clear()
        for i in range(4):
            numbers[str(i)] = i
            assert torch.equal(compiled(x), fn(x))


@pytest.mark.parametrize("below_first", [True, False])
def test_calls_below_autograd_are_told_from_others(below_first: bool) -> None:
    """As in the kernel of a custom operator: what is recorded there has no gradients, elsewhere it has."""
    weight = torch.rand(3, requires_grad=True)

    def f(x):
        return (x * weight).sin().cumsum(0)

    compiled = saker.compile(f)
    for below in (below_first, not below_first) * 3:
        for function in (compiled, f):
            x = torch.rand(3, requires_grad=True)
            with torch._C._AutoDispatchBelowAutograd() if below else contextlib.nullcontext():
                result = function(x)
            assert result.requires_grad is not below
            if not below:
                assert all(grad.any() for grad in torch.autograd.grad(result.sum(), (x, weight)))
