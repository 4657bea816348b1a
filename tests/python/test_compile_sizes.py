"""Sizes that change, of tensors in lists, dicts and objects that compiled functions are given; and writes to these."""

from __future__ import annotations

import collections
import gc
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import saker
from differential import same

Pair = collections.namedtuple("Pair", "first second")


class Box:
    def __init__(self, tensor: torch.Tensor, count: int = 3) -> None:
        self.tensor, self.count, self.other = tensor, count, None


class Slotted:
    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class Layer:
    def __init__(self) -> None:
        self.keys: torch.Tensor | None = None
        self.seen: list[int] = []

    def update(self, new: torch.Tensor) -> torch.Tensor:
        self.keys = new if self.keys is None else torch.cat([self.keys, new])
        return self.keys


class Cache:
    def __init__(self) -> None:
        self.layers = [Layer(), Layer()]
        self.calls = 0


def graphs() -> int:
    return saker.stats()["graphs"]


def replayed(function: Callable, make: Callable[[int], tuple], *, sizes: range = range(2, 14), most: int = 3) -> None:
    """Calls with arguments of many sizes: as eager mode, arguments after the call included, by few recordings."""
    before = graphs()
    compiled = saker.compile(function)
    for size in sizes:
        torch.manual_seed(size)
        given = make(size)
        torch.manual_seed(size)
        expected = make(size)
        same(compiled(*given), function(*expected))
        same(state(given), state(expected))
    assert graphs() - before <= most


def state(tree: Any, seen: set[int] | None = None) -> Any:
    """All that can be reached, as lists."""
    seen = set() if seen is None else seen
    if isinstance(tree, torch.Tensor | torch.Size | int | float | str | None):
        return tree
    if id(tree) in seen:
        return "seen before"
    seen.add(id(tree))
    if isinstance(tree, dict):
        return [[key, state(value, seen)] for key, value in tree.items()]
    if isinstance(tree, list | tuple):
        return [type(tree).__name__, *(state(value, seen) for value in tree)]
    names = tree.__slots__ if hasattr(tree, "__slots__") else sorted(vars(tree))
    return [type(tree).__name__, *([name, state(getattr(tree, name), seen)] for name in names)]


def total(x: torch.Tensor) -> torch.Tensor:
    return x.sin().sum(0) * x.shape[0]


def test_in_a_list() -> None:
    replayed(lambda tensors: total(tensors[0]) + tensors[1], lambda n: ([torch.randn(n, 3), torch.randn(3)],))


def test_in_a_dict_of_tuples() -> None:
    replayed(lambda d: total(d["a"][1]), lambda n: ({"a": (1, torch.randn(n, 3))},))


def test_in_a_named_tuple() -> None:
    replayed(lambda p: Pair(total(p.first), p.second), lambda n: (Pair(torch.randn(n, 3), n > 0),))


def test_in_an_object_by_keyword() -> None:
    before = graphs()
    compiled = saker.compile(lambda *, box: total(box.tensor) * box.count)
    for size in range(2, 12):
        box = Box(torch.randn(size, 3))
        same(compiled(box=box), total(box.tensor) * box.count)
    assert graphs() - before == 2


def test_numbers_in_an_object() -> None:
    replayed(lambda box: box.tensor * box.count, lambda n: (Box(torch.randn(4), n),))


def test_all_sizes_of_several() -> None:
    def function(boxes: list[Box]) -> list[torch.Tensor]:
        return [total(box.tensor) for box in boxes]

    replayed(function, lambda n: ([Box(torch.randn(n, 3)), Box(torch.randn(2 * n, 3))],))


def test_writes_to_what_holds_them() -> None:
    def grow(box: Box) -> torch.Tensor:
        box.tensor = torch.cat([box.tensor, box.tensor[:1]])
        box.other = [box.tensor * 2, "new"]
        return box.tensor.sum()

    replayed(grow, lambda n: (Box(torch.randn(n, 3)),))


def test_writes_to_lists_and_dicts() -> None:
    def change(tensors: list, names: dict) -> torch.Tensor:
        tensors.append(tensors[0] * 2)
        names["new"] = names.pop("old") + 1
        tensors[0].add_(1)
        return tensors[-1].sum()

    replayed(change, lambda n: ([torch.randn(n)], {"old": torch.randn(n, 2)}))


