"""``associative_scan`` over lengths that are symbols: one graph for all of them, with PyTorch's pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan, generic_associative_scan
from torch.utils import _pytree as pytree

import saker
from torch_versions import SCANS_TAKE_LENGTHS, control_flow_in_one_place

pytestmark = control_flow_in_one_place

Tensor = torch.Tensor
WEIGHT = torch.linspace(0.5, 1.5, 4)


def eagerly(function: Callable, xs: Any, dim: int, reverse: bool = False) -> Any:
    """PyTorch's own pairs, operator by operator."""
    leaves, spec = pytree.tree_flatten(xs)
    leaves = [leaf.movedim(dim, 0).flip(0) if reverse else leaf.movedim(dim, 0) for leaf in leaves]

    def flat(*given: Tensor) -> list[Tensor]:
        trees = [pytree.tree_unflatten(half, spec) for half in (given[: len(leaves)], given[len(leaves) :])]
        return pytree.tree_leaves(torch.vmap(function)(*trees))

    made = generic_associative_scan(flat, leaves)
    made = [(leaf.flip(0) if reverse else leaf).movedim(0, dim) for leaf in made]
    return pytree.tree_unflatten(made, spec)


def ours(function: Callable, xs: Any, dim: int, reverse: bool = False) -> Any:
    return associative_scan(function, xs, dim, reverse=reverse, combine_mode="generic")


def linear(a: Any, b: Any) -> Any:
    return {"gate": a["gate"] * b["gate"], "value": a["value"] * b["gate"] + b["value"]}


PROGRAMS: dict[str, Callable] = {
    "not quite associative": lambda scan, x: scan(lambda a, b: a * b + a, x, 0),
    "sums": lambda scan, x: scan(torch.add, x, 0),
    "in reverse": lambda scan, x: scan(lambda a, b: a * 0.5 + b.sin(), x, 0, True),
    "another dimension": lambda scan, x: scan(lambda a, b: a * 0.5 + b, x.t(), 1).t(),
    "one number for each": lambda scan, x: scan(lambda a, b: a * 0.5 + b, x[:, 0], 0)[:, None],
    "a recurrence": lambda scan, x: scan(linear, {"gate": x.sigmoid(), "value": x}, 0)["value"],
    "matrices": lambda scan, x: scan(lambda a, b: a @ b, (x[:, :, None] * x[:, None] * 0.3), 0).sum(2),
    "what is closed over": lambda scan, x: scan(lambda a, b: a * WEIGHT + b * x.mean(), x, 0),
    "division": lambda scan, x: scan(lambda a, b: a / (b + 0.01), x, 0),
    "in a batch": lambda scan, x: torch.vmap(lambda v: scan(lambda a, b: a * 0.5 + b, v, 0), 1, 1)(x),
}
# PyTorch's own form has no pairs without elements in these two; the same numbers, in another shape.
REFERENCES = {
    "one number for each": lambda scan, x: scan(lambda a, b: a * 0.5 + b, x[:, :1], 0),
    "in a batch": lambda scan, x: scan(lambda a, b: a * 0.5 + b, x, 0),
}
torch.vmap(torch.sin)(torch.ones(2))  # loads decompositions, which is not recorded
LENGTHS = (5, 2, 3, 4, 6, 7, 8, 9, 16, 17, 31, 33)


def entered(entry: str, program: Callable, grad: bool) -> Callable:
    if entry != "capture":
        return getattr(saker, entry)(program, dynamic=True)
    return saker.capture(program, torch.zeros(5, 4), dynamic={0: {0: "length"}})


@pytest.mark.parametrize("entry", ["compile", "capture", "aot_function"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_for_all_lengths(name: str, entry: str) -> None:
    program = PROGRAMS[name]
    saker.reset(counts=True)
    run = entered(entry, lambda x: program(ours, x), grad=False)
    for length in LENGTHS:
        x = torch.randn(length, 4, generator=torch.Generator().manual_seed(length)).abs() * 0.5 + 0.2
        assert torch.equal(run(x), REFERENCES.get(name, program)(eagerly, x)), length
    if entry == "compile":
        assert saker.stats()["recompiles"] == 0
        assert saker.stats()["replays"] == len(LENGTHS) - 1


@pytest.mark.parametrize("entry", ["compile", "aot_function"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name: str, entry: str) -> None:
    program = PROGRAMS[name]
    run = entered(entry, lambda x: program(ours, x), grad=True)
    saker.reset(counts=True)
    for length in LENGTHS:
        found = []
        for call in (run, lambda x: REFERENCES.get(name, program)(eagerly, x)):
            x = torch.randn(length, 4, generator=torch.Generator().manual_seed(length)).abs() * 0.5 + 0.2
            x.requires_grad_()
            result = call(x)
            found.append([result.detach(), *torch.autograd.grad(result.sin().sum(), x)])
        # What a row gives to several others is added up in another order.
        torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-4)
    assert saker.stats()["recompiles"] == 0


def test_a_function_that_gives_another_dtype() -> None:
    """No loop can carry it: it is recorded for each length."""
    program = lambda x: associative_scan(lambda a, b: (a + b).double(), x, 0, combine_mode="generic")  # noqa: E731
    run = saker.compile(program, dynamic=True)
    for length in (4, 5, 4, 8):
        x = torch.ones(length, 2)
        made = run(x)
        assert made.dtype is torch.float64
        torch.testing.assert_close(made, x.double().cumsum(0))


@pytest.mark.parametrize("length", [0, 1])
def test_short_ones(length: int) -> None:
    run = saker.compile(lambda x: PROGRAMS["sums"](ours, x), dynamic=True)
    run(torch.ones(4, 4))
    if length or SCANS_TAKE_LENGTHS:
        assert torch.equal(run(torch.ones(length, 4)), torch.ones(length, 4))
    else:
        with pytest.raises((RuntimeError, ValueError)):
            run(torch.ones(0, 4))


BESIDE: dict[str, Callable] = {
    "rows of another dimension": lambda scan, x: scan(lambda a, b: a * b + a, x, 1),
    "in reverse": lambda scan, x: scan(lambda a, b: a * 0.5 + b.sin(), x, 1, True),
    "a recurrence": lambda scan, x: scan(linear, {"gate": x.sigmoid(), "value": x}, 1)["value"],
    "one row": lambda scan, x: scan(torch.add, x[:, :1], 1),
    "two rows": lambda scan, x: scan(torch.add, x[:, 1:3], 1),
    "five rows": lambda scan, x: scan(lambda a, b: a / (b + 2), torch.cat([x, x[:, :1]], 1), 1),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("entry", ["compile", "capture"])
@pytest.mark.parametrize("name", BESIDE)
def test_one_graph_for_all_sizes_beside_the_length(name: str, entry: str, grad: bool) -> None:
    program = BESIDE[name]
    saker.reset(counts=True)
    if entry == "capture":
        example = torch.zeros(5, 4, requires_grad=grad)
        run = saker.capture(lambda x: program(ours, x), example, dynamic={0: {0: "rows"}})
    else:  # the second size makes a symbol of it
        run = saker.compile(lambda x: program(ours, x))
    for size in (5, 3, 7, 4, 9):
        found = []
        for call in (run, lambda x: program(eagerly, x)):
            x = torch.linspace(0.1, 1.4, size * 4).view(size, 4).requires_grad_(grad)
            y = call(x)
            found.append([y.detach(), *(torch.autograd.grad(y.sum(), x) if grad else ())])
        torch.testing.assert_close(found[0], found[1])
    if entry == "compile":
        assert saker.stats()["replays"] == 3
        assert saker.stats()["recompiles"] == 1
