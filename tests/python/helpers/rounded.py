"""A pytest plugin to run tests of the engine with code generation switched on: generated code rounds functions and sums
in another way, so floats that a test compares to the last bit may differ by what ``torch.testing`` allows for their
dtype, or by the rounding of the largest of them. Everything else that tests compare stays as it is.

    export SAKER_STAGES=fuse SAKER_COMPILE=sync PYTHONPATH=python:tests/python/helpers
    pytest -p rounded tests/python/test_zoo.py
"""

from __future__ import annotations

from typing import Any

import torch

_equal, _close = torch.equal, torch.testing.assert_close


def _rounded(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype or not (one.is_floating_point() or one.is_complex()):
        return False
    try:
        _close(one, other, equal_nan=True, check_device=False, check_stride=False, check_layout=False)
    except AssertionError:
        finite = other.isfinite()
        same = one.nan_to_num()[~finite], other.nan_to_num()[~finite]
        bound = 16 * torch.finfo(other.dtype).eps * other[finite].abs().max()
        return _equal(*same) and bool((one - other)[finite].abs().max() <= bound)
    return True


def equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if _equal(one, other):
        return True
    plain = all(type(each).__module__.startswith("torch") and each.layout == torch.strided for each in (one, other))
    with torch.no_grad():
        return plain and _rounded(one.detach(), other.detach())


def assert_close(actual: Any, expected: Any, **options: Any) -> None:
    if options.get("rtol") == 0 and options.get("atol") == 0:
        options = {name: value for name, value in options.items() if name not in ("rtol", "atol")}
    _close(actual, expected, **options)


def pytest_configure() -> None:
    torch.equal, torch.testing.assert_close = equal, assert_close