def test_a_cache_that_grows() -> None:
    def step(x: torch.Tensor, cache: Cache) -> torch.Tensor:
        cache.calls = 1
        for layer in cache.layers:
            x = x + layer.update(x).mean(0)
        return x

    before = graphs()
    compiled = saker.compile(step)
    for _ in range(2):
        given, expected = Cache(), Cache()
        for count in range(12):
            torch.manual_seed(count)
            x = torch.randn(4 if count == 0 else 2, 3)
            same(compiled(x, given), step(x, expected))
            same(state(given), state(expected))
    assert graphs() - before <= 4


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.flag: str | None = None
        self.last = {"rows": None}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.flag = "inside"
        self.last["kind"] = "sizes"
        result = self.linear(x) * x.shape[0]
        self.flag = None
        return result


def test_writes_that_are_put_back() -> None:
    model = Counted()
    before = graphs()
    compiled = saker.compile(model)
    for size in range(2, 12):
        x = torch.randn(size, 3)
        got, expected = compiled(x), model(x)
        same(got.detach(), expected.detach())
        parameters = list(model.parameters())
        gradients = [torch.autograd.grad(each.sum(), parameters) for each in (got, expected)]
        torch.testing.assert_close(*gradients)
        assert model.flag is None
        assert model.last == {"rows": None, "kind": "sizes"}
    assert graphs() - before == 2


# --- where copies would show, and must not ---


def test_one_object_in_two_places() -> None:
    def function(first: Box, second: Box) -> torch.Tensor:
        first.tensor = first.tensor * 2
        return second.tensor.sum() * second.tensor.shape[0]

    compiled = saker.compile(function)
    for size in range(2, 9):
        for both in (False, True, False):
            given = [Box(torch.ones(size)), Box(torch.ones(size))]
            expected = [Box(torch.ones(size)), Box(torch.ones(size))]
            got, want = [compiled, function], []
            want = [call(box[0], box[0 if both else 1]) for call, box in zip(got, (given, expected), strict=True)]
            same(*want)
            same(state(given), state(expected))


def test_one_tensor_in_two_places() -> None:
    def function(pair: list) -> torch.Tensor:
        pair[0].add_(1)
        return pair[1] * pair[1].shape[0]

    def make(n: int) -> tuple:
        tensor = torch.randn(n)
        return ([tensor, tensor],)

    replayed(function, make)
    replayed(function, lambda n: ([torch.randn(n), torch.randn(n)],))


def test_memory_that_is_shared_later() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    compiled = saker.compile(function)
    for size in range(2, 7):
        for shared in (False, True, False, True):
            results = []
            for call in (compiled, function):
                base, other = torch.ones(size + 1), torch.ones(size)
                results.append(call(base[1:], base[:-1] if shared else other))
            same(*results)


def test_a_way_back_to_the_argument() -> None:
    def function(box: Box) -> torch.Tensor:
        box.tensor = box.tensor + 1
        return box.other.tensor * box.other.tensor.shape[0]

    def make(n: int) -> tuple:
        box = Box(torch.randn(n))
        box.other = box
        return (box,)

    replayed(function, make, most=9)


def test_which_object_it_is() -> None:
    keep: list[Any] = []

    def function(box: Box) -> torch.Tensor:
        keep.append(box)
        return box.tensor * 2

    compiled = saker.compile(function)
    for size in range(2, 8):
        box = Box(torch.randn(size))
        same(compiled(box), box.tensor * 2)
        assert keep[-1] is box
    assert len(keep) == 6


def test_identity_decides() -> None:
    chosen = Box(torch.ones(5))

    def function(box: Box) -> torch.Tensor:
        return box.tensor * (3 if box is chosen else 2)

    compiled = saker.compile(function)
    for size in (2, 3, 4, 6):
        box = Box(torch.randn(size))
        same(compiled(box), function(box))
        same(compiled(chosen), function(chosen))


class Finalised(Box):
    gone: ClassVar[list[int]] = []

    def __del__(self) -> None:
        Finalised.gone.append(self.count)


def test_objects_with_a_finalizer_are_not_copied() -> None:
    compiled = saker.compile(lambda box: total(box.tensor))
    for size in range(2, 6):
        box = Finalised(torch.randn(size, 3), size)
        same(compiled(box), total(box.tensor))
        del box
    gc.collect()
    assert Finalised.gone == [2, 3, 4, 5]


def test_slots_are_not_copied() -> None:
    replayed(lambda box: total(box.tensor), lambda n: (Slotted(torch.randn(n, 3)),), sizes=range(2, 8), most=9)


