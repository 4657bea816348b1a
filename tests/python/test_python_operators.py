"""Operators that are written in Python (torch.library.custom_op), which from torch 2.14 on have a way of their own to
the dispatcher."""

from __future__ import annotations

import pytest
import torch

import saker


@torch.library.custom_op("saker_python_operators::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


twice.register_fake(torch.empty_like)
twice.register_autograd(lambda ctx, gradient: gradient * 2, setup_context=lambda ctx, inputs, output: None)

overload = torch.ops.saker_python_operators.twice.default
CALLS = {
    "overload": lambda x: overload(x.sin()) + 1,
    "packet": lambda x: torch.ops.saker_python_operators.twice(x.sin()) + 1,
    "definition": lambda x: twice(x.sin()) + 1,
}


@pytest.mark.parametrize("name", CALLS)
def test_compiled(name: str) -> None:
    compiled = saker.compile(CALLS[name])
    before = saker.stats()["replays"]
    for seed in range(3):
        x = torch.randn(3, generator=torch.Generator().manual_seed(seed), requires_grad=True)
        result, wanted = compiled(x), CALLS[name](x)
        assert torch.equal(result, wanted)
        assert torch.equal(*(torch.autograd.grad(each.sum(), x)[0] for each in (result, wanted)))
    assert saker.stats()["replays"] == before + 2


@pytest.mark.parametrize("name", CALLS)
def test_recorded(name: str) -> None:
    x = torch.arange(3.0)
    assert "saker_python_operators::twice" in str(saker.capture(CALLS[name], x))
    with saker.deferred() as block:
        y = CALLS[name](x)
        assert block.pending > 0
    assert torch.equal(y, CALLS[name](x))
    z = x.clone().requires_grad_()
    saker.aot_function(CALLS[name])(z).sum().backward()
    assert torch.equal(z.grad, 2 * x.cos())
