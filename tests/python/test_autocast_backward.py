"""A backward runs under the autocast of the thread that asks for gradients, whatever the forward ran under."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch

import saker


def solved(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.linalg.solve(x @ w + 3 * torch.eye(4), x.float()).sum() + (x @ w).float().pow(2).sum()


def factored(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.linalg.cholesky_ex(x @ x.mT.float() + 9 * torch.eye(4)).L.sum() * w.sum()


def inside(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.nn.functional.linear(x, w)
    return (y.float() @ w).sum()


def layers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(torch.nn.functional.linear(x, w).relu(), w).softmax(-1).pow(2).sum()


def many(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch._foreach_mul([x @ w, w], 2.0)[0].float().sum() + torch.cat([x, w.bfloat16().float()]).sum()


def gradients(call: Callable, forward: bool, backward: bool, twice: bool) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    x, w = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=forward):
        y = call(x, w)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=backward):
        found = torch.autograd.grad(y, (x, w), create_graph=twice)
        if twice:
            found += torch.autograd.grad(sum((g**2).sum() for g in found), (x, w))
    return found


@pytest.mark.parametrize("program", [solved, factored, inside, layers, many])
@pytest.mark.parametrize(
    "way",
    [saker.compile, saker.aot_function, lambda f: saker.compile(f, backend="eager")],
    ids=["compile", "aot", "eager"],
)
def test_autocast_around_forward_and_backward(way: Callable, program: Callable) -> None:
    for forward, backward, twice in product((False, True), repeat=3):
        expected = gradients(program, forward, backward, twice)
        compiled = way(program)
        before = saker.stats()
        for _ in range(3):
            torch.testing.assert_close(gradients(compiled, forward, backward, twice), expected, rtol=0, atol=0)
        after = saker.stats()
        assert after["replays"] - before["replays"] == (0 if way is saker.aot_function else 2)
        assert after["fallbacks"] == before["fallbacks"]
