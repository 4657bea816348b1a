"""Type promotion against eager mode: operators on all pairs of dtypes, of tensors with dimensions, 0-d tensors and
Python numbers, which OpInfo's samples (one dtype each) do not have."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from judge import Judge
from torch_versions import BCOMPLEX32, MISSING_KERNELS

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
]
RARE_DTYPES = [torch.uint16, torch.uint32, torch.uint64, torch.complex32, torch.float8_e4m3fn, torch.float8_e5m2]
RARE_DTYPES += BCOMPLEX32
NUMBERS = [True, 2, 2.5, 1 + 2j]
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "pow": torch.pow,
    "eq": torch.eq,
    "lt": torch.lt,
    "maximum": torch.maximum,
    "bitwise_and": torch.bitwise_and,
    "logical_and": torch.logical_and,
    "atan2": torch.atan2,
    "copysign": torch.copysign,
    "heaviside": torch.heaviside,
    "hypot": torch.hypot,
    "lshift": lambda a, b: a << b,
    "clamp": lambda a, b: torch.clamp(a, min=b),
    "where": lambda a, b: torch.where(torch.tensor([[True, False]]), a, b),
    "masked_fill": lambda a, b: a.masked_fill(torch.tensor([[True, False]]), b),
    "lerp": lambda a, b: torch.lerp(a, a, b),
    "addcmul": lambda a, b: torch.addcmul(a, b, a),
    "cat": lambda a, b: torch.cat([a, b]),
    "mm": lambda a, b: torch.mm(a, b.mT),
    "copy_": lambda a, b: a.clone().copy_(b),
    "add_": lambda a, b: a.clone().add_(b),
    "mul_": lambda a, b: a.clone().mul_(b),
    "div_": lambda a, b: a.clone().div_(b),
    "pow_": lambda a, b: a.clone().pow_(b),
    "eq_": lambda a, b: a.clone().eq_(b),
    "fill_": lambda a, b: a.clone().fill_(b),
    "add out": lambda a, b: torch.add(a, a, out=torch.empty_like(b)),
    "eq out": lambda a, b: torch.eq(a, a, out=torch.empty_like(b)),
    "sum dtype": lambda a, b: torch.sum(a, 0, dtype=b.dtype),
    "cumsum out": lambda a, b: torch.cumsum(a, 0, out=torch.empty_like(b)),
    "index_put_": lambda a, b: a.clone().index_put_((torch.tensor([0]),), b),
    "foreach add": lambda a, b: torch._foreach_add([a], [b]),
    "foreach mul_": lambda a, b: torch._foreach_mul_([a.clone()], b),
}


def operands() -> Iterator[tuple[Any, Any]]:
    def dimensioned(dtype: torch.dtype) -> torch.Tensor:
        return torch.ones(3, 2).to(dtype)

    def single(dtype: torch.dtype) -> torch.Tensor:
        return torch.ones(()).to(dtype)

    for first, second in itertools.product(DTYPES, DTYPES):
        for make_first, make_second in itertools.product((dimensioned, single), repeat=2):
            yield make_first(first), make_second(second)
    for dtype, number in itertools.product(DTYPES + RARE_DTYPES, NUMBERS):
        yield dimensioned(dtype), number
        yield single(dtype), number
        yield number, dimensioned(dtype)
    for first, second in itertools.product(RARE_DTYPES, [*RARE_DTYPES, torch.float32, torch.int64, torch.bool]):
        yield dimensioned(first), dimensioned(second)
        yield dimensioned(second), single(first)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_promotion_equals_eager(name: str) -> None:
    judge = Judge()
    judge.origin = name
    ran = 0
    for a, b in operands():
        with judge:
            try:
                FUNCTIONS[name](a, b)
                ran += 1
            except Exception:  # eager's own; the judge has compared the call that raised
                pass
    missing = MISSING_KERNELS.get(name)
    failures = [f for f in dict.fromkeys(judge.scope_failures) if missing is None or missing not in f]
    assert ran > 0
    assert not failures, f"{len(failures)} mismatches:\n" + "\n".join(failures[:20])
