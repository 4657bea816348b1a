"""Following a program without running it leaves no trace in the history of tensors that it writes through views."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import saker


class Counter:
    steps = 0

    def __init__(self) -> None:
        self.steps = 5


COUNTER = Counter()


def in_a_view(a: Tensor, b: Tensor) -> Tensor:
    COUNTER.steps += 1
    a[0].mul_(2)
    return a * COUNTER.steps


def set_to_a_sum(a: Tensor, b: Tensor) -> Tensor:
    COUNTER.steps += 1
    a[0] = a.sum()
    return a * COUNTER.steps


def in_a_view_of_a_view(a: Tensor, b: Tensor) -> Tensor:
    COUNTER.steps += 1
    a.view(-1)[1:].sin_()
    return a * COUNTER.steps


def several_times(a: Tensor, b: Tensor) -> Tensor:
    COUNTER.steps += 1
    a[1].mul_(3)
    a.mul_(2)
    a[0].sin_()
    return a * COUNTER.steps


def from_another(a: Tensor, b: Tensor) -> Tensor:
    COUNTER.steps += 1
    b[0].copy_(a[1] * COUNTER.steps)
    return a * b.sum()


def given_back(a: Tensor, b: Tensor) -> Tensor:
    a.sin_()
    COUNTER.steps += 1
    _unused = b * COUNTER.steps
    return a


def comes_to_require_grad(a: Tensor, b: Tensor) -> Tensor:
    COUNTER.steps += 1
    b[0] = (a * COUNTER.steps).sum()
    return b * 1


def whole(x: Tensor) -> list[Tensor]:
    return [x * 3, x * 2]


def beside(x: Tensor) -> list[Tensor]:
    return list((x * 3).repeat(2, 1).split(3))


def overlapping(x: Tensor) -> list[Tensor]:
    base = x * 3
    return [base[:2], base[1:]]


def of_one_base(x: Tensor) -> list[Tensor]:
    base = torch.cat([x, x * 2])
    return [base[:3], base[3:]]


def one_without(x: Tensor) -> list[Tensor]:
    return [x * 3, torch.ones(3, 2)]


def a_view_without(x: Tensor) -> list[Tensor]:
    return [x * 3, torch.ones(6, 2)[:3]]


FUNCTIONS = [
    in_a_view,
    set_to_a_sum,
    in_a_view_of_a_view,
    several_times,
    from_another,
    given_back,
    comes_to_require_grad,
]


@pytest.mark.parametrize("backend", ["aten", "eager"])
@pytest.mark.parametrize("arguments", [whole, beside, overlapping, of_one_base, one_without, a_view_without])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients_of_what_is_written(function: Callable, arguments: Callable, backend: str) -> None:
    def run(called: Callable) -> list:
        COUNTER.steps = 5
        seen = []
        for seed in range(6):
            x = torch.randn(3, 2, generator=torch.Generator().manual_seed(seed), requires_grad=True)
            given = arguments(x)
            try:
                result = called(*given)
            except RuntimeError:  # outputs of split may not be written
                seen.append([])
                continue
            (result.sum() + sum((each * each).sum() for each in given)).backward()
            told = [(each._version, each.requires_grad, each.is_leaf) for each in given]
            seen.append([result.detach(), x.grad, *sum(told, ())])
        return seen

    torch.testing.assert_close(run(saker.compile(function, backend=backend)), run(function), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("write", [lambda w: w[0].mul_(2), lambda w: w.mul_(2), lambda w: w.view(-1)[1:].sin_()])
def test_a_capture_leaves_histories(write: Callable) -> None:
    x = torch.ones(2, requires_grad=True)
    base = torch.cat([x * 3, x])
    view, sibling = base[:3], base[1:]
    for written in (base, view):
        history = base.grad_fn, base._version

        def function(y: Tensor, written: Tensor = written) -> Tensor:
            write(written)
            return y + view.sum() + sibling.sum()

        saker.capture(function, torch.ones(3))
        assert (base.grad_fn, base._version) == history
    write(view)
    (sibling * sibling).sum().backward()
    plain = torch.ones(2, requires_grad=True)
    base = torch.cat([plain * 3, plain])
    view, sibling = base[:3], base[1:]
    write(view)
    (sibling * sibling).sum().backward()
    assert torch.equal(x.grad, plain.grad)
