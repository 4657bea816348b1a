"""Values inside of a replay lie in memory that is kept from call to call: no result lies there, and no two calls at the
same time share it."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

import saker


def chain(x: Tensor, y: Tensor) -> Tensor:
    for _ in range(5):
        x = torch.tanh(x * y + x) @ y
        x = torch.cat((x[:, 1:], x[:, :1]), 1)
    return x.softmax(-1)


def several(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a = x * 2
    b = a + y
    c = b.exp().t()
    d = (c * 3).reshape(-1)
    return b[1:], c, d.view(4, 4)[0], (d - 1).sum()


def written(x: Tensor, y: Tensor) -> Tensor:
    a = x * 2
    view = a[1:]
    b = a + 1
    view.mul_(b[1:])
    a.add_(y)
    return (view * 3).sin() + b[:3]


PROGRAMS = [chain, several, written]


def pairs(count: int) -> list[tuple[Tensor, Tensor]]:
    return [(torch.randn(4, 4), torch.randn(4, 4)) for _ in range(count)]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("grad", [False, True])
def test_results_of_earlier_calls_stay(fn, grad: bool) -> None:
    compiled = saker.compile(fn)
    given = pairs(6)
    for x, _ in given:
        x.requires_grad_(grad)
    before = saker.stats()["replays"]
    got = [compiled(*each) for each in given]
    assert saker.stats()["replays"] - before == 5
    for each, result in zip(given, got, strict=True):
        expected = fn(*each)
        for a, b in zip(
            torch.utils._pytree.tree_leaves(result), torch.utils._pytree.tree_leaves(expected), strict=True
        ):
            assert torch.equal(a, b)
            if grad:
                (one,) = torch.autograd.grad(a.sum(), each[0], retain_graph=True)
                (other,) = torch.autograd.grad(b.sum(), each[0], retain_graph=True)
                torch.testing.assert_close(one, other)


def test_threads_have_memory_of_their_own() -> None:
    compiled = saker.compile(chain)
    inputs = [(torch.randn(64, 64), torch.randn(64, 64) / 8) for _ in range(4)]
    with torch.no_grad():
        expected = [chain(*each) for each in inputs]
        compiled(*inputs[0])
    wrong = []

    def work(number: int) -> None:
        with torch.no_grad():
            for _ in range(100):
                if not torch.equal(compiled(*inputs[number]), expected[number]):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_after_an_error_the_next_call_is_right() -> None:
    def fn(x: Tensor, index: Tensor) -> Tensor:
        y = x * 2 + 1
        return (y[index] * y.sum()).tanh()

    compiled = saker.compile(fn)
    x, good = torch.randn(5), torch.tensor([0, 4])
    with torch.no_grad():
        for index in (good, good, torch.tensor([0, 7]), good):
            if int(index.max()) < 5:
                assert torch.equal(compiled(x, index), fn(x, index))
            else:
                with pytest.raises(IndexError):
                    compiled(x, index)


@pytest.mark.parametrize("first", [False, True])
def test_inference_mode_and_without(first: bool) -> None:
    compiled = saker.compile(chain)
    for mode in (first, first, not first, not first, first):
        x, y = pairs(1)[0]
        with torch.inference_mode(mode), torch.no_grad():
            got = compiled(x, y)
        assert torch.equal(got, chain(x, y)) and got.is_inference() == mode


# --- operands that end where a result begins ---


def rotated(q: Tensor, cos: Tensor) -> Tensor:
    left, right = (q * 2).chunk(2, -1)
    return (torch.cat((-right, left), -1) * cos + q * cos).sin() - 1


def transposed(x: Tensor, y: Tensor) -> Tensor:
    a = x * y
    b = a + a.t()  # reads what it would write
    return (b * b - 1).relu() * y


def kept(x: Tensor, y: Tensor) -> Tensor:
    a = x + y
    view = a[1:]
    b = a.exp()  # `a` is read once more, by its view
    return b[1:] * view + 1


def reversed_operands(x: Tensor, y: Tensor) -> Tensor:
    a = x * 3
    return 2 - (y - a) / (a.sum() - (x - a.abs()))


def converted(x: Tensor, y: Tensor) -> Tensor:
    a = (x * 2).double()
    b = (a + y).float() > 0
    return torch.where(b, x + 1, a.float() * 2).clamp(min=0.1).pow(3.0)


def broadcast(x: Tensor, y: Tensor) -> Tensor:
    row = x[0] * 2
    return ((row + 1) * (y + row)).neg().t() * 2 + row


IN_PLACE = [rotated, transposed, kept, reversed_operands, converted, broadcast]


@pytest.mark.parametrize("fn", IN_PLACE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("side", [1, 4, 33])
@pytest.mark.parametrize("grad", [False, True])
def test_operands_may_be_written(fn, side: int, grad: bool) -> None:
    if fn is rotated and side % 2:
        side += 1
    compiled = saker.compile(fn)
    for _ in range(4):
        x, y = torch.randn(side, side, requires_grad=grad), torch.randn(side, side)
        found, expected = compiled(x, y), fn(x, y)
        assert torch.equal(found, expected) or found.isnan().equal(expected.isnan())
        if grad:
            ours, theirs = (torch.autograd.grad(each.sum(), x)[0] for each in (found, expected))
            torch.testing.assert_close(ours, theirs, equal_nan=True)
