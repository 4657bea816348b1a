"""Arguments that the call itself makes leaves, and gradients that it takes for them: forces, gradient penalties."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import saker

MODEL = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def forces(x: Tensor) -> Tensor:
    x.requires_grad_()
    return torch.autograd.grad(MODEL(x).sum(), x)[0]


def penalty(x: Tensor) -> Tensor:
    x = x.requires_grad_()
    (gradient,) = torch.autograd.grad(MODEL(x).sum(), x, create_graph=True)
    return (gradient.norm(dim=1) - 1).pow(2).mean()


def by_attribute(x: Tensor) -> Tensor:
    x.requires_grad = True
    return torch.autograd.grad(MODEL(x).pow(2).sum(), x, create_graph=True)[0].sum()


def copied(x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(MODEL(x).pow(2).sum(), x, create_graph=True)[0].sum()


@pytest.mark.parametrize("known_to_autograd", [False, True])
@pytest.mark.parametrize("backend", ["aten", "eager"])
@pytest.mark.parametrize("function", [forces, penalty, by_attribute, copied])
def test_gradients_with_respect_to_arguments(function: Callable, backend: str, known_to_autograd: bool) -> None:
    def call(called: Callable, seed: int) -> list:
        x = torch.randn(2 + seed % 2, 3, generator=torch.Generator().manual_seed(seed))
        if known_to_autograd:  # it has been asked something, and has a place for hooks
            x.requires_grad_().requires_grad_(False)
        MODEL.zero_grad()
        result = called(x)
        if result.requires_grad:
            result.backward()
        return [result.detach(), x.requires_grad, *(p.grad for p in MODEL.parameters())]

    compiled = saker.compile(function, backend=backend)
    before = saker.stats()["replays"]
    for seed in range(6):
        torch.testing.assert_close(call(compiled, seed), call(function, seed), rtol=0, atol=0)
    assert saker.stats()["replays"] > before


def test_a_hook_on_an_argument_is_noticed() -> None:
    def function(x: Tensor) -> Tensor:
        x.requires_grad_()
        return torch.autograd.grad((x * x).sum(), x)[0]

    compiled = saker.compile(function)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))
    x = torch.ones(3, requires_grad=True)
    x.register_hook(lambda gradient: gradient * 10)
    assert torch.equal(compiled(x), function(x))
