"""Generated code of what goes through a row in order: running sums and products, the largest and smallest so far."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import saker
from generated_code import fused, needs_code  # noqa: F401 (a fixture of each test)
from saker import _C
from test_native import launches
from test_native_operators import FULL, HALVES, check, check_gradients

Tensor = torch.Tensor
pytestmark = needs_code

WHOLE = [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool]
SHAPES = [(5, 33), (4, 3, 17), (1, 1), (1, 300), (300, 1), (64, 64), (19,)]

SCANS: dict[str, Callable[[Tensor, int], Tensor | tuple[Tensor, ...]]] = {
    "cumsum": lambda x, dim: (x * 2).cumsum(dim) + 1,
    "cumprod": lambda x, dim: (x * 2).cumprod(dim) + 1,
    "cummax": lambda x, dim: tuple(each + 1 for each in (x * 2).cummax(dim)),
    "cummin": lambda x, dim: tuple(each + 1 for each in (x * 2).cummin(dim)),
}


@pytest.mark.parametrize("dtype", [*FULL, *HALVES, *WHOLE], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", SCANS)
def test_scans(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """To the bit: eager mode goes through a row in order too."""
    x = torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(0, 4, shape).to(dtype)
    for dim in range(len(shape)):
        check(lambda x, dim=dim: SCANS[name](x, dim), x)
        check(lambda x, dim=dim: SCANS[name](x, dim), x.t() if x.dim() == 2 else x)


@pytest.mark.parametrize("name", SCANS)
def test_unusual_numbers(name: str) -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1.0, 1.0, nan, 2.0, nan], [0.0, -0.0, inf, -inf, 3.0], [-inf, -0.0, 0.0, 1e38, 3e38]])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for dim in range(2):
            check(lambda x, dim=dim: SCANS[name](x, dim), x.to(dtype))


def test_dtypes_of_results() -> None:
    x = torch.randint(-100, 100, (5, 40))
    for dtype in (torch.int8, torch.int32, torch.float32, torch.bfloat16, torch.float64):
        check(lambda x, dtype=dtype: (x * 2).cumsum(1, dtype=dtype) + 1, x)
    check(lambda x: (x * 2).cumsum(0, dtype=torch.float64) + 1, x.float())


MIXED: dict[str, Callable[[Tensor], Tensor | tuple[Tensor, ...]]] = {
    "behind": lambda x: (x.cumsum(1) * x).flip(1),
    "of a scan": lambda x: x.cumsum(1).cumsum(1) * 2,
    "of another direction": lambda x: x.cumsum(1).cumsum(0) * 2,
    "from behind": lambda x: x.flip(1).cumsum(1).flip(1) * 2,
    "with a reduction": lambda x: x.cumsum(1) - (x * x).sum(1, keepdim=True),
    "reduced": lambda x: (x.cumsum(1) * 2).sum(1),
    "of a normalised row": lambda x: (x - x.amax(1, keepdim=True)).cumsum(1) * 2,
    "of ones": lambda x: torch.ones_like(x).cumsum(1) * 2 + x,
    "transposed": lambda x: x.t().cumsum(0).t() * 2,
    "expanded": lambda x: x[:, :1].expand_as(x).cumsum(1) * 2,
    "places": lambda x: (x > 0).long().cumsum(1) * (x > 0) - 1,
    "both": lambda x: (x.cumsum(1) * 2, x.cumsum(0) * 2, x.cummax(1).values * 2),
}


@pytest.mark.parametrize("shape", [(5, 33), (64, 16), (1, 7), (7, 1), (130, 67)], ids=str)
@pytest.mark.parametrize("name", MIXED)
def test_mixed_with_other_operators(name: str, shape: tuple[int, int]) -> None:
    check(MIXED[name], torch.randn(shape), near={"rtol": 1e-5, "atol": 2e-4})


@pytest.mark.parametrize("name", ["cumsum", "cummax", "cummin"])
@pytest.mark.parametrize("dim", [0, 1])
def test_gradients(name: str, dim: int) -> None:
    def program(x: Tensor) -> Tensor:
        made = getattr(x * 0.5 + 1, name)(dim)
        return (made[0] if isinstance(made, tuple) else made).sin() * 2

    check_gradients(program, torch.randn(9, 12), near={"rtol": 1e-4, "atol": 1e-4})


@pytest.mark.parametrize("name", SCANS)
def test_sizes_that_change(name: str) -> None:
    for dim in range(2):
        compiled, count = saker.compile(lambda x, dim=dim: SCANS[name](x, dim)), 0
        for shape in [(5, 33), (7, 12), (64, 65), (2, 2), (3, 0), (1, 9)]:
            x = torch.randn(shape)
            found, launched = launches(lambda x=x, compiled=compiled: compiled(x))
            count += launched
            torch.testing.assert_close(found, SCANS[name](x, dim), rtol=0, atol=0)
        assert count > 0, _C.code_error()


@pytest.mark.parametrize("cpu", ["avx2", "sse4", "scalar"])
def test_other_processors(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAKER_CPU", cpu)
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        x = (torch.randn(33, 50) * 3).to(dtype)
        for scan in SCANS.values():
            for dim in range(2):
                check(lambda x, scan=scan, dim=dim: scan(x, dim), x)
