"""Forward-mode tangents pass compiled functions and captured graphs as they pass the functions themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.autograd import forward_ad as fwAD

import saker
from differential import error_of

CLOSED = torch.full((3,), 2.0)


class Fourfold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 4

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 4


def written(x):
    y = x.exp()
    y.mul_(x)
    return y[1:]


PROGRAMS: list[Callable] = [
    lambda x: x * x,
    lambda x: (x.sin() * CLOSED).sum(),
    written,
    lambda x: x.view(3, 1) @ x.view(1, 3),
    lambda x: Fourfold.apply(x) + 1,
]

COMPILERS: dict[str, Callable[[Callable], Callable]] = {
    "compile": saker.compile,
    "compile, eager": lambda fn: saker.compile(fn, backend="eager"),
    "aot_function": saker.aot_function,
    "capture": lambda fn: saker.capture(fn, torch.ones(3)),
    "capture with grad": lambda fn: saker.capture(fn, torch.ones(3, requires_grad=True)),
    "functional": lambda fn: saker.capture(fn, torch.ones(3)).functional(),
}


@pytest.mark.parametrize("no_grad", [False, True])
@pytest.mark.parametrize("name", COMPILERS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_tangents(program: Callable, name: str, no_grad: bool) -> None:
    call = COMPILERS[name](program)
    call(torch.ones(3))
    x, t = torch.arange(3.0) + 1, torch.arange(3.0) - 1
    for _ in range(2):
        with fwAD.dual_level(), torch.set_grad_enabled(not no_grad):
            expected = fwAD.unpack_dual(program(fwAD.make_dual(x, t)))
            got = fwAD.unpack_dual(call(fwAD.make_dual(x, t)))
            assert got.primal.equal(expected.primal)
            assert got.tangent is not None
            assert got.tangent.equal(expected.tangent)
        assert call(x).equal(program(x))


@pytest.mark.parametrize("name", ["compile", "aot_function"])
def test_tangents_of_what_is_closed_over(name: str) -> None:
    kept = [torch.ones(3)]

    def run(x):
        return x * kept[0]

    call = COMPILERS[name](run)
    x = torch.arange(3.0)
    call(x)
    with fwAD.dual_level():
        primal, kept[0] = kept[0], fwAD.make_dual(kept[0], torch.full((3,), 5.0))
        assert isinstance(error_of(lambda: saker.capture(run, x)), saker.CaptureError)
        got = fwAD.unpack_dual(call(x)).tangent
        assert got is not None
        assert got.equal(x * 5)
        kept[0] = primal


def test_reverse_over_forward() -> None:
    x = torch.arange(3.0).requires_grad_()
    z = torch.arange(3.0).requires_grad_()
    graph = saker.capture(lambda x: x**3, x)
    found = []
    for call, leaf in ((graph, x), (lambda t: t**3, z)):
        with fwAD.dual_level():
            tangent = fwAD.unpack_dual(call(fwAD.make_dual(leaf, torch.ones(3)))).tangent
            found.append(torch.autograd.grad(tangent.sum(), leaf)[0])
    assert found[0].equal(found[1])


def test_a_function_whose_formula_is_the_users() -> None:
    """Captured where nothing requires grad, its graph has only what the Function called."""
    graph = saker.capture(lambda x: Fourfold.apply(x), torch.ones(3))
    with fwAD.dual_level():
        dual = fwAD.make_dual(torch.ones(3), torch.ones(3))
        found = fwAD.unpack_dual(graph(dual)).tangent
        assert found is not None
        assert found.tolist() == [4, 4, 4]
    assert error_of(lambda: graph(torch.ones(4)))
