"""saker.allow: functions that compiled ones may call again instead of recording what they do; hostile ones too."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import saker
from differential import same


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    saker.set_logs("")
    yield
    saker.set_logs()


def replays() -> int:
    return saker.stats()["replays"]


def reasons(compiled: Any) -> set[str]:
    return {report["reason"] for report in saker._C.compiled_reports(compiled) if report["reason"]}


def compare(fn: Any, calls: list[tuple], replayed: int | None) -> Any:
    compiled = saker.compile(fn)
    before = replays()
    for args in calls:
        same(compiled(*args), fn(*args))
    if replayed is not None:
        assert replays() - before == replayed, saker._C.compiled_reports(compiled)
    return compiled


def test_it_takes_functions() -> None:
    assert saker.allow(zlib.crc32) is zlib.crc32
    with pytest.raises(TypeError, match=r"saker\.allow takes a function, not a int"):
        saker.allow(3)


def opens(number: int) -> float:
    with open(__file__) as file:  # what no recording does again
        return float(len(file.readline()) * 0 + number + 1)


def test_without_tensors() -> None:
    def fn(x: torch.Tensor, number: int, text: str) -> Any:
        scale = opens(number)
        return x * scale + zlib.crc32(text.encode()) % 7, scale

    x = torch.randn(3)
    assert compare(fn, [(x, 5, "a")] * 3, 0) is not None
    saker.allow(opens)
    saker.allow(zlib.crc32)
    calls = [(x, 5, "a"), (x, 5, "a"), (torch.randn(3), 5, "a"), (x, 5, "b"), (x, 5, "b"), (x, 5, "a")]
    compare(fn, calls, 4)


def table(x: torch.Tensor, by: float = 2.0, *, and_text: str = "") -> tuple[torch.Tensor, torch.Tensor]:
    with open(__file__) as file:
        file.readline()
    return x * by, x.detach().max() + len(and_text)


@pytest.mark.parametrize("grad", [False, True])
def test_with_tensors(grad: bool) -> None:
    def fn(x: torch.Tensor) -> Any:
        doubled, most = table(x.sin(), 3.0, and_text="abc")
        return doubled * 2 + most

    saker.allow(table)
    compiled = saker.compile(fn)
    before = replays()
    for _ in range(4):
        x = torch.randn(3, requires_grad=grad)
        y = x.detach().clone().requires_grad_(grad)
        got, want = compiled(x), fn(y)
        same(got, want)
        if grad:
            for each in (got, want):
                each.square().sum().backward()
            same(x.grad, y.grad)
    assert replays() - before == 3


def test_it_is_called_in_each_replay() -> None:
    called: list[int] = []

    def counts(x: torch.Tensor) -> torch.Tensor:
        called.append(1)  # a broken promise, to see it
        return x + 1

    saker.allow(counts)
    compiled = saker.compile(lambda x: counts(x) * 2)
    for _ in range(4):
        same(compiled(torch.ones(2)), torch.full((2,), 4.0))
    assert len(called) == 4


def test_methods_and_keywords() -> None:
    class Vocabulary:
        def __init__(self) -> None:
            self.words = {"a": 3}

        def find(self, word: str, *, otherwise: int = 0) -> int:
            time.time()
            return self.words.get(word, otherwise)

    vocabulary = Vocabulary()
    saker.allow(Vocabulary.find)

    def fn(x: torch.Tensor, word: str) -> torch.Tensor:
        return x * vocabulary.find(word, otherwise=7)

    x = torch.randn(2)
    compare(fn, [(x, "a"), (x, "a"), (x, "b"), (x, "b"), (x, "a")], 3)
    compiled = saker.compile(fn)
    for value in (1, 2, 2, 3, 1):  # what the object holds may change: it is asked again
        vocabulary.words["a"] = value
        same(compiled(x, "a"), x * value)


def test_as_a_decorator_and_with_spread_arguments() -> None:
    @saker.allow
    def add(*numbers: float) -> float:
        time.time()
        return sum(numbers)

    def fn(x: torch.Tensor, *numbers: float) -> torch.Tensor:
        return x * add(*numbers)

    x = torch.ones(2)
    compiled = saker.compile(fn)
    before = replays()
    for _ in range(3):
        same(compiled(x, 1.0, 2.0), x * 3)
    assert replays() - before == 2


# --- hostile ones: whatever was promised, results are eager mode's or the call runs eagerly ---


def test_one_that_gives_something_else_each_time() -> None:
    saker.allow(time.perf_counter_ns)

    def fn(x: torch.Tensor) -> Any:
        return x + 1, time.perf_counter_ns()

    compiled = saker.compile(fn, recompile_limit=3)
    times = []
    for _ in range(6):
        got, at = compiled(torch.ones(2))
        same(got, torch.full((2,), 2.0))
        times.append(at)
    assert times == sorted(set(times))  # none was told twice


def test_one_that_writes() -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    saker.allow(writes)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return writes(x) + 1

    compiled = saker.compile(fn)
    for _ in range(3):
        x, y = torch.ones(2), torch.ones(2)
        same(compiled(x), fn(y))
        same(x, y)
    assert reasons(compiled) == {"allowed-writes"}
    with pytest.raises(saker.CaptureError, match="has written to an argument"):
        saker.compile(fn, fullgraph=True)(torch.ones(2))


@pytest.mark.parametrize("gives", [lambda x: x, lambda x: x[1:], lambda x: [x.view(-1)]], ids=["it", "view", "list"])
def test_one_that_gives_its_argument(gives: Any) -> None:
    def gives_argument(x: torch.Tensor) -> Any:
        return gives(x)

    saker.allow(gives_argument)

    def fn(x: torch.Tensor) -> torch.Tensor:
        given = gives_argument(x)
        given = given[0] if isinstance(given, list) else given
        given.add_(1)
        return x * 2

    compiled = saker.compile(fn)
    for _ in range(3):
        x, y = torch.ones(3), torch.ones(3)
        same(compiled(x), fn(y))
        same(x, y)
    assert reasons(compiled) == {"allowed-gives-argument"}


def test_one_that_gives_an_object() -> None:
    @saker.allow
    def makes(number: int) -> dict:
        return {"a": number}

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * makes(3)["a"]

    compiled = compare(fn, [(torch.ones(2),)] * 3, 0)
    assert reasons(compiled) == {"allowed-gives"}


def test_one_that_raises() -> None:
    state = {"raises": False}

    @saker.allow
    def may_raise(x: torch.Tensor) -> torch.Tensor:
        if state["raises"]:
            raise KeyError("mine")
        return x * 2

    @saker.allow
    def may_raise_number(number: int) -> int:
        if state["raises"]:
            raise KeyError("mine")
        return number

    def fn(x: torch.Tensor) -> torch.Tensor:
        try:
            return may_raise(x) + may_raise_number(3)
        except KeyError:
            return x - 1

    compiled = saker.compile(fn)
    for raises in (False, False, True, False, True, True):
        state["raises"] = raises
        same(compiled(torch.ones(2)), fn(torch.ones(2)))
    plain = saker.compile(lambda x: may_raise(x) + 1)
    for raises in (False, False, True, True):
        state["raises"] = raises
        if raises:
            with pytest.raises(KeyError, match="mine"):
                plain(torch.ones(2))
        else:
            same(plain(torch.ones(2)), torch.full((2,), 3.0))


def test_one_whose_result_changes_its_size() -> None:
    size = [2]

    @saker.allow
    def sized(x: torch.Tensor) -> torch.Tensor:
        return x.repeat(size[0])

    compiled = saker.compile(lambda x: sized(x) + 1)
    for each in (2, 2, 3, 2, 3):
        size[0] = each
        same(compiled(torch.ones(2)), torch.full((2 * each,), 2.0))


def test_one_that_changes_what_the_call_reads() -> None:
    state = {"count": 1}

    @saker.allow
    def counts(number: int) -> int:
        state["count"] += 1
        return number

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * counts(2) + state["count"]

    compiled = saker.compile(fn)
    for count in (2, 3, 4, 5):
        same(compiled(torch.zeros(2)), torch.full((2,), float(count)))


def test_one_that_forgets_what_was_recorded() -> None:
    @saker.allow
    def forgets(number: int) -> int:
        saker.reset()
        return number

    compiled = saker.compile(lambda x: x * forgets(3))
    for _ in range(4):
        same(compiled(torch.ones(2)), torch.full((2,), 3.0))


def test_one_that_calls_the_compiled_function() -> None:
    @saker.allow
    def again(number: int) -> int:
        if depth:
            depth.pop()
            compiled(torch.ones(number))
        return number

    depth = [1, 1, 1, 1]
    compiled = saker.compile(lambda x: x * again(3))
    for size in (2, 2, 3, 4, 2):
        same(compiled(torch.ones(size)), torch.full((size,), 3.0))


def test_after_a_change_it_sees_the_change() -> None:
    class Box:
        value = 1

    @saker.allow
    def reads(box: Any) -> int:
        return box.value

    box = Box()

    def fn(x: torch.Tensor) -> torch.Tensor:
        box.value += 1
        return x * reads(box)

    compiled = saker.compile(fn)
    for step in range(4):
        same(compiled(torch.ones(2)), torch.full((2,), 2.0 + step))
    assert "allowed-after-effects" in reasons(compiled)
