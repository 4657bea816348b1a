"""Numbers that change from call to call, seen by Python code: always as eager mode shows them.

Each program takes a number from a source (a size, a stride, an argument, ...) to a door: an operation that could tell a
symbol from an int. What comes out must be eager's on every call, the printed text included.
"""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import json
import math
import numbers
import operator
from collections.abc import Callable, Iterator
from typing import Any, SupportsInt, runtime_checkable

import numpy as np
import pytest
import torch

import saker
from differential import same

SOURCES: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "size": lambda x, n: x.shape[0],
    "size method": lambda x, n: x.size(0),
    "negative dim": lambda x, n: x.size(-2),
    "numel": lambda x, n: x.numel(),
    "stride": lambda x, n: x.t().contiguous().stride(0),
    "len": lambda x, n: len(x),
    "argument": lambda x, n: n,
    "sum": lambda x, n: x.shape[0] + n,
    "difference": lambda x, n: x.shape[0] - 9,
    "floor division": lambda x, n: n // 2,
    "remainder": lambda x, n: x.shape[0] % 3,
    "float": lambda x, n: n / 2,
    "float of a size": lambda x, n: x.shape[0] * 0.25,
    "from operators": lambda x, n: torch.cat([x, x]).shape[0],
    "int of it": lambda x, n: int(x.shape[0]),
    "float() of it": lambda x, n: float(n),
    "unpacked": lambda x, n: [*x.shape][0],
    "product": lambda x, n: math.prod(x.shape),
    "negated": lambda x, n: -n,
}


class Meta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return type(instance) is int and instance > 5


class Large(metaclass=Meta):
    pass


