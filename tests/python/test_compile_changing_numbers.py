"""Floats and counters that change from call to call, marks on sizes that change, and ranges of captured sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import saker
from alone import alone
from differential import same

STEPS = 12


def replays() -> int:
    return saker.stats()["replays"]


class Box:
    def __init__(self, value: Any) -> None:
        self.value = value


# --- floats ---

FLOATS: dict[str, Callable[[torch.Tensor, float], Any]] = {
    "times": lambda x, s: x * s,
    "reversed": lambda x, s: s - x,
    "divided": lambda x, s: (x / s, s / x),
    "power": lambda x, s: x.abs() ** s,
    "alpha": lambda x, s: torch.add(x, x, alpha=s),
    "in place": lambda x, s: x.clone().mul_(s).add_(s) * 1,
    "arithmetic": lambda x, s: x * (s * 2 + 1) + math.sqrt(s),
    "clamp": lambda x, s: x.clamp(max=s),
    "full": lambda x, s: x + torch.full((3,), s),
    "lerp": lambda x, s: torch.lerp(x, x + 1, s),
    "returned": lambda x, s: (x + 1, s, s * 3),
    "compared with a tensor": lambda x, s: x > s,
    "decides": lambda x, s: x * 2 if s > 0.55 else x * 3,
    "shown": lambda x, s: (x, f"{s:.3f}"),
    "a key": lambda x, s: (x, {s: 1}),
    "truth": lambda x, s: x if s else -x,
    "int of it": lambda x, s: x * int(s * 10),
    "leaky": lambda x, s: nn.functional.leaky_relu(x, s),
    "dropout": lambda x, s: nn.functional.dropout(x, s * 0, training=True),
}


@pytest.mark.parametrize("kind", ["float", "half", "int", "double", "0-dim"])
@pytest.mark.parametrize("name", FLOATS)
def test_float_argument(name: str, kind: str) -> None:
    function = FLOATS[name]
    make = {
        "float": lambda: torch.randn(4, 3),
        "half": lambda: torch.randn(4, 3).bfloat16(),
        "int": lambda: torch.randint(1, 9, (4, 3)),
        "double": lambda: torch.randn(4, 3).double(),
        "0-dim": lambda: torch.tensor(1.5),
    }[kind]
    compiled = saker.compile(function)
    for step in range(8):
        x, s = make(), 0.1 * (step + 1)
        try:
            expected = function(x, s)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                compiled(x, s)
            continue
        same(compiled(x, s), expected)


@pytest.mark.parametrize("training", [False, True])
def test_changing_floats_are_inputs(training: bool) -> None:
    def function(x: torch.Tensor, scale: float, box: Box) -> torch.Tensor:
        return (x * scale + box.value).sin() * (scale * 0.5)

    before, graphs = replays(), saker.stats()["graphs"]
    compiled = saker.compile(function)
    for step in range(STEPS):
        x = torch.randn(4, requires_grad=training)
        y = x.detach().clone().requires_grad_(training)
        scale, box = 0.25 * step - 1, Box(1.0 / (step + 1))
        got, expected = compiled(x, scale, box), function(y, scale, box)
        same(got.detach(), expected.detach())
        if training:
            got.sum().backward()
            expected.sum().backward()
            same(x.grad, y.grad)
    assert saker.stats()["graphs"] - graphs <= 3
    assert replays() - before >= STEPS - 3


class Scheduled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.rate = 0.9
        self.factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.factor = self.factor * self.rate
        return self.linear(x) * self.factor


def test_a_float_that_the_module_changes() -> None:
    torch.manual_seed(0)
    given, expected = Scheduled(), Scheduled()
    expected.load_state_dict(given.state_dict())
    before = replays()
    compiled = saker.compile(given)
    for _ in range(STEPS):
        x = torch.randn(2, 3)
        same(compiled(x).detach(), expected(x).detach())
        assert given.factor == expected.factor
        assert type(given.factor) is float
    assert replays() - before >= STEPS - 3


def test_one_float_object_in_two_places() -> None:
    """Floats are told apart by identity while recording, and must not be mixed up afterwards."""

    class Model(nn.Module):
        fixed = 0.5

        def __init__(self) -> None:
            super().__init__()
            self.a = self.b = Model.fixed

        def forward(self, x: torch.Tensor, s: float, t: float = 0.5) -> torch.Tensor:
            return x * s + self.a * 10 + self.b * 100 + self.fixed * 1000 + t * 10000

    model = Model()
    compiled = saker.compile(model)
    shared = 0.75
    values: list[tuple] = [
        (0.5, 0.5, 0.5),
        (0.25, 0.5, 0.5),
        (shared, shared, 0.5),
        (shared, 0.5, shared),
        (0.1, shared, shared),
        (Model.fixed, 0.2, 0.3),
        (0.9, 0.2, Model.fixed),
        (Model.forward.__defaults__[0], 0.2, 0.4),
        (0.35, 0.2, 0.4),
    ]
    for s, a, b in values * 2:
        model.a, model.b = a, b
        x = torch.randn(3)
        same(compiled(x, s), model(x, s))


def test_floats_with_fullgraph() -> None:
    before = replays()
    compiled = saker.compile(lambda x, s: x * s, fullgraph=True)
    for step in range(STEPS):
        same(compiled(torch.ones(3), 0.5 * step), torch.ones(3) * (0.5 * step))
    assert replays() - before == STEPS - 2
    deciding = saker.compile(lambda x, s: x * 2 if s > 1 else x, fullgraph=True)
    for step in range(6):
        same(deciding(torch.ones(3), 0.5 * step), torch.ones(3) * (2 if step > 2 else 1))


def test_special_floats() -> None:
    compiled = saker.compile(lambda x, s: x * s + s)
    for s in (1.0, 2.0, 0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1e308, 0.1):
        x = torch.tensor([0.0, -0.0, 1.0, math.inf])
        got, expected = compiled(x, s), x * s + s
        assert torch.equal(got.view(torch.int32), expected.view(torch.int32))


# --- counters ---


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.step = 0
        self.seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step += 1
        self.seen = self.seen + x.shape[0]
        return self.linear(x) / self.step + self.seen


@pytest.mark.parametrize("grad", [False, True])
@alone
def test_a_counter_of_a_module(grad: bool) -> None:
    torch.manual_seed(0)
    given, expected = Counting(), Counting()
    expected.load_state_dict(given.state_dict())
    before, graphs = replays(), saker.stats()["graphs"]
    compiled = saker.compile(given)
    with torch.set_grad_enabled(grad):
        for _ in range(STEPS):
            x = torch.randn(2, 3)
            same(compiled(x).detach(), expected(x).detach())
            assert (given.step, given.seen) == (expected.step, expected.seen)
            assert type(given.step) is int
    assert saker.stats()["graphs"] - graphs <= 4
    assert replays() - before >= STEPS - 4


@alone
def test_a_counter_that_is_only_read() -> None:
    class Model(nn.Module):
        epoch = 3

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.epoch if self.epoch < 9 else x

    model = Model()
    before = replays()
    compiled = saker.compile(model)
    for epoch in range(2, 2 + STEPS):
        model.epoch = epoch
        x = torch.randn(3)
        same(compiled(x), model(x))
        assert model.epoch == epoch
    assert replays() - before >= STEPS - 4


COUNT = 2


@alone
def test_a_global_counter() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        global COUNT
        COUNT += 1
        return x * COUNT

    before = replays()
    compiled = saker.compile(function)
    for step in range(STEPS):
        x = torch.randn(3)
        same(compiled(x), x * (3 + step))
        assert 3 + step == COUNT
        assert type(COUNT) is int
    assert replays() - before >= STEPS - 3


def test_a_counter_that_is_looked_at() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = 2
            self.names: dict[int, str] = {}

        def forward(self, x: torch.Tensor) -> tuple:
            self.step += 1
            self.names[self.step] = f"step {self.step}"
            return x * self.step, str(self.step), isinstance(self.step, int)

    given, expected = Model(), Model()
    compiled = saker.compile(given)
    for _ in range(STEPS):
        x = torch.randn(3)
        got, want = compiled(x), expected(x)
        same(got[0], want[0])
        assert got[1:] == want[1:]
        assert given.names == expected.names


def test_a_counter_that_decides() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.step += 1
            return x * 2 if self.step % 3 == 0 else x * self.step

    given, expected = Model(), Model()
    compiled = saker.compile(given)
    for _ in range(3 * STEPS):
        x = torch.randn(3)
        same(compiled(x), expected(x))
        assert given.step == expected.step


def test_an_error_leaves_the_counter() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = 2

        def forward(self, x: torch.Tensor, broken: bool) -> torch.Tensor:
            self.step += 1
            if broken:
                raise ValueError("broken")
            return x * self.step

    model = Model()
    compiled = saker.compile(model)
    for step in range(8):
        with pytest.raises(ValueError, match="broken"):
            compiled(torch.ones(2), True)
        same(compiled(torch.ones(2), False), torch.ones(2) * (4 + 2 * step))
        assert model.step == 4 + 2 * step


# --- marks ---


def test_marks_that_the_function_breaks() -> None:
    def marked(size: int, **how: int) -> torch.Tensor:
        x = torch.randn(size, 3)
        torch._dynamo.mark_dynamic(x, 0, **how)
        return x

    for function in (
        lambda x: x * len({x.shape[0]: 1}),
        lambda x: x + torch.ones(5, 3),
        lambda x: x * len(list(range(x.shape[0]))),
    ):
        with pytest.raises(saker.CaptureError, match="mark_dynamic"):
            saker.compile(function)(marked(5))
    for size in (0, 1, 5, 1):  # 0 and 1 have recordings of their own
        x = marked(size)
        same(saker.compile(lambda x: x * 2)(x), x * 2)
    with pytest.raises(saker.CaptureError, match="outside of the range"):
        saker.compile(lambda x: x * 2)(marked(9, min=2, max=8))
    fine = saker.compile(lambda x: x * x.shape[0] if x.shape[0] > 3 else x)
    before = replays()
    for size in (5, 6, 7, 8):
        x = marked(size, min=2, max=64)
        same(fine(x), x * size)
    assert replays() - before == 3
    weak = torch.randn(5, 3)
    torch._dynamo.maybe_mark_dynamic(weak, 0)
    same(saker.compile(lambda x: x + torch.ones(5, 3))(weak), weak + 1)


# --- captured graphs ---


@pytest.mark.parametrize("functional", [False, True])
def test_ranges_of_captured_sizes(functional: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 5 if x.shape[0] == 1 else x * 2 + torch.ones(x.shape[0], 1)

    graph = saker.capture(function, torch.randn(4, 3), dynamic={0: {0: "b"}})
    if functional:
        graph = graph.functional() if hasattr(graph, "functional") else graph
    for size in (2, 3, 9):
        x = torch.randn(size, 3)
        same(graph(x), function(x))
    for size in (1, 0):
        with pytest.raises(saker.RunError, match=r"the size b is \d, and must be in \[2, inf\]"):
            graph(torch.randn(size, 3))


# --- where numbers are found ---


class SlottedNumber:
    __slots__ = ("value",)


RATE = 0.5


def places() -> dict[str, tuple[Callable, Callable[[Any], None], Callable[[Any], tuple]]]:
    """By name: a function of a tensor, what sets the number, and further arguments."""
    box, slotted, table, row = Box(0), SlottedNumber(), {"rate": 0.5, 3: 0.5}, [1, 0.5]
    cell = 0.5

    def set_cell(value: Any) -> None:
        nonlocal cell
        cell = value

    def set_global(value: Any) -> None:
        global RATE
        RATE = value

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.value

    class Called:
        __slots__ = ("value",)

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.value

    model, called = Model(), Called()
    nothing, none = lambda value: None, lambda value: ()
    return {
        "argument": (lambda x, s: x * s, nothing, lambda value: (value,)),
        "a slot of an argument": (
            lambda x, o: x * o.value,
            lambda value: setattr(slotted, "value", value),
            lambda value: (slotted,),
        ),
        "a slot of self": (called, lambda value: setattr(called, "value", value), none),
        "an attribute": (lambda x: x * box.value, lambda value: setattr(box, "value", value), none),
        "an attribute of self": (model, lambda value: setattr(model, "value", value), none),
        "a cell": (lambda x: x * cell, set_cell, none),
        "a global": (lambda x: x * RATE, set_global, none),
        "a dict": (lambda x: x * table["rate"], lambda value: table.__setitem__("rate", value), none),
        "an int key": (lambda x: x * table[3], lambda value: table.__setitem__(3, value), none),
        "a list": (lambda x: x * row[1], lambda value: row.__setitem__(1, value), none),
    }


PLACES = list(places())
MIXED = [1.0, 2.0, 0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1, 2, True, False, 3, 0.5, 0, 1]


@pytest.mark.parametrize("grad", [False, True])
@alone
def test_a_number_that_changes_anywhere(grad: bool) -> None:
    for name in PLACES:
        for kind in ("float", "int"):
            check_place(name, kind, grad)


def check_place(name: str, kind: str, grad: bool) -> None:
    function, put, further = places()[name]
    before, graphs = replays(), saker.stats()["graphs"]
    compiled = saker.compile(function)
    for step in range(STEPS):
        value = 0.05 * (step + 1) if kind == "float" else step + 3
        x = torch.randn(4, requires_grad=grad)
        y = x.detach().clone().requires_grad_(grad)
        put(value)
        got = compiled(x, *further(value))
        expected = function(y, *further(value))
        same(got.detach(), expected.detach())
        if grad:
            got.sum().backward()
            expected.sum().backward()
            same(x.grad, y.grad)
    assert replays() - before >= STEPS - 3, (name, kind)
    assert saker.stats()["graphs"] - graphs <= 3, (name, kind)


@alone
def test_special_numbers_of_all_types() -> None:
    for name in PLACES:
        function, put, further = places()[name]
        compiled = saker.compile(function, recompile_limit=32)
        for value in MIXED * 2:
            x = torch.tensor([0.0, -0.0, 1.0, math.inf])
            put(value)
            got = compiled(x, *further(value))
            expected = function(x, *further(value))
            assert got.dtype == expected.dtype
            assert torch.equal(got.view(torch.int32), expected.view(torch.int32)), (name, value)


DECIDING: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "above": lambda x, s: x * s if s > 0.4 else x - s,
    "from the other side": lambda x, s: x * s if s > 0.4 else x - s,
    "at least": lambda x, s: x * s if s >= 0 else x,
    "an int": lambda x, s: x * s if s != 1 else x + 5,
    "truth": lambda x, s: x * s if s else x - 1,
    "not": lambda x, s: x - 1 if not s else x * s,
    "between": lambda x, s: x * s if 0.2 <= s < 0.5 else x + s,
}


@pytest.mark.parametrize("name", DECIDING)
def test_a_float_that_decides_by_itself(name: str) -> None:
    """Which way it goes is a guard: one recording for each way, not for each value."""
    function = DECIDING[name]
    compiled = saker.compile(function, recompile_limit=16)
    before, graphs = replays(), saker.stats()["graphs"]
    values = [0.05 * step for step in range(1, 20)] + [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.5, 0.3]
    for s in values:
        x = torch.randn(3)
        got, expected = compiled(x, s), function(x, s)
        assert torch.equal(got.view(torch.int32), expected.view(torch.int32)), s
    assert saker.stats()["graphs"] - graphs <= 5
    assert replays() - before >= len(values) - 6
