"""Backwards that run the recorded forward again: second derivatives, equal to the last bit, and batched gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import saker

Tensor = torch.Tensor
WAYS = {"compile": saker.compile, "aot": saker.aot_function}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def products(x: Tensor, w: Tensor) -> Tensor:
    return ((x * w).tanh() * x).sum()


def powers(x: Tensor, w: Tensor) -> Tensor:
    return (x.exp() * w + x * w * w).sum()


def matrices(x: Tensor, w: Tensor) -> Tensor:
    return ((x @ w).sigmoid() @ x).square().sum()


def views(x: Tensor, w: Tensor) -> Tensor:
    return (x.t()[1:] * w[:2].sin()).cumsum(0).mul(x[0]).sum()


PROGRAMS = [products, powers, matrices, views]


def of_gradients(y: Tensor, leaves: list[Tensor], gradients: tuple[Tensor, ...]) -> Tensor:
    return sum((g * g).sum() for g in gradients)


def beside_arguments(y: Tensor, leaves: list[Tensor], gradients: tuple[Tensor, ...]) -> Tensor:
    return (leaves[0] * leaves[1]).sum() + of_gradients(y, leaves, gradients) + leaves[0].cos().sum()


def beside_results(y: Tensor, leaves: list[Tensor], gradients: tuple[Tensor, ...]) -> Tensor:
    return y * 0.3 + of_gradients(y, leaves, gradients)


def twice(fn: Callable, loss: Callable) -> list[Tensor]:
    torch.manual_seed(1)
    leaves = [torch.randn(3, 3, requires_grad=True) for _ in range(2)]
    y = fn(*leaves)
    gradients = torch.autograd.grad(y, leaves, create_graph=True)
    loss(y, leaves, gradients).backward()
    return [*(g.detach() for g in gradients), *(leaf.grad for leaf in leaves)]


@ways
@pytest.mark.parametrize("fn", PROGRAMS, ids=[fn.__name__ for fn in PROGRAMS])
@pytest.mark.parametrize("loss", [of_gradients, beside_arguments], ids=["gradients", "beside arguments"])
def test_summands_are_eager_modes(way, fn, loss):
    compiled, wanted = way(fn), twice(fn, loss)
    for _ in range(3):
        for one, other in zip(twice(compiled, loss), wanted, strict=True):
            assert torch.equal(one, other), (one - other).abs().max()


@ways
@pytest.mark.parametrize("fn", PROGRAMS, ids=[fn.__name__ for fn in PROGRAMS])
def test_results_beside_their_gradients(way, fn):
    """A difference that remains: the result has a node of its own, so that its share is computed apart and added."""
    compiled, wanted = way(fn), twice(fn, beside_results)
    for _ in range(3):
        torch.testing.assert_close(twice(compiled, beside_results), wanted, rtol=1e-5, atol=1e-5)


def dropped(x: Tensor) -> Tensor:
    return F.dropout(x, 0.5) * x.sin()


def noisy(x: Tensor) -> Tensor:
    return (x + torch.rand_like(x)).exp() * torch.randn(4)


@ways
@pytest.mark.parametrize("fn", [dropped, noisy], ids=["dropout", "noise"])
def test_batched_gradients_through_random_operators(way, fn):
    """They were drawn before vmap began."""

    def batched(run: Callable) -> Any:
        torch.manual_seed(0)
        x = torch.arange(4.0).requires_grad_()
        y = run(x)
        (jacobian,) = torch.autograd.grad(y, x, torch.eye(4), is_grads_batched=True)
        return y.detach(), jacobian, torch.rand(1)

    compiled = way(fn)
    for _ in range(3):
        torch.testing.assert_close(batched(compiled), batched(fn), rtol=0, atol=0)


@pytest.mark.parametrize("wrap", [saker.compile, saker.aot_function])
def test_an_argument_that_is_written_later_and_that_no_gradient_reads(wrap):
    """Only what the gradients depend on must be as it was."""

    def f(a, b):
        return a.exp(), b * 2, b

    def outcome(call):
        leaves = [torch.full((3,), 0.5, requires_grad=True) for _ in range(2)]
        a, b = leaves[0] * 1, leaves[1] * 1
        first, second, _ = call(a, b)
        b.mul_(3)
        grads = torch.autograd.grad((first * second).sum(), leaves, create_graph=True)
        again = torch.autograd.grad(sum(each.sum() for each in grads), leaves, allow_unused=True)
        return [None if each is None else each.detach() for each in [*grads, *again]]

    compiled = wrap(f)
    for _ in range(3):
        for mine, theirs in zip(outcome(compiled), outcome(f), strict=True):
            assert (mine is None) == (theirs is None)
            assert mine is None or torch.allclose(mine, theirs)
