"""Generated code of reductions to few numbers, and of what has no elements."""

from __future__ import annotations

import pytest
import torch

import saker
from generated_code import fused, needs_code  # noqa: F401 (a fixture of each test)
from test_native import launches
from test_native_operators import NEAR, check, check_gradients

Tensor = torch.Tensor
aten = torch.ops.aten
pytestmark = needs_code


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last], ids=str)
def test_a_batch_norm_in_evaluation_with_gradients(form: torch.memory_format) -> None:
    """Statistics without elements are saved for a backward that does not read them."""
    norm = torch.nn.BatchNorm2d(6).eval()
    norm.running_mean.uniform_()
    norm.running_var.uniform_(0.5, 1)
    x = torch.randn(4, 6, 5, 7).to(memory_format=form)
    check_gradients(lambda x: norm(x).relu() * 2, x, near=NEAR[torch.float32])
    compiled = saker.compile(lambda x: norm(x).relu() * 2, dynamic=False)
    leaf = x.clone().requires_grad_()
    for _ in range(3):
        compiled(leaf).backward(torch.ones_like(leaf))
    result = compiled(leaf)
    _, count = launches(lambda: result.backward(torch.ones_like(result)))
    assert count > 0, "the backward runs kernels too"


def test_results_and_operands_without_elements() -> None:
    nothing, flat = torch.empty(0, 3), torch.empty(0)
    x = torch.randn(4, 3)
    check(lambda x: torch.cat([nothing, x, nothing]).relu() * 2, x)
    check(lambda x: torch.cat([flat, x]).relu() * 2, x)
    norm = (torch.rand(3), torch.rand(3) + 0.5)
    check(lambda x: tuple(aten.native_batch_norm(x * 2, None, None, *norm, False, 0.1, 1e-5)), x, near=NEAR[x.dtype])


# Shapes, dimensions that are summed up: few long rows, few columns, few channels, and lengths with a rest.
FEW = [
    ((3, 100_003), (1,)),
    ((100_003, 3), (0,)),
    ((131_072, 4), (0,)),
    ((65_536, 1), (0,)),
    ((1_000, 70), (0,)),
    ((40, 5, 37, 41), (0, 2, 3)),
    ((2, 300, 301), (1, 2)),
    ((70_000, 2, 3), (0,)),
    ((300_000,), (0,)),
    ((2, 3, 20_000), (0, 2)),
]


@pytest.mark.parametrize(("shape", "dims"), FEW, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=str)
def test_few_results_of_many_elements(shape: tuple[int, ...], dims: tuple[int, ...], dtype: torch.dtype) -> None:
    """They are made in two steps, in chunks that do not depend on the number of threads."""
    x = (torch.randn(shape) * 8).to(dtype)

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return (x * 2 + 1).sum(dims), (x - 1).amax(dims), (x * x).sum(dims) - 1, (x + 1).ne(0).all(dims[0])

    near = NEAR.get(dtype, {"rtol": 0, "atol": 0})
    check(function, x, near={"rtol": near["rtol"] * 4, "atol": near["rtol"] * x.numel() ** 0.5 * 10})
    compiled, before = saker.compile(function, dynamic=False), torch.get_num_threads()
    compiled(x)
    found = []
    try:
        for threads in (1, 2, 7):
            torch.set_num_threads(threads)
            found.append(compiled(x))
    finally:
        torch.set_num_threads(before)
    for others in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))
