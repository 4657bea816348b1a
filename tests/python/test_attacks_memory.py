"""Programs that use memory in unusual ways: overlapping operands, set_, sizes that only a backward needs, and arguments
with more to them than a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker


def outcome(call: Callable, *args: Any) -> Any:
    try:
        result = call(*args)
    except RuntimeError as error:
        return str(error)
    return result.tolist()


class Ahead:
    """Compiled ahead of time, with symbols for sizes; anew for each call, since sizes decide what some programs do."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        return saker.aot_function(self.function, dynamic=True)(*args)


# --- operands that lie on what is written ---


def raises_for_large(x):
    t = x * 1
    if x.size(0) > 4:
        t[1:].add_(t[:-1])
    return t


def one_after_the_other(x):
    t = x * 1
    t[:, 1:].sub_(t[:, :-1])
    return t


def lists(x):
    t = x * 1
    torch._foreach_add_([t[1:]], [t[:-1]])
    return t


def select(x):
    t = x * 1
    torch.index_select(t, 0, torch.arange(4), out=t)
    return t


def product(x):
    t = x * 1
    t.addmm_(t, t)
    return t


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", [raises_for_large, one_after_the_other])
@pytest.mark.parametrize("compiler", [saker.compile, lambda f: saker.compile(f, dynamic=True), Ahead])
def test_overlap_where_sizes_change(compiler: Callable, function: Callable, grad: bool) -> None:
    compiled = compiler(function)
    for size in (3, 4, 5, 6):
        x = torch.ones(size, 4, requires_grad=grad)
        assert outcome(compiled, x) == outcome(function, x)


@pytest.mark.parametrize("function", [lists, select, product])
def test_overlap_ahead_of_time(function: Callable) -> None:
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    assert outcome(saker.aot_function(function), x) == outcome(function, x)


# --- memory that is set ---


def test_set_where_sizes_change() -> None:
    def given(x, y):
        x.set_(y)
        return x * 2

    def made(x, y):
        z = x * 1
        z.set_(y)
        z.add_(1)
        return z

    given, made = saker.compile(given), saker.compile(made)
    for size in (3, 5, 6):
        x, y = torch.zeros(size), torch.ones(size)
        given(x, y)
        assert x.data_ptr() == y.data_ptr()
        z = made(torch.zeros(size), y)
        assert y[0].item() == 2
        assert z.data_ptr() == y.data_ptr()


@pytest.mark.parametrize("sizes", [(3, 3, 3), (3, 5, 6)])
def test_set_to_a_storage(sizes: tuple[int, ...]) -> None:
    @saker.compile
    def f(x, y):
        x.set_(y.untyped_storage(), 0, (2, 4))
        x.add_(1)
        return x

    for i, size in enumerate(sizes):
        x, y = torch.zeros(size, 4), torch.full((size, 4), float(i))
        f(x, y)
        assert x.data_ptr() == y.data_ptr()
        assert y[0, 0].item() == i + 1


def test_fixed_sizes_in_place_of_symbols() -> None:
    def f(x):
        x.as_strided_((2, 2), (4, 1))
        return x * 2

    x, y = torch.ones(3, 4), torch.ones(3, 4)
    assert torch.equal(saker.aot_function(f, dynamic=True)(x), f(y))
    assert x.shape == y.shape


# --- sizes that a backward needs, and no saved tensor has ---

JOINED = {
    "cat": lambda x: torch.cat([x.clone(), x.clone()], 1),
    "hstack": lambda x: torch.hstack([x.clone(), x * 1]),
    "block_diag": lambda x: torch.block_diag(x, x),
    "diag_embed": lambda x: torch.diag_embed(x),
    "diagflat": lambda x: torch.diagflat(x),
    "view_copy": lambda x: torch.view_copy(x, (-1,)),
    "column_stack": lambda x: torch.column_stack([x, x.clone()]),
}


@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("compiler", [saker.compile, lambda f: saker.compile(f, dynamic=True), Ahead])
def test_sizes_that_only_the_backward_needs(compiler: Callable, name: str) -> None:
    compiled = compiler(JOINED[name])
    for size in ((3, 4), (5, 6), (7, 8)):
        gradients = []
        for call in (JOINED[name], compiled):
            x = torch.randn(size, generator=torch.Generator().manual_seed(0)).requires_grad_()
            call(x).cos().sum().backward()
            gradients.append(x.grad)
        torch.testing.assert_close(gradients[1], gradients[0])


# --- autograd that the program turns on ---


@pytest.mark.parametrize("backend", [None, "eager"])
def test_autograd_is_on_inside(backend: str | None) -> None:
    options = {} if backend is None else {"backend": backend}

    @saker.compile(**options)
    def f(x):
        with torch.enable_grad():
            return x * 3

    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        with torch.no_grad():
            result = f(x)
        assert result.requires_grad
        result.sum().backward()
        assert x.grad.tolist() == [3.0] * 3


# --- arguments ---


def test_attributes_and_classes_of_arguments_are_seen() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p = torch.nn.Parameter(torch.ones(3))
            self.p.scale = 3

        def forward(self, x):
            return x * self.p * getattr(self.p, "scale", 1)

    assert saker.aot_module(Net())(torch.ones(3)).tolist() == [3.0] * 3
    x = torch.ones(3)
    x.k = 3
    for call in (saker.aot_function(lambda x: x * x.k), saker.capture(lambda x: x * x.k, x)):
        assert call(x).tolist() == [3.0] * 3
    kinds = saker.aot_function(lambda x: x * (2 if isinstance(x, torch.nn.Parameter) else 3))
    for _ in range(2):
        assert kinds(torch.nn.Parameter(torch.ones(1))).item() == 2
        assert kinds(torch.ones(1)).item() == 3
        assert kinds(torch.ones(1, requires_grad=True)).item() == 3


def test_a_hidden_write_beside_another() -> None:
    @saker.compile
    def f(x, y):
        x.mul_(2)
        y.data.mul_(1.5)

    for _ in range(3):
        x = torch.ones(3)
        f(x, x.view(-1))
        assert x._version == 1
        assert x.tolist() == [3.0] * 3
