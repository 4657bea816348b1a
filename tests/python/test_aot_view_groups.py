"""Results that are views which one operator made several of: nothing but the name of their node differs from eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import saker
from differential import assert_same

NODE = "CompiledFunctionBackward"


def of_argument(a):
    return list(a.unbind(0))


def some_of_argument(a):
    first, _, last = a.unbind(0)
    return last, first


def of_intermediate(a):
    return list((a * 3).split(2))


def beside_their_base(a):
    out = a * 3
    return *out.unbind(0), out


def beside_a_view(a):
    out = a * 3
    return *out.chunk(2), out.view(-1)


def of_a_view(a):
    return a.t()[1:].unbind(1)


def written_before(a):
    out = a * 3
    out.mul_(2)
    return out.unbind(1)


OWN = [of_argument, some_of_argument, of_intermediate, beside_their_base, beside_a_view, of_a_view, written_before]


def beside_a_view_of_the_argument(a):
    return *a.unbind(0), a.view(-1)


def beside_two(a):
    out = a * 3
    return *out.unbind(0), out, out.view(-1)


def made_without_grad(a):
    out = a * 3
    with torch.no_grad():
        return *out.unbind(0), out


OTHERS = [beside_a_view_of_the_argument, beside_two, made_without_grad]


def given(leaf: bool) -> tuple[Tensor, Tensor]:
    source = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    return source, source if leaf else source * 1


def looks(tensor: Tensor, others: list[Tensor]) -> list[Any]:
    known = [tensor.detach().clone(), tensor._version, attempt(lambda: (tensor.requires_grad, tensor.is_leaf))]
    behind = lambda: len(tensor.grad_fn.next_functions) if tensor._is_view() else None  # noqa: E731
    places = [tensor._is_view(), attempt(lambda: tensor.output_nr), attempt(behind)]
    base = tensor._base
    return [*known, *places, base is not None and [base is other for other in others], base is not None and base.shape]


def attempt(what: Callable[[], Any]) -> Any:
    try:
        return what()
    except Exception as error:
        return type(error), str(error)


def write_view(a: Tensor, results: list[Tensor]) -> None:
    results[0].mul_(2)


def write_view_without_grad(a: Tensor, results: list[Tensor]) -> None:
    with torch.no_grad():
        results[0].mul_(2)


def write_last(a: Tensor, results: list[Tensor]) -> None:
    results[-1].mul_(2)


def write_argument(a: Tensor, results: list[Tensor]) -> None:
    a.mul_(2)


def write_base(a: Tensor, results: list[Tensor]) -> None:
    results[0]._base.mul_(2)


def write_detached(a: Tensor, results: list[Tensor]) -> None:
    results[0].detach().mul_(2)


def nothing(a: Tensor, results: list[Tensor]) -> None:
    pass


LATER = [nothing, write_view, write_view_without_grad, write_last, write_argument, write_base, write_detached]


def outcome(call: Callable, leaf: bool, later: Callable) -> list[Any]:
    source, a = given(leaf)
    results = list(call(a))
    seen: list[Any] = []
    hooked: list[Tensor] = []  # gradients of the base
    if results[0]._base is not None and results[0]._base is not a:
        attempt(lambda: results[0]._base.register_hook(lambda g: hooked.append(g.clone())) and None)
    seen += [looks(r, [a, *results]) for r in results]
    attempt(results[0].retain_grad)
    seen.append(attempt(lambda: later(a, results)))
    seen += [looks(r, [a, *results]) for r in results]

    def gradients(of: list[Tensor]) -> Any:
        total = sum((t * t).sum() for t in of)
        if later is write_argument:  # the backward needs the argument as it was to be differentiated itself
            return torch.autograd.grad(total, source, retain_graph=True, allow_unused=True)
        first = torch.autograd.grad(total, source, create_graph=True, allow_unused=True)
        return first, torch.autograd.grad(first[0].sum(), source, retain_graph=True, allow_unused=True)

    for part in (results, results[:1], results[-1:]):
        seen.append(attempt(lambda part=part: gradients(part)))
    seen.append(attempt(lambda: torch.autograd.grad(results[0].sum(), results[0]._base, retain_graph=True)))
    seen.append(attempt(lambda: sum(r.sum() for r in results).backward()))
    return [*seen, hooked, source.grad, attempt(lambda: results[0].grad)]


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("fn", OWN + OTHERS)
def test_as_in_eager_mode(fn: Callable, leaf: bool, later: Callable) -> None:
    expected = outcome(fn, leaf, later)
    compiled = saker.aot_function(fn)
    for _ in range(2):
        assert_same(outcome(compiled, leaf, later), expected)


@pytest.mark.parametrize("fn", OWN)
def test_belong_to_the_compiled_function(fn: Callable) -> None:
    assert all(NODE in str(result.grad_fn) for result in saker.aot_function(fn)(given(False)[1]))


@pytest.mark.parametrize("fn", OTHERS)
def test_are_made_again(fn: Callable) -> None:
    results = saker.aot_function(fn)(given(False)[1])
    names = [str(result.grad_fn) for result in fn(given(False)[1])]
    assert [str(r.grad_fn).split()[0] for r in results[:2]] == [name.split()[0] for name in names[:2]]
