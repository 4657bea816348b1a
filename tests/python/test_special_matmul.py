"""Products that OpInfo has few samples of: of 8-bit floats with scales, in groups, of packed weights."""

import itertools

import pytest
import torch

from judge import assert_like_eager
from torch_versions import SCALES_ROWS

aten = torch.ops.aten
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def ones(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(sizes).to(dtype)


@pytest.mark.parametrize("sizes", [(16, 16, 16), (3, 5, 7), (16, 32, 48), (0, 16, 16), (16, 0, 16)], ids=str)
@pytest.mark.parametrize("dtypes", itertools.product((*FLOAT8, torch.bfloat16), repeat=2), ids=str)
def test_scaled(sizes: tuple[int, int, int], dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    m, k, n = sizes
    a, b = ones(m, k, dtype=dtypes[0]), ones(n, k, dtype=dtypes[1]).t()
    one = torch.ones(())
    scales = [(one, one), (ones(1), ones(1))]
    if SCALES_ROWS:
        scales.append((ones(m, 1), ones(1, n)))
    for out in (None, torch.bfloat16, torch.float32, torch.float8_e4m3fn):
        for scale_a, scale_b in scales:
            assert_like_eager(aten._scaled_mm.default, a, b, scale_a, scale_b, None, None, out)
        assert_like_eager(aten._scaled_mm.default, a, b.contiguous(), one, one, None, None, out)
        assert_like_eager(aten._scaled_mm.default, a, b, one, one, ones(n), None, out)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("sizes", [(16, 16), (16, 24), (8, 5), (5, 8)], ids=str)
def test_grouped(dtype: torch.dtype, sizes: tuple[int, int]) -> None:
    k, n = sizes
    ends = torch.tensor([2, 4, 8], dtype=torch.int32)
    rows, batch, weights = ones(8, k, dtype=dtype), ones(3, 8, k, dtype=dtype), ones(3, k, n, dtype=dtype)
    square, wide = ones(8, 8, dtype=dtype), ones(8, n, dtype=dtype)
    operands = [
        (rows, weights, ends),
        (rows, ones(3, n, k, dtype=dtype).mT, ends),
        (rows, weights, None),
        (rows, weights, ends.long()),
        (rows, weights, ends[:2]),
        (batch, weights, None),
        (batch, weights, ends),
        (batch, ones(k, 8, dtype=dtype), ends),
        (square, wide, ends),
        (square.t(), wide, ends),
    ]
    for out in (None, torch.bfloat16, torch.float32):
        for a, b, offsets in operands:
            assert_like_eager(aten._grouped_mm.default, a, b, offsets, None, out)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16, torch.float64], ids=str)
def test_packed_int8(dtype: torch.dtype) -> None:
    x, weights, scales = ones(3, 32, dtype=dtype), ones(16, 32, dtype=torch.int8), ones(16, dtype=dtype)
    assert_like_eager(aten._weight_int8pack_mm.default, x, weights, scales)
    assert_like_eager(aten._weight_int8pack_mm.default, x, weights, ones(16))
    assert_like_eager(aten._weight_int8pack_mm.default, ones(32, 3, dtype=dtype).t(), weights, scales)
    assert_like_eager(aten._weight_int8pack_mm.default, x, ones(32, 16, dtype=torch.int8).t(), scales)


def test_an_output_dtype_of_its_own_needs_cuda() -> None:
    a, b = ones(2, 3, dtype=torch.float16), ones(3, 4, dtype=torch.float16)
    assert_like_eager(aten.mm.dtype, a, b, torch.float32)
    assert_like_eager(aten.addmm.dtype, ones(2, 4), a, b, torch.float32)
