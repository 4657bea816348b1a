"""Generators and iterators that were made before a compiled call and that it consumes."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import saker
from differential import same

TS = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([5.0, 6.0])]


def total(x: torch.Tensor, it: Any) -> torch.Tensor:
    for t in it:
        x = x + t
    return x


def stacked(x: torch.Tensor, it: Any) -> torch.Tensor:
    return torch.stack(list(it)) * x


def summed(x: torch.Tensor, it: Any) -> torch.Tensor:
    return x * sum(it)


def unpacked(x: torch.Tensor, it: Any) -> Any:
    a, b, *rest = it
    return a * x, b, rest


def spread(x: torch.Tensor, it: Any) -> Any:
    return [*it, x]


def by_next(x: torch.Tensor, it: Any) -> Any:
    out = []
    while (t := next(it, None)) is not None:
        out.append(t * x)
    return out, next(it, "end")


def mapped(x: torch.Tensor, it: Any) -> Any:
    return [t + 1 for t in map(lambda t: t * x, it)]


def called(x: torch.Tensor, it: Any) -> Any:
    return torch.max(*list(it)[:2]) + x


def nested(x: torch.Tensor, it: Any) -> Any:
    return total(x, (t * 2 for t in it))


def counted(x: torch.Tensor, it: Any) -> Any:
    return [i * t for i, t in enumerate(it, 1)]


PROGRAMS: list[Callable] = [total, stacked, summed, unpacked, spread, by_next, mapped, called, nested, counted]


def doubled(ts: list[torch.Tensor], by: float = 2.0) -> Iterator[torch.Tensor]:
    for t in ts:
        yield t * by


def delegating(ts: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    yield ts[0]
    yield from doubled(ts[1:], by=3.0)


def closing_over(by: float) -> Iterator[torch.Tensor]:
    factor = torch.tensor(by)
    return (t * factor for t in TS)


def raised(t: torch.Tensor) -> torch.Tensor:
    return t + 1


class Source:
    scale = 4

    def each(self, ts: list[torch.Tensor]) -> Iterator[torch.Tensor]:
        for t in ts:
            yield t * self.scale


SOURCE = Source()
GENERATORS: dict[str, Callable[[], Any]] = {
    "expression": lambda: (t * 2 for t in TS),
    "function": lambda: doubled(TS),
    "keyword": lambda: doubled(TS, by=0.5),
    "delegating": lambda: delegating(TS),
    "closure": lambda: closing_over(3.0),
    "method": lambda: SOURCE.each(TS),
    "of a generator": lambda: (t + 1 for t in doubled(TS)),
    "of a tuple": lambda: (t + 1 for t in tuple(TS)),
    "of a dict": lambda: (t + 1 for t in dict(enumerate(TS)).values()),
    "of items": lambda: (t + k for k, t in dict(enumerate(TS)).items()),
    "of a range": lambda: (TS[i] * i for i in range(3)),
    "of zip": lambda: (t * u for t, u in zip(TS, TS[::-1], strict=False)),
    "of enumerate": lambda: (t * i for i, t in enumerate(TS)),
    "of map": lambda: (t * 2 for t in map(raised, TS)),
}
ITERATORS: dict[str, Callable[[], Any]] = {
    "list": lambda: iter(TS),
    "tuple": lambda: iter(tuple(TS)),
    "dict": lambda: iter(dict(enumerate(TS)).values()),
    "map": lambda: map(raised, TS),
}


def left(it: Any) -> Any:
    """What the caller sees of it afterwards."""
    state = inspect.getgeneratorstate(it) if inspect.isgenerator(it) else None
    return state, list(it)


@pytest.mark.parametrize("make", [*GENERATORS.values(), *ITERATORS.values()], ids=[*GENERATORS, *ITERATORS])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_mode(program: Callable, make: Callable[[], Any]) -> None:
    compiled = saker.compile(program, fullgraph=True)
    for step in range(4):
        x = torch.full((2,), float(step))
        mine, theirs = make(), make()
        before = saker.stats()["replays"]
        got = compiled(x, mine), left(mine)
        assert (saker.stats()["replays"] > before) == (step > 0)
        same(got, (program(x, theirs), left(theirs)))


def pairs(x: torch.Tensor, it: Any) -> Any:
    return [a * x for a, _ in it]


@pytest.mark.parametrize(
    "make",
    [lambda: zip(TS, range(3), strict=True), lambda: zip(TS, TS[:2], strict=False),
     lambda: zip(TS[1:], TS, strict=False), lambda: {t: t for t in TS}.items(),
     lambda: iter({t: i for i, t in enumerate(TS)}.items()), lambda: ((t, 1) for t in TS)],
    ids=["zip", "longer", "shorter", "view", "items", "tuples"],
)  # fmt: skip
def test_pairs(make: Callable[[], Any]) -> None:
    compiled = saker.compile(pairs)
    for step in range(4):
        x = torch.full((2,), float(step))
        mine, theirs = make(), make()
        same(([*compiled(x, mine)], len(list(mine))), ([*pairs(x, theirs)], len(list(theirs))))


def test_the_iterators_below_are_left_as_eager_mode_does() -> None:
    compiled = saker.compile(total)
    for _ in range(4):
        states = []
        for fn in (total, compiled):
            first, second = iter(TS), iter(TS[:2])
            result = fn(torch.ones(2), (a * b for a, b in zip(first, second, strict=False)))
            states.append((result, list(first), list(second)))
        same(states[1], states[0])


def test_what_a_generator_reads_is_guarded() -> None:
    compiled = saker.compile(total)
    x = torch.ones(2)

    def check(make: Callable[[], Any]) -> None:
        for _ in range(2):
            same(compiled(x, make()), total(x, make()))

    check(lambda: doubled(TS))
    check(lambda: doubled(TS[:2]))
    check(lambda: doubled([t + 1 for t in TS]))
    check(lambda: doubled(TS, by=5.0))
    check(lambda: (t - 1 for t in TS))
    check(lambda: (t * 2 for t in TS))
    check(lambda: closing_over(7.0))
    check(lambda: TS)


def test_attributes_that_a_generator_reads_are_guarded() -> None:
    compiled = saker.compile(total)
    source = Source()
    for scale in (1, 2, 2, 3, 1):
        source.scale = scale
        same(compiled(torch.ones(2), source.each(TS)), total(torch.ones(2), source.each(TS)))


def test_a_generator_that_has_begun() -> None:
    compiled = saker.compile(total)
    for begun in (False, False, True, True, False):
        results = []
        for fn in (total, compiled):
            it = doubled(TS)
            if begun:
                next(it)
            results.append((fn(torch.ones(2), it), list(it)))
        same(results[1], results[0])


def test_a_list_iterator_that_has_begun() -> None:
    compiled = saker.compile(total)
    for taken in (0, 1, 1, 2, 0, 3, 3):
        results = []
        for fn in (total, compiled):
            it = iter(TS)
            for _ in range(taken):
                next(it)
            results.append((fn(torch.ones(2), it), list(it)))
        same(results[1], results[0])


def test_an_iterator_that_is_left_in_the_middle() -> None:
    def first(x: torch.Tensor, it: Any) -> torch.Tensor:
        return x * next(it)

    for make, replays in ((lambda: doubled(TS), 0), (lambda: iter(TS), 3)):
        compiled = saker.compile(first)
        before = saker.stats()["replays"]
        for _ in range(4):
            mine, theirs = make(), make()
            got = compiled(torch.ones(2), mine)
            same((got, list(mine)), (first(torch.ones(2), theirs), list(theirs)))
        assert saker.stats()["replays"] - before == replays


def test_a_generator_that_is_not_touched() -> None:
    def ignores(x: torch.Tensor, it: Any) -> Any:
        return x * 2, it, type(it).__name__

    compiled = saker.compile(ignores)
    for _ in range(3):
        it = doubled(TS)
        _, given, name = compiled(torch.ones(2), it)
        assert given is it and name == "generator" and len(list(it)) == 3


def compare_both(make: Callable[[bool], tuple[Any, Any]]) -> None:
    """`make` gives two iterators; told to, two that share what they go over."""

    def both(x: torch.Tensor, a: Any, b: Any) -> Any:
        return [x * t for t in a], [x + t for t in b]

    compiled = saker.compile(both)
    for one in (False, False, True, True, False):
        results = []
        for fn in (both, compiled):
            results.append(fn(torch.ones(2), *make(one)))
        same(results[1], results[0])


def test_one_generator_given_twice_and_two_generators() -> None:
    def make(one: bool) -> tuple[Any, Any]:
        a = doubled(TS)
        return a, a if one else doubled(TS)

    compare_both(make)


def test_two_generators_over_one_iterator() -> None:
    def make(one: bool) -> tuple[Any, Any]:
        first = iter(TS)
        second = first if one else iter(TS)
        return (t for t in first), (t for t in second)

    compare_both(make)


def test_a_generator_with_effects() -> None:
    log: list[int] = []

    def speaks(ts: list[torch.Tensor]) -> Iterator[torch.Tensor]:
        for i, t in enumerate(ts):
            log.append(i)
            yield t
        log.append(-1)

    compiled = saker.compile(total)
    for _ in range(4):
        log.clear()
        expected = total(torch.ones(2), speaks(TS))
        wanted = list(log)
        log.clear()
        same(compiled(torch.ones(2), speaks(TS)), expected)
        assert log == wanted


def test_a_generator_that_raises() -> None:
    def fails(ts: list[torch.Tensor]) -> Iterator[torch.Tensor]:
        yield ts[0]
        raise ValueError("no more")

    def catches(x: torch.Tensor, it: Any) -> Any:
        try:
            for t in it:
                x = x + t
        except ValueError as error:
            return x, str(error)
        return x

    compiled = saker.compile(catches)
    for _ in range(3):
        mine, theirs = fails(TS), fails(TS)
        same((compiled(torch.ones(2), mine), left(mine)), (catches(torch.ones(2), theirs), left(theirs)))


def test_a_generator_in_a_global_and_in_a_list() -> None:
    def program(x: torch.Tensor, box: list[Any]) -> torch.Tensor:
        return total(x, box[0])

    compiled = saker.compile(program)
    before = saker.stats()["replays"]
    for _ in range(3):
        mine, theirs = doubled(TS), doubled(TS)
        same((compiled(torch.ones(2), [mine]), left(mine)), (program(torch.ones(2), [theirs]), left(theirs)))
    assert saker.stats()["replays"] == before + 2


def test_gradients_flow_through_a_generator() -> None:
    compiled = saker.compile(total)
    for _ in range(3):
        found = []
        for fn in (total, compiled):
            ts = [torch.ones(2, requires_grad=True) for _ in range(2)]
            x = torch.ones(2, requires_grad=True)
            fn(x, (t * t for t in ts)).sum().backward()
            found.append([x.grad, *(t.grad for t in ts)])
        same(found[1], found[0])


def test_the_state_of_a_generator_is_not_baked_in() -> None:
    def asks(x: torch.Tensor, it: Any) -> Any:
        return x * 2, it.gi_frame is None, it.gi_running

    compiled = saker.compile(asks)
    for begun in (0, 0, 5, 5, 0):
        it = doubled(TS)
        for _ in range(begun):
            next(it, None)
        same(compiled(torch.ones(2), it), asks(torch.ones(2), it))


def test_a_failure_in_the_middle_leaves_what_eager_mode_leaves() -> None:
    def picks(x: torch.Tensor, buffer: torch.Tensor, it: Any) -> torch.Tensor:
        for index in it:
            buffer.add_(1)
            x = x + buffer[index]
        return x

    compiled = saker.compile(picks)
    for last in (1, 1, 9, 1):
        results = []
        for fn in (picks, compiled):
            buffer = torch.zeros(3)
            it = (torch.tensor(i) for i in (0, last, 2))
            try:
                result: Any = fn(torch.ones(()), buffer, it)
            except IndexError:
                result = "raised"
            results.append((result, buffer, left(it)))
        same(results[1], results[0])


@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_that_change(dynamic: bool | None) -> None:
    compiled = saker.compile(total, dynamic=dynamic)
    for size in (2, 3, 4, 5, 3, 2):
        ts = [torch.ones(size) * i for i in range(3)]
        x = torch.ones(size)
        mine, theirs = (t * 2 for t in ts), (t * 2 for t in ts)
        same((compiled(x, mine), left(mine)), (total(x, theirs), left(theirs)))


def test_a_context_manager_that_was_made_before() -> None:
    events: list[str] = []

    @contextlib.contextmanager
    def scaled(by: int) -> Iterator[int]:
        events.append("in")
        yield by
        events.append("out")

    def program(x: torch.Tensor, manager: Any) -> torch.Tensor:
        with manager as by:
            return x * by

    compiled = saker.compile(program)
    for by in (2, 2, 3, 3, 2):
        found = []
        for fn in (program, compiled):
            events.clear()
            manager = scaled(by)
            found.append((fn(torch.ones(2), manager), list(events)))
            with pytest.raises((RuntimeError, AttributeError)):
                fn(torch.ones(2), manager)
        same(found[1], found[0])


def test_writes_from_a_generator() -> None:
    class Box:
        count = 0

    box = Box()

    def counts(ts: list[torch.Tensor]) -> Iterator[torch.Tensor]:
        last = 0
        for t in ts:
            box.count += 1
            last += box.count % 2
            yield t * last

    compiled = saker.compile(total)
    for start in (0, 0, 0, 1, 1, 0):
        found = []
        for fn in (total, compiled):
            box.count = start
            found.append((fn(torch.ones(2), counts(TS)), box.count))
        same(found[1], found[0])


def test_variables_that_a_generator_shares_with_its_maker() -> None:
    def make(step: int) -> tuple[Any, Callable[[], int]]:
        seen = 0

        def each() -> Iterator[torch.Tensor]:
            nonlocal seen
            for t in TS:
                seen += step
                yield t * step

        return each(), lambda: seen

    compiled = saker.compile(total)
    for step in (1, 1, 2, 2, 1):
        found = []
        for fn in (total, compiled):
            it, seen = make(step)
            found.append((fn(torch.ones(2), it), seen()))
        same(found[1], found[0])


def test_numbers_that_change_in_a_generator() -> None:
    compiled = saker.compile(total)
    for number in (1.0, 2.0, 3.0, 4.0, 4.0, 5.0, 2, 3, 4, 5):
        same(compiled(torch.ones(2), doubled(TS, by=number)), total(torch.ones(2), doubled(TS, by=number)))
