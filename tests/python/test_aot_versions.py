"""Writes between a compiled call and its backward: refused where eager mode's version checks refuse them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker

Tensor = torch.Tensor
PARTITIONS = ("default", "min_cut")


def refusal(fn: Callable[..., Any], write: Callable[..., None], wanted: Callable[..., Any]) -> Any:
    """Eager mode's or a compiled function's gradients, or error, after a write."""
    x = torch.linspace(0.1, 0.6, 6).reshape(2, 3).requires_grad_()
    y = torch.linspace(1.0, 2.0, 6).reshape(2, 3).requires_grad_()
    a, b = x * 1, y * 1
    results = fn(a, b)
    with torch.no_grad():
        write(a, b, *results)
    try:
        return [g.tolist() for g in wanted(x, y, *results)]
    except RuntimeError as error:
        return message(error)


def message(error: BaseException) -> str:
    """Views of views are made in another way here: by a node of another name."""
    return re.sub(r" of \w+, is at", " of a node, is at", str(error).splitlines()[0])


def both(fn: Callable[..., Any], write: Callable[..., None], wanted: Callable[..., Any], partition: str) -> tuple:
    return refusal(saker.aot_function(fn, partition_fn=partition), write, wanted), refusal(fn, write, wanted)


def sum_grad(*wanted: int) -> Callable[..., Any]:
    """Gradients of the sum of some results."""

    def compute(x: Tensor, y: Tensor, *results: Tensor) -> Any:
        loss = sum(results[i].sum() for i in wanted)
        inputs = [
            t for t in (x, y) if torch.autograd.grad(loss, t, retain_graph=True, allow_unused=True)[0] is not None
        ]
        return torch.autograd.grad(loss, inputs, retain_graph=True)

    return compute


def write_x(x: Tensor, *others: Tensor) -> None:
    x.mul_(2)


def write_y(x: Tensor, y: Tensor, *results: Tensor) -> None:
    y.mul_(2)


def write_first(x: Tensor, y: Tensor, *results: Tensor) -> None:
    results[0].mul_(2)


def apart(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.sin(), y.cos()


def of_a_view(x: Tensor, y: Tensor) -> tuple[Tensor]:
    return (x.t().reshape(-1, 2).sin() + y.view(3, 2).exp(),)


def after_geometry(x: Tensor, y: Tensor) -> tuple[Tensor]:
    x.t_()
    return (x.sin() * y.t(),)


def saves_its_result(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.exp(), y.tanh()


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("write", [write_x, write_y, write_first])
@pytest.mark.parametrize("fn", [apart, of_a_view, after_geometry, saves_its_result])
def test_a_write_is_refused_as_in_eager_mode(fn: Callable, write: Callable, partition: str) -> None:
    for wanted in [(0,), (1,), (0, 1)] if fn in (apart, saves_its_result) else [(0,)]:
        got, expected = both(fn, write, sum_grad(*wanted), partition)
        assert got == expected


def test_what_no_gradient_needs_is_not_checked() -> None:
    compiled = saker.aot_function(lambda x, y: x.sin() + y.cos())
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    a, b = x * 1, y * 1
    result = compiled(a, b)
    with torch.no_grad():
        b.mul_(2)
    (got,) = torch.autograd.grad(result.sum(), x, retain_graph=True)
    torch.testing.assert_close(got, x.cos())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(result.sum(), y)


def test_differentiating_twice_checks_too() -> None:
    def fn(x: Tensor) -> Tensor:
        x.t_()
        return x.sin()

    def run(call: Callable[..., Tensor]) -> str:
        x = torch.ones(2, 3, requires_grad=True)
        a = x * 1
        result = call(a)
        with torch.no_grad():
            a.mul_(2)
        with pytest.raises(RuntimeError) as raised:
            torch.autograd.grad(result.sum(), x, create_graph=True)
        return message(raised.value)

    assert run(saker.aot_function(fn)) == run(fn)


def test_hooks_on_saved_tensors_take_the_check_away() -> None:
    def run(call: Callable[..., Tensor]) -> list:
        x = torch.ones(2, requires_grad=True)
        a = x * 1
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            result = call(a)
        with torch.no_grad():
            a.mul_(2)
        return torch.autograd.grad(result.sum(), x)[0].tolist()

    for partition in PARTITIONS:
        assert run(saker.aot_function(torch.sin, partition_fn=partition)) == run(torch.sin)


def test_gradients_of_conjugate_views() -> None:
    fn = lambda x: torch.fft.ifft(x, norm="ortho")  # noqa: E731
    x = torch.linspace(0.0, 1.0, 7, requires_grad=True)
    tangent = torch.complex(torch.linspace(1.0, 2.0, 7), torch.linspace(-1.0, 3.0, 7))
    (got,) = torch.autograd.grad(saker.aot_function(fn)(x), x, tangent)
    torch.testing.assert_close(got, torch.autograd.grad(fn(x), x, tangent)[0])


def test_memory_that_autograd_is_not_told_of() -> None:
    def run(call: Callable[..., Any]) -> tuple:
        x = torch.arange(12.0).reshape(3, 4)
        first, second = call(x)
        first.mul_(2)
        return x.tolist(), second.tolist(), first.stride(), first._is_view()

    fn = lambda x: torch.unsafe_chunk(x, 2, 1)  # noqa: E731
    assert run(saker.aot_function(fn)) == run(fn)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_leaf_that_is_transposed_and_not_differentiated(partition: str) -> None:
    """Its gradient has the sizes that it has in the end."""

    def fn(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            x.t_()
        return x[0], y * 2

    def run(call: Callable[..., Any]) -> list:
        x, y = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
        view, product = call(x, y)
        return [g.tolist() for g in torch.autograd.grad(view.sum() + product.sum(), [x, y])]

    assert run(saker.aot_function(fn, partition_fn=partition)) == run(fn)


def test_a_copy_of_an_argument_stays_one() -> None:
    """It is a copy that eager mode saves: the argument may be written."""
    got, expected = both(lambda x, y: (x.clone().sin() * y,), write_x, sum_grad(0), "default")
    assert got == expected and isinstance(got, list)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_memory_around_an_argument_is_kept_for_the_backward(partition: str) -> None:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        x.as_strided_((2, 3), (3, 1))
        return x * y

    def run(call: Callable[..., Tensor]) -> list:
        y = torch.ones(2, 3, requires_grad=True)
        call(torch.arange(24.0).reshape(6, 4).t()[:2, :3], y).sum().backward()
        return y.grad.tolist()

    assert run(saker.aot_function(fn, partition_fn=partition)) == run(fn)


@pytest.mark.parametrize("partition", ["min_cut", "default"])
@pytest.mark.parametrize("visible", [True, False])
def test_a_result_that_was_written_inside_may_be_saved(partition: str, visible: bool) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = x * 1
        with torch.set_grad_enabled(visible):
            z.mul_(2)
        return z, z.cos()

    def outcome(fn: Callable, late: bool) -> list[Any]:
        x = torch.arange(3.0).requires_grad_()
        z, cosine = fn(x)
        if late:
            with torch.no_grad():
                z.add_(1)
        try:
            (z.sum() + cosine.sum()).backward()
        except RuntimeError as error:
            return [type(error), z._version]
        return [x.grad.tolist(), z._version]

    compiled = saker.aot_function(program, partition_fn=partition)
    for late in (False, True):
        assert outcome(compiled, late) == outcome(program, late)
