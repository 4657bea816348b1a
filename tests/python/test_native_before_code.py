"""Kernels are compiled in the background: until they are there, a group runs operator by operator."""

from __future__ import annotations

import pytest
import torch

import saker
from generated_code import needs_code

pytestmark = needs_code


def keep_the_compiler_busy() -> None:
    """With kernels that nobody has compiled before."""
    x = torch.randn(8, 8)
    for _ in range(40):
        scale = float(torch.rand(()))
        waiting = saker.compile(lambda x, scale=scale: ((x * scale).exp() + x.sin()).softmax(-1), backend="native")
        for _ in range(2):
            waiting(x)


@pytest.mark.parametrize("factor", [0.712, 0.713, 0.714])  # each has kernels of its own, which no test has compiled
def test_sizes_that_only_a_number_tells(factor: float) -> None:
    def f(row, a, b):
        return torch.addmm(row[0] * factor, a[0], b[0])

    keep_the_compiler_busy()
    compiled = saker.compile(f, backend="native", dynamic=True)
    for rows in (4, 4, 5, 6):
        leaves = [torch.randn(size, requires_grad=True) for size in ((1, 1, 40), (rows, 16 * rows, 30), (rows, 30, 40))]
        found = torch.autograd.grad(compiled(*leaves).sum(), leaves)
        expected = torch.autograd.grad(f(*leaves).sum(), leaves)
        for mine, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, theirs)
