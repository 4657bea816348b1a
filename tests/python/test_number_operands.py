"""Operators of a tensor and a number, `x * 2`: the number is made a tensor of the right type once, not in each call."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import saker
from differential import same

NUMBERS = [2, 0, -1, 2**24 + 1, 2**53 + 1, -(2**62), 0.1, -0.0, 1 / 3, 1e300, -1e300, 1e-320, 1e-40, 3.4028236e38]
NUMBERS += [math.inf, -math.inf, math.nan, True, 1 + 2j]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.bool]
DTYPES += [torch.complex64]

OPERATORS: dict[str, Callable] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "reversed": lambda x, n: n - x,
    "alpha": lambda x, n: torch.add(x, n, alpha=2),
    "alpha of sub": lambda x, n: torch.sub(x, n, alpha=3),
    "in place": lambda x, n: x.clone().mul_(n).add_(n).sub_(n).div_(n),
    "a chain": lambda x, n: ((x * n + n) / n - n) * 2,
    "rounded": lambda x, n: torch.div(x, n, rounding_mode="floor"),
    "scalars": lambda x, n: torch.ops.aten.mul.Scalar(torch.ops.aten.add.Scalar(x, n), n) * 1,
    "other scalars": lambda x, n: torch.ops.aten.div.Scalar(torch.ops.aten.sub.Scalar(x, n, 2), n),
}

SPECIAL = [0.0, -0.0, 1.0, -2.5, 1e-40, 3e38, math.inf, math.nan, 7.0, 0.1]


def tensors(dtype: torch.dtype) -> list[torch.Tensor]:
    row = torch.tensor(SPECIAL).nan_to_num(1, 5, 6).clamp(-100, 100) if dtype in (torch.int64, torch.int8) else None
    row = (torch.tensor(SPECIAL) if row is None else row).to(dtype)
    return [row, row.reshape(2, 5).t(), row[3], row[:0], row[::3]]


def outcome(call: Callable, *args: object) -> object:
    try:
        return call(*args)
    except (RuntimeError, ZeroDivisionError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_numbers_of_all_kinds(name: str, dtype: torch.dtype) -> None:
    for number in NUMBERS:
        compiled = saker.compile(lambda x, n=number: OPERATORS[name](x, n), recompile_limit=64)
        for x in tensors(dtype):
            expected = outcome(OPERATORS[name], x, number)
            for _ in range(2):
                got = outcome(compiled, x)
                assert isinstance(got, torch.Tensor) == isinstance(expected, torch.Tensor), (number, got, expected)
                if isinstance(got, torch.Tensor):
                    same(got, expected)
                else:
                    assert got == expected


@pytest.mark.parametrize("name", ["add", "mul", "a chain", "scalars", "in place"])
def test_gradients(name: str) -> None:
    for number in (3, 0.1):
        compiled = saker.compile(lambda x, n=number: OPERATORS[name](x.sin(), n).sin())
        for _ in range(3):
            x = torch.randn(4, requires_grad=True)
            y = x.detach().clone().requires_grad_()
            got, expected = compiled(x), OPERATORS[name](y.sin(), number).sin()
            same(got.detach(), expected.detach())
            same(torch.autograd.grad(got.sum(), x), torch.autograd.grad(expected.sum(), y))


def test_replays_cast_no_numbers() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.mul.Scalar(x.sin() + 1, 0.5) / 3 - 2

    def casts(call: Callable) -> int:
        with profile(activities=[ProfilerActivity.CPU]) as recorded:
            call(torch.ones(4))
        return sum(event.count for event in recorded.key_averages() if event.key in ("aten::to", "aten::_to_copy"))

    compiled = saker.compile(function)
    compiled(torch.ones(4)), compiled(torch.ones(4))
    assert casts(function) >= 4
    assert casts(compiled) == 0


UNITS: dict[str, Callable] = {
    "times one": lambda x: (x + x) * 1,
    "over one": lambda x: (x + x) / 1.0,
    "to the one": lambda x: (x + x) ** 1,
    "plus zero": lambda x: (x + x) + 0,
    "minus zero": lambda x: (x + x) - 0,
    "minus a zero": lambda x: torch.sub(x + x, 0, alpha=-1),
    "minus zero times infinity": lambda x: torch.sub(x + x, 0, alpha=math.inf),
}


@pytest.mark.parametrize("name", UNITS)
def test_numbers_that_seem_to_change_nothing(name: str) -> None:
    compiled = saker.compile(UNITS[name])
    for x in (torch.tensor([complex(1, math.inf), complex(3e38, 1), complex(-0.0, 2)]), torch.tensor([-0.0, 1.0])):
        for _ in range(3):
            got, expected = compiled(x), UNITS[name](x)
            same(got, expected)
            assert torch.equal(signs(got), signs(expected))


def signs(x: torch.Tensor) -> torch.Tensor:
    return torch.signbit(torch.view_as_real(x) if x.is_complex() else x)


def test_wrapped_numbers_stay_what_they_are() -> None:
    """A tensor that came from a number takes no part in choosing a type, and its results neither."""
    for default in (torch.float32, torch.float64):
        torch.set_default_dtype(default)
        try:
            compiled = saker.compile(lambda x, y: ((x * 2 + 1) * y, x.sum() * 3 + y))
            for x in (torch.ones(3, dtype=torch.float32), torch.ones((), dtype=torch.float64)):
                for y in (torch.ones(2, 1, dtype=torch.float32), torch.tensor(2)):
                    for _ in range(2):
                        same(compiled(x, y), ((x * 2 + 1) * y, x.sum() * 3 + y))
        finally:
            torch.set_default_dtype(torch.float32)
