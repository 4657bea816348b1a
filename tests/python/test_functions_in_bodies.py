"""torch.autograd.Function inside of branches and loops: its backward is the user's, and no derivative of a body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker
from control_flow import operators, reference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

Tensor = torch.Tensor


class Tripled(torch.autograd.Function):
    """Not the derivative, so that it is seen which one was used."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.round() * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 3


apply = Tripled.apply


def branch(o: Any, x: Tensor, w: Tensor) -> Tensor:
    return o.cond(x.sum() > 0, lambda v: Tripled.apply(v * w), lambda v: v.cos(), (x,))


def closed_over(o: Any, x: Tensor, w: Tensor) -> Tensor:
    return o.cond(x.sum() > 0, lambda v: v + Tripled.apply(w), lambda v: v.cos() * w, (x.detach(),))


def by_another_name(o: Any, x: Tensor, w: Tensor) -> Tensor:
    return o.cond(x.sum() > 0, lambda v: apply(v * w), lambda v: v.cos(), (x,))


def loop(o: Any, x: Tensor, w: Tensor) -> Tensor:
    return o.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, Tripled.apply(v * w)), (torch.tensor(0), x * 1))[1]


def carried(o: Any, x: Tensor, w: Tensor) -> Tensor:
    """What is carried requires a gradient from the second step on."""
    body = lambda i, v: (i + 1, Tripled.apply(v) * 0.5 + w)  # noqa: E731
    return o.while_loop(lambda i, v: i < 3, body, (torch.tensor(0), x.detach() * 1))[1]


def scanned(o: Any, x: Tensor, w: Tensor) -> Tensor:
    last, rows = o.scan(lambda c, r: (Tripled.apply(c) * 0.5 + w[0], Tripled.apply(c * r)), x[0].detach() * 1, x)
    return last + rows


def mapped(o: Any, x: Tensor, w: Tensor) -> Tensor:
    return o.map(lambda row: Tripled.apply(row * w[0]), x)


def nested(o: Any, x: Tensor, w: Tensor) -> Tensor:
    step = lambda c, r: (o.cond(r.sum() > 0, lambda v: Tripled.apply(v * w[0]), lambda v: v * 0.5, (c,)), c * r)  # noqa: E731
    return o.scan(step, x[0] * 1, x)[1]


def under_vmap(o: Any, x: Tensor, w: Tensor) -> Tensor:
    batch = lambda v: o.vmap(lambda row: Tripled.apply(row * w[0]), v)  # noqa: E731
    return o.cond(x.sum() > 0, batch, lambda v: v.cos(), (x,))


def unwatched(o: Any, x: Tensor, w: Tensor) -> Tensor:
    """What ``saker.compile`` does not know ends the watching of the call before the Function is met."""

    def unknown(v: Tensor) -> Tensor:
        return Tripled.apply(v * w) if torch._C._dispatch_tls_local_include_set() is not None else v

    return o.cond(x.sum() > 0, unknown, lambda v: v.cos(), (x,))


def unwatched_steps(o: Any, x: Tensor, w: Tensor) -> Tensor:
    def step(c: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        torch._C._dispatch_tls_local_include_set()
        made = o.cond(c.sum() > 0, lambda v: Tripled.apply(v * w[0]), lambda v: v * 0.5, (c,))
        return made, made * r

    return o.scan(step, x[0] * 1, x)[1]


def hooked(o: Any, x: Tensor, w: Tensor) -> Tensor:
    """A hook is as much the user's as a backward."""

    def left(v: Tensor) -> Tensor:
        made = v * w
        made.register_hook(lambda gradient: gradient * 3)
        return made.sin()

    return o.cond(x.sum() > 0, left, lambda v: v.cos(), (x,))


FUNCTIONS = [branch, closed_over, by_another_name, loop, carried, scanned, mapped, nested, under_vmap]
PROGRAMS = [*FUNCTIONS, unwatched, unwatched_steps, hooked]


def entered(entry: str, function: Callable) -> Callable:
    if entry != "deferred":
        return getattr(saker, entry)(function)

    def deferred(*args: Tensor) -> Tensor:
        with saker.deferred():
            return function(*args) * 1

    return deferred


@pytest.mark.parametrize("entry", ["compile", "aot_function", "deferred"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_are_those_of_the_function(program: Callable, entry: str) -> None:
    run = entered(entry, lambda x, w: program(operators, x, w))
    for turn in range(4):
        found = []
        for call in (run, lambda x, w: program(reference, x, w)):
            x = (torch.linspace(0.2, 1.3, 9).view(3, 3) + turn - 2).requires_grad_()
            w = torch.linspace(0.5, 1.5, 9).view(3, 3).requires_grad_()
            result = call(x, w)
            gradients = torch.autograd.grad(result.sin().sum(), (x, w), allow_unused=True)
            # The branch that is not taken leads nowhere in Python, and to zeros in a node.
            found.append([result.detach(), *[torch.zeros(3, 3) if g is None else g for g in gradients]])
        torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("program", FUNCTIONS)
def test_without_gradients_it_is_a_node(program: Callable) -> None:
    compiled = saker.compile(lambda x, w: program(operators, x, w))
    saker.reset(counts=True)
    for turn in range(4):
        x, w = torch.linspace(0.2, 1.3, 9).view(3, 3) + turn - 2, torch.linspace(0.5, 1.5, 9).view(3, 3)
        torch.testing.assert_close(compiled(x, w), program(reference, x, w))
    assert saker.stats()["replays"] == 3
