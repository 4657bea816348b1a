"""Replays in which an operator fails on data, or gives another size than was recorded, after a write, a draw or a
print: what is left behind, raised, caught and printed is what eager mode leaves, raises, catches and prints."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import saker
from saker import _C

torch.set_num_threads(1)
GOOD, BAD = torch.tensor([0, 1, 2]), torch.tensor([0, 1, 9])


class State:
    """What programs change outside."""

    def __init__(self) -> None:
        self.counter = torch.zeros(3)
        self.calls = 0
        self.last: Any = None
        self.norm = nn.BatchNorm1d(3)


def outcome(program: Callable, calls: list[tuple], capsys: pytest.CaptureFixture, compiled: bool) -> list[Any]:
    """All that can be seen of some calls, one after the other."""
    state = State()
    torch.manual_seed(5)
    random.seed(5)
    function = saker.compile(program) if compiled else program
    seen: list[Any] = []
    capsys.readouterr()
    for args in calls:
        try:
            result = function(state, *args)
            seen.append(("returned", result))
        except Exception as error:
            seen.append(("raised", type(error), str(error).splitlines()[0]))
        seen.append(
            (
                *(state.counter.clone(), state.counter._version, state.calls, state.last, torch.get_rng_state()),
                *(random.getstate(), capsys.readouterr().out, [b.clone() for b in state.norm.buffers()]),
            )
        )
    return seen


def equal(one: Any, other: Any) -> bool:
    if isinstance(other, torch.Tensor):
        return isinstance(one, torch.Tensor) and one.shape == other.shape and torch.equal(one, other)
    if isinstance(other, (tuple, list)):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))
    return one == other


def check(program: Callable, calls: list[tuple], capsys: pytest.CaptureFixture, replays: int) -> None:
    expected = outcome(program, calls, capsys, compiled=False)
    before = saker.stats()["replays"]
    got = outcome(program, calls, capsys, compiled=True)
    for number, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        assert equal(mine, theirs), f"step {number}: {mine} is not {theirs}"
    assert saker.stats()["replays"] - before == replays


X = torch.randn(3, 4)
FAILING = [(X, GOOD), (X, GOOD), (X, BAD), (X, GOOD)]


def plain(state, x, i):
    return F.embedding(i, x)


def caught(state, x, i):
    try:
        return F.embedding(i, x)
    except IndexError:
        return x * 2


def caught_after_random(state, x, i):
    y = F.dropout(x)
    try:
        return F.embedding(i, y)
    except IndexError:
        return y + torch.rand(1)


def random_before(state, x, i):
    return F.embedding(i, F.dropout(x))


def printed(state, x, i):
    state.calls = 1
    print("before")
    y = F.embedding(i, x)
    print("behind")
    return y


def write_before(state, x, i):
    state.counter.add_(1)
    return F.embedding(i, x)


def write_behind(state, x, i):
    y = F.embedding(i, x)
    state.counter.add_(1)
    return y


def write_and_print_before(state, x, i):
    state.counter.add_(1)
    state.calls = 1
    print("before")
    y = F.embedding(i, x)
    print("behind")
    state.calls = 2
    return y


def write_in_no_grad_before(state, x, i):
    with torch.no_grad():
        state.counter.add_(1)
        return F.embedding(i, x)


def other_errors_are_caught(state, x, i):
    state.counter.add_(1)
    try:
        return F.embedding(i, x)
    except NotImplementedError:
        return x


def drawn_by_python(state, x, i):
    return F.embedding(i, x * random.random())


def write_before_an_index(state, x, i):
    state.counter.add_(1)
    return x[i] + x[:, i].sum()


@pytest.mark.parametrize(
    "program",
    [
        plain,
        caught,
        caught_after_random,
        random_before,
        printed,
        write_before,
        write_behind,
        write_and_print_before,
        write_in_no_grad_before,
        other_errors_are_caught,
        drawn_by_python,
        write_before_an_index,
    ],
)
def test_replayed(program: Callable, capsys: pytest.CaptureFixture) -> None:
    """The second call is a replay, the third one fails in one, the fourth is one again. One that fails after a write
    counts as a replay: it is one to its end."""
    raises_in_place = program in (
        write_before,
        write_and_print_before,
        write_in_no_grad_before,
        other_errors_are_caught,
        write_before_an_index,
    )
    check(program, FAILING, capsys, replays=3 if raises_in_place else 2)


def write_then_caught(state, x, i):
    state.counter.add_(1)
    try:
        return F.embedding(i, x)
    except IndexError:
        return x * 2


def write_then_finally(state, x, i):
    state.counter.add_(1)
    try:
        return F.embedding(i, x)
    finally:
        state.calls += 1


def caught_by_the_caller(state, x, i):
    def inner():
        state.counter.add_(1)
        return F.embedding(i, x)

    try:
        return inner()
    except Exception as error:
        print(type(error).__name__)
        return x


@contextlib.contextmanager
def forgiving(state):
    try:
        yield
    except IndexError:
        state.calls += 10


def write_then_forgiven(state, x, i):
    y = x
    with forgiving(state):
        state.counter.add_(1)
        y = F.embedding(i, x)
    return y


def write_then_suppressed(state, x, i):
    with contextlib.suppress(IndexError):
        state.counter.add_(1)
        return F.embedding(i, x)
    return x


def write_then_kept(state, x, i):
    state.last = x + 1
    state.counter.add_(1)
    return F.embedding(i, x)


@pytest.mark.parametrize(
    "program",
    [
        write_then_caught,
        write_then_finally,
        caught_by_the_caller,
        write_then_forgiven,
        write_then_suppressed,
        write_then_kept,
    ],
)
def test_not_replayed(program: Callable, capsys: pytest.CaptureFixture) -> None:
    """The program goes on after the failure, and the write could not be taken back: it runs eagerly."""
    check(program, FAILING, capsys, replays=0)


def trained(state, x, i):
    y = F.dropout(state.norm(x))
    print("norm")
    try:
        return F.nll_loss(y, i)
    except IndexError:
        return y.sum() + torch.rand(1)


def test_ahead_of_time_writes_are_taken_back(capsys: pytest.CaptureFixture) -> None:
    """With gradients the graph is functional: buffers are written behind it, so the call may begin again."""
    x = torch.randn(3, 3)
    check(trained, [(x, GOOD), (x, GOOD), (x, BAD), (x, GOOD)], capsys, replays=2)


@pytest.mark.parametrize("when", ["first", "later"])
def test_symbolic_sizes(when: str, capsys: pytest.CaptureFixture) -> None:
    """Also where the first call of a recording with symbolic sizes fails."""
    sizes = [(torch.randn(n, 4), GOOD) for n in (3, 5, 6)]
    bad = (torch.randn(7, 4), BAD)
    calls = [*sizes[:1], bad, *sizes[1:], bad] if when == "first" else [*sizes, bad, *sizes]
    expected = outcome(caught_after_random, calls, capsys, compiled=False)
    assert equal(outcome(caught_after_random, calls, capsys, compiled=True), expected)


def selected(state, x):
    return x[x > 0].sum(0) * 2


def counted(state, x):
    y = x[x > 0]
    return y.sum() / y.shape[0]


def selected_after_random(state, x):
    y = F.dropout(x)
    return y[x > 0]


def selected_before_write(state, x):
    y = x[x > 0]
    state.counter.add_(1)
    return y


MASKS = [torch.tensor([1.0, -1, 2]), torch.tensor([3.0, -1, 2]), torch.tensor([3.0, 4, 2]), torch.tensor([3.0, 4, -2])]


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("program", [selected, counted, selected_after_random, selected_before_write])
def test_sizes_that_change(program: Callable, gradients: bool, capsys: pytest.CaptureFixture) -> None:
    """The second call is a replay; the third one has another size, and from then on eager mode runs at once."""
    calls = [(x.clone().requires_grad_(gradients),) for x in MASKS]
    check(program, calls, capsys, replays=1)


def selected_after_write(state, x):
    state.counter.add_(1)
    return x[x > 0]


def selected_after_norm(state, x):
    y = state.norm(x.expand(3, 3))
    return y[x > 0]


@pytest.mark.parametrize("program", [selected_after_write, selected_after_norm])
def test_sizes_that_change_after_a_write(program: Callable, capsys: pytest.CaptureFixture) -> None:
    check(program, [(x,) for x in MASKS], capsys, replays=0)


def test_gradients_where_sizes_change() -> None:
    def program(x, w):
        y = x[x > 0]
        return (y * w).sum() / y.shape[0]

    compiled = saker.compile(program)
    for x in MASKS:
        w = torch.tensor(2.0, requires_grad=True)
        got, expected = (torch.autograd.grad(f(x, w), w)[0] for f in (compiled, program))
        assert torch.equal(got, expected)


def test_a_failure_tells_why() -> None:
    compiled = saker.compile(lambda x: x[x > 0])
    for x in MASKS:
        compiled(x)
    assert "a result whose size depends on data" in _C.compiled_reports(compiled)[-1]["why"]
