"""Arguments that share memory are told apart, whatever the program does to one of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import saker

Tensor = torch.Tensor


def gradients_inside(x: Tensor, y: Tensor) -> Tensor:
    """Of a leaf on the memory of both: autograd's nodes keep it, and give it back as another tensor."""
    u = x.detach().requires_grad_()
    (g,) = torch.autograd.grad((u * u).sum(), u)
    return y * 2 + g


def gradients_inside_of_both(x: Tensor, y: Tensor) -> Tensor:
    u = x.detach().requires_grad_()
    (g,) = torch.autograd.grad((u * u).sin().sum(), u)
    return (y + x + y) * 2 + g * y


def transformed(x: Tensor, y: Tensor) -> Tensor:
    return torch.func.grad(lambda t: (t * t).sum())(x) + y * 3


def detached(x: Tensor, y: Tensor) -> Tensor:
    return x.detach() + y * 3


def parts(leaf: Tensor) -> tuple[Tensor, Tensor]:
    return leaf.view_as(leaf), leaf.view_as(leaf)


WAYS: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "a leaf and its view": lambda leaf: (leaf, leaf.view_as(leaf)),
    "a view and its leaf": lambda leaf: (leaf.view_as(leaf), leaf),
    "two views": parts,
    "with a history": lambda leaf: parts(leaf * 1),
    "one of them detached": lambda leaf: (leaf.detach(), leaf),
    "the other one detached": lambda leaf: (leaf, leaf.detach()),
    "one tensor": lambda leaf: (leaf, leaf),
    "apart": lambda leaf: (leaf, leaf * 2),
}


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"backend": "eager"}], ids=["", "dynamic", "eager"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", [gradients_inside, gradients_inside_of_both, transformed, detached])
def test_gradients_are_those_of_eager_mode(program: Callable, way: str, options: dict) -> None:
    def outcome(call: Callable, rows: int) -> list:
        torch.manual_seed(rows)
        leaf = torch.rand(rows, 4).requires_grad_()
        x, y = WAYS[way](leaf)
        result = call(x, y)
        if not result.requires_grad:
            return [result, False]
        inputs = [each for each in (leaf, x, y) if each.requires_grad]
        return [result.detach(), *torch.autograd.grad(result.sum(), inputs, allow_unused=True)]

    compiled = saker.compile(program, **options)
    for rows in (3, 3, 3, 5, 6):
        for mine, theirs in zip(outcome(compiled, rows), outcome(program, rows), strict=True):
            assert torch.equal(mine, theirs) if isinstance(mine, Tensor) else mine is theirs


LEAVES_THAT_ARE_VIEWS: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
    "no view": lambda: pair(torch.rand(3, 4).requires_grad_()),
    "a part": lambda: pair(torch.rand(4, 4)[1:].requires_grad_()),
    "transposed": lambda: pair(torch.rand(4, 3).t().requires_grad_()),
    "only the second one": lambda: second(torch.rand(3, 4)),
    "with a history": lambda: pair(torch.rand(4, 4).requires_grad_()[1:] * 1),
}


def pair(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, x.view_as(x)


def second(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, x.view_as(x).requires_grad_()


@pytest.mark.parametrize("first", LEAVES_THAT_ARE_VIEWS)
@pytest.mark.parametrize("way", [saker.compile, saker.aot_function])
def test_leaves_that_are_views_themselves(way: Callable, first: str) -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        return y.sin() + x.detach()

    compiled = way(program)
    for name in [first, *LEAVES_THAT_ARE_VIEWS, first]:  # one function meets them all
        x, y = LEAVES_THAT_ARE_VIEWS[name]()
        result = compiled(x, y)
        assert result.requires_grad
        of = x if x.requires_grad else y
        (mine,) = torch.autograd.grad(result.sum(), of)
        (theirs,) = torch.autograd.grad(program(x, y).sum(), of)
        assert torch.equal(mine, theirs)
