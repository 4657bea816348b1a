"""PyTorch's core operators: each has an entry, also those that PyTorch takes apart before the sweep sees them."""

import itertools

import pytest
import torch

import saker
from judge import assert_like_eager
from opinfo_sweep import core_operators

aten = torch.ops.aten


def test_every_core_operator_has_an_entry() -> None:
    names = core_operators()
    assert len(names) > 180
    missing = [name for name in names if not saker.ops.has_entry(name)]
    assert not missing, f"{len(missing)} of {len(names)} core operators have no entry: {', '.join(missing)}"


ROWS = {
    "contiguous": torch.ones(2, 3, 4),
    "one channel": torch.ones(2, 1, 4),
    "no batch": torch.ones(3, 4),
    "no batch, transposed": torch.ones(4, 3).t(),
    "channels last": torch.ones(2, 4, 3).mT,
    "reversed": torch.ones(4, 3, 2).permute(2, 1, 0),
    "expanded": torch.ones(1, 1, 4).expand(2, 3, 4),
    "one column": torch.ones(2, 3, 1),
    "empty batch": torch.ones(0, 3, 4),
    "empty rows": torch.ones(2, 3, 0),
    "too few dimensions": torch.ones(3),
    "too many dimensions": torch.ones(2, 3, 4, 5),
    "integers": torch.ones(2, 3, 4, dtype=torch.int32),
    "complex": torch.ones(2, 3, 4, dtype=torch.complex64),
    "half": torch.ones(2, 4, 3, dtype=torch.float16).mT,
}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("size", [2, 1, 0, -1])
def test_adaptive_avg_pool1d(rows: str, size: int) -> None:
    assert_like_eager(aten.adaptive_avg_pool1d.default, ROWS[rows], [size])


@pytest.mark.parametrize("op", [aten.var.dim, aten.std.dim, aten.var_mean.dim, aten.std_mean.dim], ids=str)
@pytest.mark.parametrize("rows", ROWS)
def test_variances(op: torch._ops.OpOverload, rows: str) -> None:
    for dim, unbiased, keepdim in itertools.product(
        ([0], [-1, 0], [], None, [0, 0], [7]), (True, False), (True, False)
    ):
        assert_like_eager(op, ROWS[rows], dim, unbiased, keepdim)
