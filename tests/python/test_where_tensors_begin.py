"""Slices of one data tensor begin at other places of its memory in every call: one recording serves them all, unless
the program counts from the start of the memory, asks where a tensor begins, or writes what another argument sees."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker

W = torch.randn(4, 3, requires_grad=True)


def slices(data: torch.Tensor, size: int = 4, count: int = 6) -> list[torch.Tensor]:
    return [data[i * size : (i + 1) * size] for i in range(count)]


def same(a: Any, b: Any) -> None:
    for x, y in zip(a if isinstance(a, tuple) else (a,), b if isinstance(b, tuple) else (b,), strict=False):
        if not isinstance(x, torch.Tensor):
            assert x == y
            continue
        assert torch.equal(x, y) and x.stride() == y.stride() and x._version == y._version
        assert x.storage_offset() == y.storage_offset() and (x._base is None) == (y._base is None)


ONCE: dict[str, Callable[..., Any]] = {
    "values": lambda x: x.sin() + 1,
    "gradients": lambda x: (x @ W).relu().sum(),
    "views of the input": lambda x: (x[1:], x.t(), x.view(2, 2, 4)[0], x.unfold(0, 2, 1)),
    "the input": lambda x: (x, x * 2),
    "transposed and reshaped": lambda x: x.t().reshape(-1) * x.t().contiguous().view(-1),
    "as_strided of what is made": lambda x: (x * 2).as_strided((2, 2), (4, 1), 1),
    "split": lambda x: tuple(p * 2 for p in x.split(2)) + tuple(x.unbind(1)),
    "writes": lambda x: x.mul_(2) + 1,
    "writes to a view": lambda x: (x[0].add_(1), x.sum()),
}


@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("grad", [False, True])
def test_recorded_once(name: str, grad: bool) -> None:
    fn = ONCE[name]
    compiled = saker.compile(fn)
    saker.reset(counts=True)
    eager = torch.randn(30, 4)
    data = eager.clone()
    with torch.set_grad_enabled(grad):
        for x, y in zip(slices(eager), slices(data), strict=False):
            a, b = fn(x), compiled(y)
            same(a, b)
            assert torch.equal(x, y) and x._version == y._version
            if grad and isinstance(a, torch.Tensor) and a.requires_grad:
                same(torch.autograd.grad(a, W), torch.autograd.grad(b, W))
    assert saker.stats()["recompiles"] == 0 and saker.stats()["replays"] == 5, saker.stats()


PLACED: dict[str, Callable[..., Any]] = {
    "asked": lambda x: x * x.storage_offset(),
    "asked of a view": lambda x: x * x[1].storage_offset(),
    "as_strided": lambda x: x.as_strided((2, 2), (4, 1)) * 2,
    "as_strided with an offset": lambda x: x.as_strided((2, 2), (4, 1), 3) * 2,
    "as_strided of a view": lambda x: torch.as_strided(x.t(), (2, 2), (4, 1), 5).sum(),
    "as_strided with gradients": lambda x: (x.as_strided((4, 4), (4, 1)) @ W).sum(),
}


@pytest.mark.parametrize("name", PLACED)
def test_where_it_matters_it_is_compared(name: str) -> None:
    fn = PLACED[name]
    compiled = saker.compile(fn)
    data = torch.randn(40, 4)
    for x in slices(data) + slices(data):
        same(fn(x), compiled(x))


def test_writes_that_others_see() -> None:
    """Which elements two arguments share depends on where they begin."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return (y * W.detach()[0, 0]).sum() + (x @ W).sum()

    compiled = saker.compile(fn)
    eager = torch.randn(20, 4)
    data = eager.clone()
    for i, k in [(0, 0), (0, 2), (0, 4), (4, 0), (2, 2), (1, 3), (0, 8), (8, 0), (3, 3)]:
        a, b = (fn(t[i : i + 4], t[k : k + 4]) for fn, t in ((fn, eager), (compiled, data)))
        torch.testing.assert_close(b, a)
        assert torch.equal(eager, data)


def test_bits_that_do_not_begin_at_a_whole_element() -> None:
    """What eager mode refuses at one place of memory is refused in replays too."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.view(torch.float64) * 2

    compiled = saker.compile(fn)
    data = torch.randn(9)
    for start in (0, 2, 1, 4, 3):
        x = data[start : start + 4]
        try:
            expected = fn(x)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=re.escape(str(error)[:30])):
                compiled(x)
        else:
            same(expected, compiled(x))