@pytest.mark.parametrize("training", [False, True])
def test_gradients(training: bool) -> None:
    compiled = saker.compile(lambda tensors: total(tensors["x"]).square().sum())
    for size in range(2, 10):
        x = torch.randn(size, 3, requires_grad=training)
        y = x.detach().clone().requires_grad_(training)
        got, expected = compiled({"x": x}), total(y).square().sum()
        torch.testing.assert_close(got, expected)
        if training:
            got.backward()
            expected.backward()
            torch.testing.assert_close(x.grad, y.grad)


def test_errors_leave_nothing_changed() -> None:
    def function(box: Box, broken: bool) -> torch.Tensor:
        box.other = "set"
        if broken:
            raise ValueError("broken")
        return total(box.tensor)

    compiled = saker.compile(function)
    for size in range(2, 8):
        box = Box(torch.randn(size, 3))
        with pytest.raises(ValueError, match="broken"):
            compiled(box, True)
        assert box.other == "set"
        box.other = None
        same(compiled(box, False), total(box.tensor))
        assert box.other == "set"


# --- what a call that is followed without running it must not do, whatever it catches ---


def tries_and_goes_on(x: torch.Tensor, log: list) -> torch.Tensor:
    try:
        log.append("tried")
    except Exception:
        log.append("caught")
    log.append("after")
    return x * x.shape[0]


def catches_everything(x: torch.Tensor, log: list) -> torch.Tensor:
    try:
        log.append("tried")
    except:  # noqa: E722
        log.append("caught")
    finally:
        log.append("finally")
    return x * x.shape[0]


def tries_again(x: torch.Tensor, log: list) -> torch.Tensor:
    while True:
        try:
            log.append("tried")
            break
        except:  # noqa: E722
            continue
    return x * x.shape[0]


def under_another_mode(x: torch.Tensor, log: list) -> torch.Tensor:
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        log.append(torch.is_grad_enabled())
        y = x * x.shape[0]
    log.append(torch.is_grad_enabled())
    return y


def through_a_callback(x: torch.Tensor, log: list) -> torch.Tensor:
    order = sorted([3, 1, 2], key=lambda v: log.append(v) or -v)
    return x * x.shape[0] + order[0]


def by_a_generator(x: torch.Tensor, log: list) -> torch.Tensor:
    def steps() -> Any:
        try:
            yield 1
            log.append("step")
            yield 2
        finally:
            log.append("closed")

    for step in steps():
        x = x * step
    return x * x.shape[0]


@pytest.mark.parametrize(
    "function",
    [tries_and_goes_on, catches_everything, tries_again, under_another_mode, through_a_callback, by_a_generator],
)
def test_nothing_happens_twice(function: Callable) -> None:
    given: list[Any] = []
    expected: list[Any] = []
    compiled = saker.compile(lambda x: function(x, given))
    for size in range(2, 7):
        x = torch.randn(size, requires_grad=size % 2 == 0)
        same(compiled(x), function(x, expected))
        assert given == expected
        assert torch.is_grad_enabled()
        assert not torch.is_autocast_enabled("cpu")


def test_sizes_that_leave_the_call() -> None:
    def function(x: torch.Tensor, box: Box) -> tuple:
        box.count = x.shape[0]
        box.other = (x.shape[0] - 10, x.shape)
        return x * 2, x.shape[0] * 3 - 20, x.shape, [x.numel()]

    replayed(function, lambda n: (torch.randn(n, 3), Box(torch.randn(2))))


def test_a_cache_grows_beside_what_cannot_be_copied() -> None:
    class Outputs(collections.OrderedDict):
        """As those of transformers: a dict of a class of its own."""

    class Cache:
        keys: torch.Tensor

    def decode(x: torch.Tensor, cache: Cache, encoded: Outputs) -> torch.Tensor:
        cache.keys = torch.cat([cache.keys, x], 1)
        return (cache.keys * encoded["state"].sum()).sum(1)

    def run(step: Any) -> list[torch.Tensor]:
        cache, encoded = Cache(), Outputs(state=torch.ones(2, 3))
        cache.keys = torch.zeros(2, 2)
        return [step(torch.full((2, 1), float(i)), cache, encoded) for i in range(20)]

    saker.reset(counts=True)
    torch.testing.assert_close(run(saker.compile(decode)), run(decode), rtol=0, atol=0)
    assert saker.stats()["graphs"] <= 3
    assert saker.stats()["replays"] >= 17
