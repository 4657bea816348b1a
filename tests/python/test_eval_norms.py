"""Normalization in evaluation only reads its running statistics: it is compiled, and nothing of it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import saker

NORMS: dict[str, Callable[[], tuple[nn.Module, tuple[int, ...]]]] = {
    "1d": lambda: (nn.BatchNorm1d(4), (5, 4)),
    "2d": lambda: (nn.BatchNorm2d(4), (2, 4, 3, 3)),
    "plain": lambda: (nn.BatchNorm2d(4, affine=False), (2, 4, 3, 3)),
    "instance": lambda: (nn.InstanceNorm2d(4, affine=True, track_running_stats=True), (2, 4, 3, 3)),
    "behind a convolution": lambda: (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), (2, 3, 8, 8)),
}


def made(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(0)
    module, sizes = NORMS[name]()
    module(torch.randn(sizes))  # statistics that are not zero and one
    return module.eval(), sizes


def outcome(module: nn.Module, call: Callable, sizes: tuple[int, ...], grad: bool) -> list[Any]:
    found = []
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(sizes, requires_grad=grad)
        module.zero_grad()
        with torch.set_grad_enabled(grad):
            y = call(x)
        if grad:
            (y * torch.randn_like(y)).sum().backward()
        gradients = [p.grad for p in module.parameters()] + [x.grad]
        buffers = [(b.clone(), b._version) for b in module.buffers()]
        found.append((y.detach(), y._version, gradients, buffers))
    return found


def compare(name: str, way: Callable, grad: bool) -> None:
    (module, sizes), (other, _) = made(name), made(name)
    expected = outcome(module, module, sizes, grad)
    before = saker.stats()["fallbacks"]
    got = outcome(other, way(other), sizes, grad)
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert saker.stats()["fallbacks"] == before


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", NORMS)
def test_ahead_of_time(name: str, grad: bool) -> None:
    before = saker.stats()
    compare(name, saker.aot_module, grad)
    assert saker.stats()["graphs"] > before["graphs"]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", NORMS)
def test_replays(name: str, grad: bool) -> None:
    before = saker.stats()
    compare(name, saker.compile, grad)
    assert saker.stats()["replays"] - before["replays"] == 2


def test_an_operator_that_may_fail_behind_it_is_taken_back() -> None:
    norm, table = nn.BatchNorm1d(4).eval(), nn.Embedding(5, 4)

    def program(i: torch.Tensor) -> torch.Tensor:
        y = norm(table(i))
        try:
            return y + table(i * 2)
        except IndexError:
            return y

    compiled = saker.compile(program)
    before = saker.stats()["replays"]
    with torch.no_grad():
        for values in ([1, 2], [2, 0], [1, 3], [0, 1]):
            assert torch.equal(compiled(torch.tensor(values)), program(torch.tensor(values)))
    assert saker.stats()["replays"] - before >= 2
