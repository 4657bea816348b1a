"""Writes through .data are not counted in the version of the tensor, in replays and graphs as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import saker
from differential import error_of


class State:
    def __init__(self) -> None:
        self.buf = torch.ones(3)
        self.p = nn.Parameter(torch.ones(3))


def buffer_first(s, x):
    s.buf.data.add_(1)
    return x * s.buf


def buffer_last(s, x):
    y = x * s.buf
    s.buf.data.add_(1)
    return y


def buffer_between(s, x):
    y = x * s.buf
    s.buf.data.mul_(2)
    s.buf.add_(1)
    s.buf.data.mul_(2)
    return y + s.buf


def parameter(s, x):
    s.p.data.add_(1)
    return x * s.p


def argument(s, x):
    x.data.mul_(2)
    return x * x


def intermediate(s, x):
    y = x * 2
    z = y * y
    y.data.add_(1)
    return z, y


def view_of_data(s, x):
    s.p.data[1:].add_(1)
    return (x * s.p).exp()


def returned(s, x):
    d = s.buf.data
    d.add_(1)
    return d, x * s.buf


def counted_too(s, x):
    with torch.no_grad():
        s.p.add_(1)
    s.p.data.mul_(2)
    return x * s.p


PROGRAMS = [
    *(buffer_first, buffer_last, buffer_between, parameter, argument, intermediate, view_of_data),
    *(returned, counted_too),
]


def seen(call: Callable, state: State, requires_grad: bool, no_grad: bool = False) -> list[Any]:
    x = torch.arange(3.0).requires_grad_(requires_grad)
    with torch.set_grad_enabled(not no_grad):
        results = call(x)
    found: list[Any] = [results] if isinstance(results, torch.Tensor) else list(results)
    extra: list[Any] = [t._version for t in found] + [t.requires_grad for t in found]
    ready = [t for t in found if t.requires_grad]
    state.p.grad = None
    try:
        if ready:
            sum(t.sum() for t in ready).backward()
    except RuntimeError as error:
        extra.append(str(error).split("\n")[0])
    tensors = [*found, x.grad, state.p.grad, state.buf, state.p]
    versions = [state.buf._version, state.p._version, x._version]
    return [t.tolist() if isinstance(t, torch.Tensor) else t for t in tensors] + extra + versions


@pytest.mark.parametrize("no_grad", [False, True])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", ["aten", "eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_replays(program: Callable, backend: str, requires_grad: bool, no_grad: bool) -> None:
    mine, theirs = State(), State()
    compiled = saker.compile(lambda x: program(mine, x), backend=backend)
    before = saker.stats()["replays"]
    for _ in range(4):
        expected = seen(lambda x: program(theirs, x), theirs, requires_grad, no_grad)
        assert seen(compiled, mine, requires_grad, no_grad) == expected
    assert saker.stats()["replays"] - before == 3


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_captured_graphs(program: Callable, requires_grad: bool) -> None:
    mine, theirs = State(), State()
    graph = saker.capture(lambda x: program(mine, x), torch.arange(3.0).requires_grad_(requires_grad))
    assert mine.buf.tolist() == mine.p.tolist() == [1, 1, 1]
    for _ in range(3):
        expected = seen(lambda x: program(theirs, x), theirs, requires_grad)
        assert seen(graph, mine, requires_grad) == expected
        with torch.no_grad():
            x = torch.arange(3.0)
            functional = graph.functional()(x)
            program(theirs, torch.arange(3.0))
            assert isinstance(functional, (torch.Tensor, tuple))
            assert mine.buf.equal(theirs.buf)
            assert mine.p.equal(theirs.p)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_ahead_of_time_functions(program: Callable, requires_grad: bool) -> None:
    mine, theirs = State(), State()
    compiled = saker.aot_function(lambda x: program(mine, x))
    for _ in range(3):
        expected = seen(lambda x: program(theirs, x), theirs, requires_grad)
        assert seen(compiled, mine, requires_grad) == expected


def test_a_back_end_counts_what_goes_through_data_of_an_intermediate() -> None:
    def run(x):
        y = x * 2
        y.data.add_(1)
        return y

    x = torch.ones(3)
    compiled = saker.compile(run, backend=lambda graph, examples: graph.forward, fullgraph=True)
    assert ".data" in str(error_of(lambda: compiled(x)))


def test_two_parameters_over_one_memory() -> None:
    """Each has its own gradient."""
    memory = torch.ones(3)
    a, b = nn.Parameter(memory), nn.Parameter(memory)
    graph = saker.capture(lambda x: (a * x * 2 + b * x * 3).sum(), torch.ones(3))
    graph(torch.ones(3)).backward()
    assert a.grad.tolist() == [2, 2, 2]
    assert b.grad.tolist() == [3, 3, 3]
    inside = saker.capture(lambda x: (a * x * 2 + b * x * 3).sum().backward(), torch.ones(3))
    a.grad, b.grad = a.grad.clone(), b.grad.clone()
    assert "no .grad" not in str(inside(torch.ones(3)))
    assert a.grad.tolist() == [4, 4, 4]
    assert b.grad.tolist() == [6, 6, 6]
