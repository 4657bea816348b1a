"""Branches and loops that run in another way than was begun, and still as those of plain Python do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import saker
from control_flow import operators, reference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

Tensor = torch.Tensor
X = torch.linspace(0.1, 1.3, 9, dtype=torch.float64).view(3, 3)


def filled(v: Tensor) -> Tensor:
    made = torch.zeros_like(v)
    made.copy_(v.sin())
    return made


def moved(v: Tensor) -> Tensor:
    made = v.clone()
    made[1:] = v[:2].sin()
    return made * v


def scaled(v: Tensor) -> Tensor:
    made = v.clone()
    made.t()[0] = v[2] * 2
    return made


@pytest.mark.parametrize("body", [filled, moved, scaled])
def test_captured_bodies_that_write_have_gradients(body: Callable) -> None:
    """Autograd follows the graph, in which writes have become values."""
    x = X.clone().requires_grad_()
    graph = saker.capture(lambda v: torch.cond(v.sum() > 0, body, lambda v: v * 2, (v,)), x)
    for sign in (1, -1):
        y = (X * sign).requires_grad_()
        [found] = torch.autograd.grad(graph(y).sin().sum(), y)
        z = y.detach().requires_grad_()
        [expected] = torch.autograd.grad((body(z) if sign > 0 else z * 2).sin().sum(), z)
        torch.testing.assert_close(found, expected)


def stepped(o: Any, x: Tensor) -> Tensor:
    """A loop on data, which a gradient of torch.func has to see step by step, in the body of another one."""

    def step(c: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        def halved(v: Tensor) -> Tensor:
            return o.while_loop(lambda v: v.abs().sum() > 0.5, lambda v: (v * 0.5,), (v * r,))[0].sin().sum()

        return o.grad(halved, c) + r, c * r

    return o.scan(step, x[0] * 1, x)[1]


def chosen(o: Any, x: Tensor) -> Tensor:
    def row(r: Tensor) -> Tensor:
        return o.grad(lambda v: o.cond(v.sum() > 1.5, lambda v: v.sin(), lambda v: v * v, (v,)).sum(), r)

    return o.map(row, x)


@pytest.mark.parametrize("program", [stepped, chosen])
def test_choices_by_data_inside_of_gradients(program: Callable) -> None:
    run = saker.compile(lambda x: program(operators, x))
    for scale in (1.0, -2.0, 0.5):
        found = []
        for call in (run, lambda x: program(reference, x)):
            x = (X * scale).requires_grad_()
            y = call(x)
            found.append([y.detach(), *torch.autograd.grad(y.sum(), x)])
        torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_of_deferred_branches(reentrant: bool) -> None:
    """The backward, outside of the block, records the branch as the forward did."""

    def program(x: Tensor, w: Tensor) -> Tensor:
        def branch(v: Tensor) -> Tensor:
            return torch.cond(v.sum() > 0, lambda u: u * w.sin(), lambda u: u.exp() * w, (v,))

        return checkpoint(branch, x, use_reentrant=reentrant)

    for sign in (1, -1):
        x, w = (X * sign).requires_grad_(), (X + 1).requires_grad_()
        with saker.deferred():
            y = program(x, w)
        found = torch.autograd.grad(y.sum(), (x, w)) if not reentrant else _into_grad(y, x, w)
        plain = x * w.sin() if sign > 0 else x.exp() * w
        torch.testing.assert_close(found, torch.autograd.grad(plain.sum(), (x, w)))


def _into_grad(y: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
    y.sum().backward()
    return tuple(leaf.grad for leaf in leaves)


_AGAIN = """
import sys
import torch, saker
from torch._higher_order_ops.scan import scan


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos() * 2


def program(x):
    return scan(lambda c, r: (c * 0.5 + r, c * r), x[0] * 1, Doubled.apply(x))[1]


run = saker.aot_function(program)
for _ in range(5):
    x = torch.rand(3, 3, requires_grad=True)
    [first] = torch.autograd.grad(run(x).sum(), x, create_graph=True)
    first.square().sum().backward()
assert "torch._dynamo" not in sys.modules
"""


def test_pytorchs_compiler_is_not_started_for_second_gradients() -> None:
    """Of a program with a Function, which is called again for them."""
    done = subprocess.run([sys.executable, "-c", _AGAIN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
