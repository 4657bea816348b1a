"""Arguments that are written: the histories they have after a replay, and random programs with such writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import mutating_programs
import saker


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return y.fill_(2.0)


def written_and_view(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.mul_(x.detach())
    return y[0]


def nothing_returned(x: torch.Tensor, y: torch.Tensor) -> None:
    y.mul_(x)


def by_a_view(x: torch.Tensor, y: torch.Tensor) -> None:
    y[0].copy_(x[0])


def copied_and_written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = y * 2
    y.copy_(z)
    y[0].mul_(0.5)
    return z


@pytest.mark.parametrize("backend", ["aten", "eager"])
@pytest.mark.parametrize("program", [written, written_and_view, nothing_returned, by_a_view, copied_and_written])
def test_history_of_a_written_argument(program: Callable, backend: str) -> None:
    """A replay gives it one even where no result requires grad."""

    def observe(run: Callable) -> list:
        torch.manual_seed(0)
        x, leaf = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
        y = leaf * 1
        run(x, y)
        gradients = torch.autograd.grad((y * 3).sum(), [x, leaf], allow_unused=True)
        return [y._version, y.tolist(), *(g if g is None else g.tolist() for g in gradients)]

    want = observe(program)
    fast = saker.compile(program, backend=backend)
    assert observe(fast) == want
    before = saker.stats()["replays"]
    assert observe(fast) == want
    assert observe(fast) == want
    assert saker.stats()["replays"] == before + 2


def transposed(y: torch.Tensor) -> torch.Tensor:
    return y.copy_(y.t())


def shifted(y: torch.Tensor) -> torch.Tensor:
    return y.view(-1)[1:].add_(y.view(-1)[:-1])


def through_a_flat_view(y: torch.Tensor) -> torch.Tensor:
    return y.view(-1).mul_(y.t().reshape(-1)[0]) + y.t().mul_(y)


@pytest.mark.parametrize("program", [transposed, shifted, through_a_flat_view])
@pytest.mark.parametrize(
    "way", [saker.compile, saker.aot_function, lambda f: lambda y: saker.capture(f, y)(y), lambda f: deferred(f)]
)
def test_operands_that_lie_across_what_is_written(program: Callable, way: Callable) -> None:
    with pytest.raises(RuntimeError) as expected:
        program(torch.ones(3, 3))
    compiled = way(program)
    for _ in range(2):
        with pytest.raises(RuntimeError) as raised:
            compiled(torch.ones(3, 3))
        assert str(raised.value).splitlines()[0].endswith(str(expected.value).splitlines()[0])


def deferred(f: Callable) -> Callable:
    def run(y: torch.Tensor) -> torch.Tensor:
        with saker.deferred():
            return f(y)

    return run


@pytest.mark.parametrize("way", [saker.compile, saker.aot_function])
def test_operands_on_the_same_memory(way: Callable) -> None:
    """All of it, none of it, or in a way that PyTorch does not look into."""

    def program(y: torch.Tensor) -> torch.Tensor:
        y.add_(y)
        y[0].mul_(y[1])
        y[:, 0].add_(y[:, 1])
        return y.view(-1)[::2].add_(y.view(-1)[1::2].sum())

    compiled = way(program)
    for _ in range(3):
        one, other = torch.arange(9.0).view(3, 3), torch.arange(9.0).view(3, 3)
        assert torch.equal(compiled(one), program(other))
        assert torch.equal(one, other)


@pytest.mark.parametrize("way", [saker.compile, saker.aot_function])
def test_gradients_are_added_up_in_the_order_and_strides_of_eager_mode(way: Callable) -> None:
    """Of a tensor that is written, used several times, and used by the caller."""

    def program(y: torch.Tensor) -> torch.Tensor:
        z = y * 3 + y * 0.7 + y
        y.tanh_()
        return z

    def observe(run: Callable) -> list:
        torch.manual_seed(0)
        leaf = torch.randn(40, 30, requires_grad=True)
        y = leaf.t() * 1
        hooked: list = []
        y.register_hook(lambda g: hooked.append((g.stride(), g.clone())))
        out = run(y)
        (gradient,) = torch.autograd.grad((out.sin() * y).sum() + y.exp().sum(), leaf)
        return [gradient.stride(), gradient, *hooked]

    want = observe(program)
    compiled = way(program)
    for _ in range(3):
        torch.testing.assert_close(observe(compiled), want, rtol=0, atol=0)


def test_random_programs() -> None:
    for seed in range(150):
        mutating_programs.compare(seed)