class Level(enum.IntEnum):
    LOW = 4
    HIGH = 6


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __radd__(self, other: Any) -> Any:
        return ("radd", isinstance(other, int), type(other).__name__, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and self.value == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Plain({self.value!r})"


Checked = runtime_checkable(SupportsInt) if not isinstance(3, SupportsInt) else SupportsInt
Named = collections.namedtuple("Named", "a b")


def match_class(v: Any) -> str:
    match v:
        case bool():
            return "bool"
        case int(k):
            return f"int {k}"
        case float():
            return "float"
        case _:
            return "other"


def match_value(v: Any) -> str:
    match v:
        case 4:
            return "four"
        case 6 | 8:
            return "six or eight"
        case _:
            return "other"


def caught(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)


def in_handler(v: Any) -> Any:
    try:
        {v: 1}
    except TypeError:
        return "no key"
    return "a key"


def listed(v: Any) -> list:
    out = []
    out.append(v)
    out.insert(0, v)
    out.extend([v, 1])
    return [repr(out), out.index(v), out.count(v), 1 in out]


DOORS: dict[str, Callable[[Any], Any]] = {
    # its class
    "isinstance int": lambda v: isinstance(v, int),
    "isinstance float": lambda v: isinstance(v, float),
    "isinstance bool": lambda v: isinstance(v, bool),
    "isinstance of several": lambda v: (isinstance(v, (str, int)), isinstance(v, int | str), isinstance(v, list)),
    "isinstance SymInt": lambda v: isinstance(v, torch.SymInt | torch.SymFloat),
    "isinstance Integral": lambda v: (isinstance(v, numbers.Integral), isinstance(v, numbers.Number)),
    "isinstance of a metaclass": lambda v: isinstance(v, Large),
    "isinstance of a protocol": lambda v: isinstance(v, Checked),
    "type": lambda v: type(v),
    "type is": lambda v: (type(v) is int, type(v) == float),
    "type name": lambda v: type(v).__name__,
    "class": lambda v: v.__class__,
    "issubclass": lambda v: issubclass(type(v), int),
    "issubclass of class": lambda v: issubclass(v.__class__, (int, float)),
    "partial": lambda v: functools.partial(isinstance, v)(int),
    "map type": lambda v: list(map(type, [v, 1])),
    "map isinstance": lambda v: list(map(isinstance, [v, v], [int, float])),
    "sorted by type": lambda v: [str(t) for t in sorted([v, 2.0], key=id) if t == v] != [],
    "attrgetter": lambda v: operator.attrgetter("__class__")(v),
    "getattr": lambda v: getattr(v, "__class__", None),
    "hasattr": lambda v: (hasattr(v, "node"), hasattr(v, "real"), hasattr(v, "bit_length")),
    "dir": lambda v: "node" in dir(v),
    "match class": match_class,
    "match value": match_value,
    "callable": lambda v: callable(v),
    "singledispatch": lambda v: dispatched(v),
    # which object it is
    "is True": lambda v: ((v > 3) is True, (v == v) is True, (v < 3) is False),
    "is None": lambda v: v is None,
    "is itself": lambda v: v is v,
    "is a number": lambda v: v is 4 if isinstance(v, int) else None,  # noqa: F632
    "comparison class": lambda v: (type(v > 3), isinstance(v == 3, bool), type(v != v)),
    "comparison text": lambda v: f"{v > 3} {v == 4} {v != 4} {v <= 4} {v >= 4}",
    "comparison key": lambda v: {v > 3: "a", v == 4: "b"},
    "comparison operator": lambda v: (operator.gt(v, 3), operator.eq(v, 4), v.__gt__(3)),
    "comparison sum": lambda v: (v > 3) + (v > 5),
    "comparison and": lambda v: [(v > 3) & (v < 8), (v > 3) | (v < 1), (v > 3) ^ True],
    "not": lambda v: (not v, bool(v), v and 1, v or 2),
    "chained": lambda v: 3 < v < 8,
    "equal ids": lambda v: id(v) == id(v),
    # its text
    "str": lambda v: str(v),
    "repr": lambda v: repr(v),
    "format": lambda v: f"{v}",
    "format spec": lambda v: f"{v:>8}|{v:08.3f}",
    "format call": lambda v: format(v, "6"),
    "str.format": lambda v: "{} {0!r}".replace("{0!r}", "{!r}").format(v, v),
    "percent": lambda v: "%s and %5.1f" % (v, v),  # noqa: UP031
    "join": lambda v: ",".join(map(str, [v, v])),
    "text of a tuple": lambda v: str((v, [v], {"k": v})),
    "text of an object": lambda v: repr(Plain(v)),
    "text of a named tuple": lambda v: repr(Named(v, 1)),
    "text of an exception": lambda v: str(ValueError(v, 1)),
    "json": lambda v: json.dumps({"n": v}),
    "print": lambda v: print("value", v),
    "hex": lambda v: caught(lambda: hex(v)),
    # its hash
    "hash": lambda v: hash(v),
    "hash of a tuple": lambda v: hash((v, 1)),
    "dict key": lambda v: {v: 1},
    "dict item": lambda v: {4: "a", 6: "b"}.get(v, "none"),
    "dict comprehension": lambda v: {k: 1 for k in (v, 1)},
    "set": lambda v: len({v, 4, 6}),
    "set call": lambda v: sorted(set([v, 1.5])),
    "in a set": lambda v: v in {4, 6},
    "in a tuple": lambda v: v in (4, 6, 2.5),
    "in a range": lambda v: v in range(3, 7),
    "in a list of sizes": lambda v: 6 in [v, 2],
    "counter": lambda v: collections.Counter([v, v])[v],
    "setdefault": lambda v: {}.setdefault(v, 3),
    "fromkeys": lambda v: dict.fromkeys([v, 1]),
    "zip dict": lambda v: dict(zip([v, 1], "ab", strict=True)),
    "key in a handler": in_handler,
    "tuple key": lambda v: {(v, 1): 2}[(v, 1)],
    # arithmetic
    "arithmetic": lambda v: (v + 1, 2 - v, v * 3, v / 4, -v, +v, abs(v), v + 0.5),
    "floor and mod": lambda v: (v // 3, v % 3, divmod(v, 3), v // 0.7, v % 0.7, caught(lambda: (7 // v, -7 % v))),
    "powers": lambda v: caught(lambda: (v**2, v**0.5 if v > 0 else 0, abs(v) ** -0.5, 2**v if v < 20 else 0, v**3.0)),
    "complex power": lambda v: (v - 20) ** 0.5,
    "bits": lambda v: caught(lambda: (v & 3, v | 1, v ^ 5, v << 1, v >> 1, ~v)),
    "bool operands": lambda v: (v + True, True * v, v == True),  # noqa: E712
    "large int": lambda v: (v + 10**30, v * 2**70, v == 2**64),
    "complex": lambda v: (v + 1j, 2j * v, v == 4 + 0j, complex(v)),
    "fraction": lambda v: caught(lambda: str(__import__("fractions").Fraction(1, 2) + v)),
    "repeat": lambda v: caught(lambda: ([0] * v, "ab" * v, (1,) * v)),
    "enum": lambda v: (v == Level.LOW, v == Level.HIGH, v < Level.HIGH, v + Level.LOW, v in [Level.LOW]),
    "enum call": lambda v: caught(lambda: Level(v)),
    "user class": lambda v: (v + Plain(1), Plain(4) == v, v == Plain(6), [v] == [Plain(6)]),
    "comparison with others": lambda v: (v == None, v == "4", v != (), v == [v], (v,) == (4,), [v] < [5]),  # noqa: E711
    "numpy scalar": lambda v: (v + np.float64(2.0), np.int64(3) == v, v < np.int32(5)),
    "numpy": lambda v: float(np.sqrt(abs(v))),
    "numpy array": lambda v: (np.arange(3) * v).tolist(),
    "compared by C": lambda v: caught(lambda: max(v, "a")),
    "negative power": lambda v: caught(lambda: v**-1),
    "divided by zero": lambda v: caught(lambda: 1 // (v - v)),
    # conversions and functions
    "int": lambda v: (int(v), isinstance(int(v), int), int(v) + 1),
    "float": lambda v: (float(v), float(v) / 3),
    "index": lambda v: caught(lambda: operator.index(v)),
    "round": lambda v: (round(v), round(v, 1), round(v, -1), round(v + 0.5)),
    "math": lambda v: (math.floor(v), math.ceil(v / 2), math.sqrt(abs(v)), math.trunc(v), math.isclose(v, 4)),
    "more math": lambda v: caught(lambda: (math.gcd(v, 4), math.log2(abs(v)), math.factorial(abs(v)))),
    "ldexp": lambda v: caught(lambda: math.ldexp(1.5, v)),
    "min and max": lambda v: (max(v, 5), min(v, 5), max([v, 2]), min(v, 3.5), sum([v, v, 1]), sorted([v, 5, 3])),
    "reduce": lambda v: functools.reduce(operator.mul, [v, 2, v]),
    "accumulate": lambda v: list(itertools.accumulate([v, 1, v])),
    "range": lambda v: caught(lambda: list(range(v))),
    "range object": lambda v: caught(lambda: repr(range(2, v))),
    "slice": lambda v: caught(lambda: ([1, 2, 3, 4, 5, 6][:v], slice(v), slice(0, v).indices(5))),
    "list index": lambda v: caught(lambda: [*range(40)][v]),
    "str index": lambda v: caught(lambda: "abcdefghijklmnopqrstuvwxyz0123456789"[v]),
    "list methods": listed,
    "unpack": lambda v: caught(lambda: [*v]),
    "call it": lambda v: caught(lambda: v()),
    "item of it": lambda v: caught(lambda: v[0]),
    "len of it": lambda v: caught(lambda: len(v)),
    "set an attribute": lambda v: caught(lambda: setattr(v, "mark", 1)),
    "with": lambda v: caught(lambda: v.__enter__()),
    "attributes": lambda v: (v.real, v.imag, v.conjugate()),
    "ratio": lambda v: v.as_integer_ratio(),
    "bit length": lambda v: caught(lambda: v.bit_length()),
    "is integer": lambda v: float(v).is_integer(),
    "unbound method": lambda v: caught(lambda: int.__add__(v, 3)),
    "bound method": lambda v: v.__add__(3),
    "bytes": lambda v: caught(lambda: bytes(v)),
    "chr": lambda v: caught(lambda: chr(v + 60)),
    "islice": lambda v: caught(lambda: list(itertools.islice(range(50), v))),
    "zip": lambda v: [(isinstance(a, int), b) for a, b in zip([v], [v], strict=True)],
    "raise": lambda v: caught(lambda: (_ for _ in ()).throw(ValueError(v))),
}


@functools.singledispatch
def dispatched(v: object) -> str:
    return "object"


@dispatched.register
def _(v: int) -> str:
    return "int"


@dispatched.register
def _(v: float) -> str:
    return "float"


def agrees(function: Callable, calls: list[tuple], capsys: pytest.CaptureFixture) -> None:
    compiled = saker.compile(function)
    for args in calls:
        capsys.readouterr()
        expected, printed = function(*args), capsys.readouterr()
        got = compiled(*args)
        assert capsys.readouterr() == printed
        same(got, expected)
        assert repr(got[1]) == repr(expected[1])
        assert types(got) == types(expected)


def types(tree: Any) -> Any:
    if isinstance(tree, dict):
        return [(types(key), types(value)) for key, value in tree.items()]
    return [types(part) for part in tree] if isinstance(tree, list | tuple) else type(tree)


@pytest.fixture
def no_notices() -> Iterator[None]:
    """What a program prints is compared: nobody is told that it runs eagerly."""
    saker.set_logs("")
    yield
    saker.set_logs()


@pytest.mark.parametrize("door", DOORS)
def test_every_source_at_this_door(door: str, capsys: pytest.CaptureFixture, no_notices: None) -> None:
    look = DOORS[door]
    for name, source in SOURCES.items():

        def function(x: torch.Tensor, n: int, source: Callable = source) -> tuple:
            return x * 2, look(source(x, n))

        if door in ("equal ids",) and "float" in name:
            continue
        sizes = [(4, 8), (6, 8), (6, 6), (5, 5), (8, 4), (4, 6), (7, 9)]
        agrees(function, [(torch.randn(size, 3), n) for size, n in sizes], capsys)


OPERATORS: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "arithmetic": lambda x, v: (x * v, x + v, v - x, x / v, x // v, x % v, x**2 * v),
    "power": lambda x, v: (x.abs() + 1) ** (v / 4),
    "comparison": lambda x, v: (x == v, x < v, v >= x),
    "full": lambda x, v: (torch.full((2,), v), x.new_full((1,), v), torch.full_like(x, v)),
    "tensor": lambda x, v: (torch.tensor(v), torch.tensor([v, 1]), torch.as_tensor(v), torch.scalar_tensor(v)),
    "arange": lambda x, v: (torch.arange(v), torch.arange(0, v, 2), torch.linspace(0, v, 3)),
    "where": lambda x, v: (torch.where(x > 0, x, v), x.masked_fill(x > 0, v), x.clamp(max=v)),
    "in place": lambda x, v: x.clone().fill_(v).add_(v if isinstance(v, int) else 1) * 1,
    "alpha": lambda x, v: torch.add(x, x, alpha=v) if x.is_floating_point() or isinstance(v, int) else x,
    "sizes": lambda x, v: torch.ones(int(v)).sum() + torch.zeros(2, int(v)).numel(),
    "padding": lambda x, v: torch.nn.functional.pad(x, (0, int(v))),
    "indexing": lambda x, v: (x[: int(v)] + 0, x[int(v) // 5] + 0, x[:, :2].narrow(0, 1, int(v) // 8) + 0),
    "0-dim": lambda x, v: (x.sum() * v, x.sum() + v, torch.tensor(2) * v),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bfloat16])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_take_them_as_numbers(name: str, dtype: torch.dtype) -> None:
    for source in ("size", "argument", "float", "sum", "float of a size"):

        def function(x: torch.Tensor, n: int, source: Callable = SOURCES[source]) -> Any:
            return OPERATORS[name](x, source(x, n))

        compiled = saker.compile(function)
        for size, n in [(4, 8), (6, 8), (6, 6), (5, 5), (8, 4), (4, 6)]:
            x = torch.randint(-4, 5, (size, 3)).to(dtype)
            same(compiled(x, n), function(x, n))


@pytest.mark.parametrize("dynamic", [None, True])
def test_tensors_whose_shape_is_shown(dynamic: bool | None) -> None:
    def function(x: torch.Tensor) -> tuple:
        shape = x.shape
        return x + 1, str(shape), f"{shape}", hash(shape), {shape: 1}, list(shape), shape == (4, 3), shape.numel()

    compiled = saker.compile(function, dynamic=dynamic)
    for size in (4, 5, 6, 4, 1, 0, 7):
        x = torch.randn(size, 3)
        assert repr(compiled(x)) == repr(function(x))


def test_what_is_seen_is_fixed_and_the_rest_changes() -> None:
    """One size is a key, the other one changes: two graphs serve many sizes of the other one."""

    def function(x: torch.Tensor, names: dict) -> torch.Tensor:
        return x * x.shape[0] + len(names[x.shape[1]])

    before = saker.stats()
    compiled = saker.compile(function, dynamic=True)
    names = {3: "abc", 5: "abcde"}
    for size in range(2, 12):
        x = torch.randn(size, 3)
        same(compiled(x, names), function(x, names))
    assert saker.stats()["graphs"] - before["graphs"] == 1
    assert saker.stats()["replays"] - before["replays"] == 9
    same(compiled(torch.ones(4, 5), names), function(torch.ones(4, 5), names))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2 if isinstance(x.shape[0], int) else x,
        lambda x: x.reshape(int(x.shape[0]), -1) * float(x.shape[0]),
        lambda x: x * 2 if type(x.shape[0]) is int and (x.shape[0] > 1) is True else x,
        lambda x: x[: int(x.shape[0] * 0.5)].sum() * x.shape[0] ** -0.5,
        lambda x: x * max(x.shape) + sum(x.shape) + math.prod(x.shape) + math.ceil(x.shape[0] / 3),
        lambda x: x * functools.reduce(operator.mul, x.shape),
        lambda x: x.view(*[s for s in x.shape if isinstance(s, int)]) * 3,
    ],
)
def test_ordinary_code_stays_one_graph(function: Callable) -> None:
    before = saker.stats()
    compiled = saker.compile(function)
    for size in range(3, 15):
        x = torch.randn(size, 2)
        same(compiled(x), function(x))
    assert saker.stats()["graphs"] - before["graphs"] <= 4
    assert saker.stats()["replays"] - before["replays"] >= 8


def test_strides_that_are_kept_though_they_do_not_matter() -> None:
    """Of dimensions of one element: eager mode makes some results like the argument, strides and all."""
    for function in (
        lambda x: x[..., 1:].nan_to_num(1.0, 2.0, -2.0),
        lambda x: x[..., 1:].nan_to_num_(1.0, 2.0, -2.0),
        lambda x: torch.nan_to_num(x[..., 1:], 1.0, out=torch.empty(0)),
        lambda x: x[..., 1:].deg2rad(),
        lambda x: torch.empty_like(x[..., 1:]).fill_(2),
        lambda x: x[..., 1:].exp(),
        lambda x: x[..., 1:] + 1,
    ):
        compiled = saker.compile(function, dynamic=True)
        for size in (9, 12):
            x = torch.randn(1, 1, size)
            found, expected = compiled(x.clone()), function(x.clone())
            assert found.stride() == expected.stride()
            assert torch.equal(found, expected)
