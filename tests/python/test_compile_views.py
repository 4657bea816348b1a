"""Replays give views and version counters as eager mode does: what a result is a view of, and what later writes do."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import saker
from differential import refusal, same, visible
from saker import _C

Tensor = torch.Tensor
Results = tuple[Tensor, ...]

VIEWS: dict[str, Callable[[Tensor], Results]] = {
    "select": lambda t: (t[0],),
    "slice": lambda t: (t[1:],),
    "transpose": lambda t: (t.t(),),
    "view": lambda t: (t.view(-1),),
    "chain": lambda t: (t[1:].t().unsqueeze(0),),
    "expand": lambda t: (t.unsqueeze(0).expand(2, -1, -1),),
    "detach": lambda t: (t.detach(),),
    "view of detach": lambda t: (t.detach()[0],),
    "detach of view": lambda t: (t[0].detach(),),
    "split": lambda t: t.split(1),
    "unbind": lambda t: t.unbind(1),
    "chunk, one of it": lambda t: (t.chunk(2)[1],),
    "alias and view": lambda t: (t.view_as(t), t[0]),
    "view as real": lambda t: (torch.view_as_real(torch.view_as_complex(t[:, :2])),),
}

MODES: dict[str, Callable[[], Any]] = {
    "as it is": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "inference_mode": torch.inference_mode,
}


def _write(tensor: Tensor) -> None:
    """Where autograd lets it be written; it does not say so beforehand."""
    with torch.no_grad():
        tensor.add_(1)


WRITES: dict[str, Callable[[Tensor, Results], Any]] = {
    "nothing": lambda base, views: None,
    "base": lambda base, views: base.add_(1),
    "view": lambda base, views: views[0].mul_(2),
    "base, unseen": lambda base, views: _write(base),
    "view, twice": lambda base, views: (_write(views[-1]), _write(views[0])),
}

BUFFER = torch.zeros(0)


def _scaled(x: Tensor) -> Tensor:
    return x * 2


BASES: dict[str, Callable[[Tensor], Tensor]] = {
    "input": lambda x: x,
    "intermediate": _scaled,
    "detached": lambda x: (x * 2).detach(),
    "view of input": lambda x: x.view(3, 2),
    "buffer": lambda x: BUFFER,
    "made": lambda x: torch.zeros(3, 2),
}


def program(base: str, view: str, inside: str, write: str) -> Callable[[Tensor], Any]:
    of_base, of_view, mode, written = BASES[base], VIEWS[view], MODES[inside], WRITES[write]

    def run(x: Tensor) -> Any:
        tensor = of_base(x)
        with mode():
            views = of_view(tensor)
            written(tensor, views)
        return tensor, *views

    return run


def look(tensor: Tensor) -> Any:
    return tensor.clone(), visible(tensor)


def relations(tensors: list[Tensor]) -> list[Any]:
    """For each tensor: is it a view, and of which one."""
    found: list[Any] = []
    for tensor in tensors:
        if refusal(tensor) or tensor.is_inference():
            found.append(None)
            continue
        base = tensor._base
        among = [i for i, other in enumerate(tensors) if other is base]
        found.append((tensor._is_view(), base is not None and base.requires_grad, among))
    return found


def outcome(step: Callable[[], Any]) -> Any:
    try:
        return step()
    except RuntimeError as error:
        return str(error).split("\n")[0]


def seen(call: Callable[[Tensor], Any], around: str, requires_grad: bool) -> tuple[Any, list[Any]]:
    """What a call gives, and what later writes and a backward do then."""
    global BUFFER
    with torch.inference_mode(False):
        BUFFER = torch.arange(6.0).view(3, 2)
        x = torch.arange(6.0).view(3, 2).requires_grad_(requires_grad)
        given = x * 1 if requires_grad else x
    with MODES[around]():
        got = outcome(lambda: call(given))
    if isinstance(got, str):
        return got, []
    tensors = [*got, given, BUFFER]
    later: list[Any] = [relations(tensors)]
    # The class of a node is the compiled function's own.
    first = [{k: v for k, v in visible(t).items() if k != "grad_fn"} for t in tensors]
    for tensor in tensors:
        later.append(outcome(lambda tensor=tensor: (tensor.mul_(3), None)[1]))
        later.append([str(refusal(t)) if refusal(t) else (t.requires_grad, t.tolist()) for t in tensors])
        later.append([t._version for t in tensors if not t.is_inference()])
    with torch.enable_grad():
        ready = [t for t in got if not refusal(t) and t.requires_grad and not t.is_inference()]
        later.append(outcome(lambda: sum(t.sum() for t in ready).backward() if ready else None))
    later.append(x.grad)
    return first, later


def check(run: Callable[[Tensor], Any], around: str, requires_grad: bool, compiled: Any, calls: int = 3) -> int:
    """Compares three calls; gives how many were replayed."""
    before = saker.stats()["replays"]
    for _ in range(calls):
        expected = seen(run, around, requires_grad)
        got = seen(compiled, around, requires_grad)
        assert got[0] == expected[0]
        same(got[1], expected[1])
    return saker.stats()["replays"] - before


COMBINATIONS = list(itertools.product(VIEWS, BASES))


def all_modes() -> Iterator[tuple[str, str, str]]:
    yield from itertools.product(("as it is", "no_grad", "inference_mode"), MODES, WRITES)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(("view", "base"), COMBINATIONS)
def test_views_of_replays_are_those_of_eager_mode(view: str, base: str, requires_grad: bool) -> None:
    if view == "view as real" and base == "buffer" and requires_grad:
        pytest.skip("the same as without")
    replays = raised = 0
    for around, inside, write in all_modes():
        run = program(base, view, inside, write)
        saker.reset()
        compiled = saker.compile(run, dynamic=False)
        raised += isinstance(seen(run, around, requires_grad)[0], str)
        try:
            replays += check(run, around, requires_grad, compiled)
        except AssertionError as error:
            raise AssertionError(f"{around=} {inside=} {write=}: {error}") from error
    # A call that raises is not recorded; of the others all but the first are replayed.
    assert replays >= 2 * (len(list(all_modes())) - raised) * 0.9


def test_the_base_is_the_other_result() -> None:
    compiled = saker.compile(lambda x: (lambda y: (y, y[0]))(x * 2))
    for _ in range(3):
        y, v = compiled(torch.randn(3, 2))
        assert v._base is y
        v.add_(1)
        assert y._version == v._version == 1
    assert saker.stats()["replays"]


def test_sizes_that_change() -> None:
    def run(x):
        y = x * 2
        y[0].add_(1)
        with torch.no_grad():
            v = y[1:]
        return y, y[0], y.detach(), *y.split(1, 1), v, x.t(), x.view(-1)

    compiled = saker.compile(run)
    before = saker.stats()
    for size in (4, 6, 8, 10, 12):
        for requires_grad in (False, True):
            x, z = (torch.ones(size, 2, requires_grad=requires_grad) for _ in range(2))
            got, expected = compiled(x), run(z)
            assert relations([*got, x]) == relations([*expected, z])
            skip = {"grad_fn", "keys"}
            for one, other in zip(got, expected, strict=True):
                mine, theirs = visible(one), visible(other)
                assert {k: mine[k] for k in theirs if k not in skip} == {k: theirs[k] for k in theirs if k not in skip}
            for i in (2, 1, 0, -3):
                assert outcome(lambda i=i: (got[i].mul_(2), 0)[1]) == outcome(lambda i=i: (expected[i].mul_(2), 0)[1])
    after = saker.stats()
    assert after["replays"] - before["replays"] >= 6
    assert after["graphs"] - before["graphs"] <= 4


def test_a_late_write_through_a_view_is_an_error_in_the_backward_as_in_eager_mode() -> None:
    w = torch.ones(2, requires_grad=True)

    def run(x):
        y = x * 2
        return y, y[0]

    compiled = saker.compile(run)
    for call in (run, compiled, compiled, compiled):
        y, v = call(torch.randn(3, 2))
        loss = (y * w).sum()
        v.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    assert saker.stats()["replays"]


def test_a_captured_graph_gives_views_too() -> None:
    def run(x):
        y = x * 2
        y[0].add_(1)
        return y, y[0], x.t(), y.detach()

    graph = saker.capture(run, torch.ones(3, 2))
    for _ in range(2):
        x, z = torch.ones(3, 2), torch.ones(3, 2)
        got, expected = graph(x), run(z)
        assert relations([*got, x]) == relations([*expected, z])
        same((got, x), (expected, z))


@pytest.mark.parametrize(
    ("shown", "run"),
    [
        (0, lambda x: x.t()[0].exp() + x.view(-1)[:3]),
        (0, lambda x: (x.add_(1), x.sum())[1]),
        (0, lambda x: (x * 2).view(-1).add_(1).sum()),
        (1, lambda x: (x.t().exp(), x[0])),
        (2, lambda x: ((y := x * 2).t().add_(1).sum(), y)),
    ],
)
def test_only_what_the_caller_sees_runs_above_autograd(shown: int, run: Callable[[Tensor], Any]) -> None:
    graph = saker.capture(run, torch.randn(3, 3))
    assert _C.describe_program(graph._program)["shown"] == shown
