"""Results that are numbers which change with sizes, beside tensors and alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

import saker
from torch_versions import captures_see_python


def sizes(a: torch.Tensor, b: torch.Tensor) -> Any:
    return a.sin(), b.size(), (b @ b.t()).cos()


def products(a: torch.Tensor, b: torch.Tensor) -> Any:
    n = a.size(0) * b.size(0)
    return {"sum": (a.sum() + b.sum()) * n, "n": n, "half": n // 2, "bytes": a.numel() * 4 + 1}


def floats_and_bools(a: torch.Tensor, b: torch.Tensor) -> Any:
    return a.size(0) / 3, a.size(0) + 0.5, a * b.size(1), a.size(0) * b.size(0) > 2, -a.size(0), float(a.size(1))


def only_numbers(a: torch.Tensor, b: torch.Tensor) -> Any:
    return a.size(0) + b.size(1), a.shape[1:], a.numel()


def one_number(a: torch.Tensor, b: torch.Tensor) -> Any:
    return a.size(0) * 2


def size_of_result(a: torch.Tensor, b: torch.Tensor) -> Any:
    joined = torch.cat([a.sum(1, keepdim=True).expand(-1, b.size(1)), b])
    return joined.shape, joined, joined.size(0) - a.size(0), joined.stride()


def after_write(a: torch.Tensor, b: torch.Tensor) -> Any:
    b.mul_(a.size(0))
    return b.view(-1).size(0), b.t(), a.exp()


PROGRAMS = [sizes, products, floats_and_bools, only_numbers, one_number, size_of_result, after_write]


def outcome(fn: Callable, rows: int, columns: int, requires_grad: bool) -> Any:
    a = torch.arange(rows * 3.0).reshape(rows, 3).sin().requires_grad_(requires_grad)
    b = torch.arange((rows + 1) * columns + 0.0).reshape(rows + 1, columns).cos()
    result = fn(a, b)
    leaves, spec = pytree.tree_flatten(result)
    differentiable = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if differentiable:
        sum(leaf.sum() for leaf in differentiable).backward()
    return [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec, a.grad, b


def identity(module: torch.fx.GraphModule, _examples: list[Any]) -> Callable:
    return module


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("compiler", [None, identity])
@pytest.mark.parametrize("program", PROGRAMS)
def test_numbers_follow_the_sizes(program: Callable, compiler: Callable | None, requires_grad: bool) -> None:
    compiled = saker.aot_function(program, fw_compiler=compiler, dynamic=True)
    before = saker.stats()
    for rows, columns in ((3, 2), (4, 2), (7, 5)):
        expected = outcome(program, rows, columns, requires_grad)
        found = outcome(compiled, rows, columns, requires_grad)
        assert [type(leaf) for leaf in found[0]] == [type(leaf) for leaf in expected[0]]
        torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
        assert found[1] == expected[1]
        torch.testing.assert_close(found[2:], expected[2:], rtol=0, atol=0)
    after = saker.stats()
    assert after["graphs"] == before["graphs"] + 1
    assert after["fallbacks"] == before["fallbacks"]


def test_a_size_stays_a_size() -> None:
    compiled = saker.aot_function(sizes, dynamic=True)
    for rows in (3, 4):
        shape = compiled(torch.ones(rows, 3), torch.ones(rows, 2))[1]
        assert isinstance(shape, torch.Size)
        assert shape == torch.Size([rows, 2])


@captures_see_python
def test_numbers_of_the_tensors_inside_of_a_subclass() -> None:
    def program(x: torch.Tensor) -> Any:
        return x.sin(), x.a.size(0) * 2, x.size(0)

    compiled = saker.aot_function(program, dynamic=True)
    for rows in (3, 4):
        x = TwoTensor(torch.ones(rows, 2), torch.zeros(rows, 2))
        result, twice, size = compiled(x)
        assert (twice, size) == (2 * rows, rows)
        assert type(twice) is int
        assert type(size) is int
        assert torch.equal(result.a, x.a.sin())


def test_a_module() -> None:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> Any:
            y = self.linear(x)
            return y, y.shape

    module = Module()
    compiled = saker.aot_module(module, dynamic=True)
    for rows in (2, 5):
        x = torch.arange(rows * 3.0).reshape(rows, 3)
        y, shape = compiled(x)
        assert torch.equal(y, module.linear(x))
        assert isinstance(shape, torch.Size)
        assert shape == (rows, 2)


def test_sizes_among_arguments_stay_sizes() -> None:
    def program(x: torch.Tensor, shape: torch.Size) -> Any:
        assert isinstance(shape, torch.Size)
        return x.reshape(shape), shape, shape.numel()

    compiled = saker.aot_function(program)
    for _ in range(2):
        y, shape, count = compiled(torch.arange(6.0), torch.Size([2, 3]))
        assert y.shape == (2, 3)
        assert isinstance(shape, torch.Size)
        assert count == 6
