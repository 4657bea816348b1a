"""Gradients lie in memory as eager mode's do, and have its bits, where sizes change and arguments lie in any way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

import saker

Tensor = torch.Tensor

PROGRAMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "product": lambda x, w: x * w,
    "function": lambda x, w: x.sin() + w,
    "copy": lambda x, w: x.clone() + w.exp(),
    "sum": lambda x, w: (x * 2 + w).sum(0),
    "mean": lambda x, w: (x - x.mean(0)) * w,
    "norm": lambda x, w: functional.layer_norm(x, x.shape[-1:]) * w,
    "softmax": lambda x, w: x.softmax(0) * w,
    "rectifier": lambda x, w: x.relu() + w,
    "rows": lambda x, w: x.reshape(-1) * 2 + w.reshape(-1),
    "parts": lambda x, w: x[1:] * w[1:],
    "together": lambda x, w: torch.cat([x, w]),
    "choice": lambda x, w: torch.where(x > 0, x, w),
    "matrices": lambda x, w: x @ w.t(),
    "running sums": lambda x, w: x.cumsum(0) + w,
}


def given(layout: str, rows: int, columns: int) -> Tensor:
    if layout == "transposed":
        return torch.randn(columns, rows, dtype=torch.float64).t().requires_grad_()
    if layout == "transposed, of a leaf":
        return torch.randn(columns, rows, dtype=torch.float64).requires_grad_().t()
    if layout == "every second":
        return torch.randn(rows, 2 * columns, dtype=torch.float64)[:, ::2].requires_grad_()
    return torch.randn(rows, columns, dtype=torch.float64).requires_grad_()


def outcome(call: Callable, layouts: tuple[str, str], sizes: tuple[int, int]) -> list[Tensor]:
    torch.manual_seed(sum(sizes))
    inputs = [given(layout, *sizes) for layout in layouts]
    result = call(*inputs)
    factors = torch.linspace(0.1, 1, result.numel(), dtype=result.dtype).reshape(result.shape)
    return [result.detach(), *torch.autograd.grad((result * factors).sum(), inputs)]


LAYOUTS = [
    ("transposed", "rows"),
    ("transposed", "transposed"),
    ("transposed, of a leaf", "rows"),
    ("every second", "transposed"),
]


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("layouts", LAYOUTS, ids=" and ".join)
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_lie_as_in_eager_mode(name: str, layouts: tuple[str, str], dynamic: bool | None) -> None:
    compiled = saker.compile(PROGRAMS[name], dynamic=dynamic)
    before = saker.stats()["replays"]
    for sizes in ((4, 3), (4, 3), (5, 3), (6, 7), (8, 5), (6, 7)):
        found = outcome(compiled, layouts, sizes)
        for mine, theirs in zip(found, outcome(PROGRAMS[name], layouts, sizes), strict=True):
            assert torch.equal(mine, theirs)
            assert mine.stride() == theirs.stride()
    assert saker.stats()["replays"] - before >= 2
