"""Results that are subclasses and views of arguments, and writes to arguments that are subclasses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

import saker
from differential import later_writes
from torch_versions import captures_see_python

pytestmark = captures_see_python


def same_view(a, b):
    return b.view(b.shape), a * b


def reshaped(a, b):
    return b.view(-1), b * 2


def chain(a, b):
    return b.t().unsqueeze(0)[0, 1:]


def pieces(a, b):
    return (*b.unbind(0), a.sum())


def the_argument(a, b):
    return b, a + 1, a


def argument_and_view(a, b):
    return b.transpose(0, 1), b, (a * b).sum()


def without_grad(a, b):
    with torch.no_grad():
        return b.view(-1), a.view(-1)


def detached(a, b):
    return b.detach(), b.sin()


def view_of_intermediate(a, b):
    c = b * 2
    return c.view(-1), c


def only_views(a, b):
    return b.view(-1), a.view(-1)


VIEWS = [
    *(same_view, reshaped, chain, pieces, the_argument, argument_and_view, without_grad, detached),
    *(view_of_intermediate, only_views),
]


def written(a, b):
    b.mul_(2)
    return b * a


def written_and_given(a, b):
    b.mul_(2)
    return b, b.sin()


def written_under_no_grad(a, b):
    with torch.no_grad():
        b.mul_(2)
    return b * a


def written_by_view(a, b):
    b.view(-1).add_(1)
    return b + a


def written_and_viewed(a, b):
    b.add_(1)
    return b.view(-1), a * 2


def view_written(a, b):
    view = b.view(-1)
    view.mul_(3)
    return view, a * 2


def plain_written(a, b):
    a.mul_(2)
    return a * b, a


WRITES = [
    *(written, written_and_given, written_under_no_grad, written_by_view, written_and_viewed, view_written),
    plain_written,
]


def two(requires_grad: bool) -> torch.Tensor:
    return TwoTensor(torch.arange(6.0).reshape(2, 3).sin(), torch.arange(6.0).reshape(2, 3).cos()).requires_grad_(
        requires_grad
    )


def nested(requires_grad: bool) -> torch.Tensor:
    return TwoTensor(two(False), two(False)).requires_grad_(requires_grad)


def contents(tensor: torch.Tensor | None) -> Any:
    if isinstance(tensor, TwoTensor):
        return [contents(tensor.a), contents(tensor.b)]
    return None if tensor is None else tensor.detach().tolist()


def facts(tensor: torch.Tensor, others: list[torch.Tensor]) -> list[Any]:
    return [
        *(contents(tensor), type(tensor), tensor.requires_grad, tensor.is_leaf, tensor._is_view(), tensor._version),
        [tensor is other for other in others],
        [tensor._base is other for other in others],
    ]


def outcome(fn: Callable, make: Callable, which: tuple[bool, bool], leaves: bool) -> list[Any]:
    a = torch.arange(6.0).reshape(2, 3).exp().requires_grad_(which[0])
    b = make(which[1])
    given = [a, b] if leaves else [a * 1, b * 1]
    try:
        results = pytree.tree_leaves(fn(*given))
    except RuntimeError as error:
        return [type(error), contents(a), contents(b)]
    found = [facts(result, given) for result in results] + [facts(tensor, given) for tensor in given]
    roots = [result for result in results if result.requires_grad]
    if roots:
        total = sum((root * (i + 1)).sum() for i, root in enumerate(roots))
        try:
            total.backward()
            found.append([contents(a.grad), contents(b.grad)])
        except RuntimeError as error:
            found.append(type(error))
    return found + later_writes([*results, *given], contents)


def check(program: Callable, make: Callable, which: tuple[bool, bool], leaves: bool) -> None:
    for how in ({}, {"partition_fn": "default"}):
        compiled = saker.aot_function(program, **how)
        for _ in range(2):
            found, expected = outcome(compiled, make, which, leaves), outcome(program, make, which, leaves)
            assert found == expected


@pytest.mark.parametrize("which", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("make", [two, nested])
@pytest.mark.parametrize("program", VIEWS)
def test_views(program: Callable, make: Callable, which: tuple[bool, bool], leaves: bool) -> None:
    check(program, make, which, leaves)


@pytest.mark.parametrize("program", VIEWS)
def test_views_are_compiled(program: Callable) -> None:
    before = saker.stats()["graphs"]
    outcome(saker.aot_function(program), two, (True, True), True)
    assert saker.stats()["graphs"] > before


@pytest.mark.parametrize("which", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("make", [two, nested])
@pytest.mark.parametrize("program", WRITES)
def test_writes(program: Callable, make: Callable, which: tuple[bool, bool], leaves: bool) -> None:
    check(program, make, which, leaves)
