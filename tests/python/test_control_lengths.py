"""Control flow that goes no step, is told its length, or writes to tensors that are not its own: as plain Python."""

from __future__ import annotations

import sys

import pytest
import torch
from torch.utils import _pytree as pytree

import saker
from control_flow import operators as o
from control_flow import reference
from higher_order_cells import entered
from torch_versions import control_flow_in_one_place, scans_take_lengths

pytestmark = control_flow_in_one_place

ENTRIES = ("compile", "capture", "aot_function", "deferred")
X = torch.linspace(0.1, 1.3, 9).view(3, 3)
OUTSIDE = torch.zeros(3)


def step(carry, row):
    return carry + row, (carry * row, row.sum())


def compare(entry, program, expected, *, outside=None) -> None:
    """``expected``: the same in plain Python. Values, what is written, and that PyTorch's compiler stays out."""
    with torch.no_grad():
        x, OUTSIDE[:] = X.clone(), 0
        wanted = pytree.tree_leaves(expected(x))
        after, written = x, OUTSIDE.clone()
        compiled = entered(entry, program, X)
        for _ in range(2):
            x, OUTSIDE[:] = X.clone(), 0
            found = pytree.tree_leaves(compiled(x))
            assert len(found) == len(wanted)
            for one, other in zip(found, wanted, strict=True):
                torch.testing.assert_close(one, other)
            torch.testing.assert_close(x, after)
            torch.testing.assert_close(OUTSIDE, written)


@pytest.mark.parametrize("entry", ENTRIES)
@scans_take_lengths
def test_a_scan_of_no_steps(entry: str) -> None:
    compare(
        entry,
        lambda x: o.scan(step, x[0] * 1, x[:0]),
        lambda x: (x[0], (torch.empty(0, 3), torch.empty(0))),
    )


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("length", [0, 1, 4])
@scans_take_lengths
def test_a_scan_along_nothing(entry: str, length: int) -> None:
    loaded = "torch._dynamo" in sys.modules
    compare(
        entry,
        lambda x: o.scan(lambda c, none: (c + 1, c * 2), x[0] * 1, None, length=length),
        lambda x: (
            x[0] + length,
            torch.stack([(x[0] + i) * 2 for i in range(length)]) if length else torch.empty(0, 3),
        ),
    )
    assert loaded or "torch._dynamo" not in sys.modules


@pytest.mark.parametrize("entry", ENTRIES)
@scans_take_lengths
def test_a_scan_that_is_told_its_length(entry: str) -> None:
    compare(entry, lambda x: o.scan(step, x[0] * 1, x, length=3), lambda x: reference.scan(step, x[0] * 1, x))


@scans_take_lengths
def test_gradients_of_a_scan_of_no_steps() -> None:
    def program(x):
        carry, rows = o.scan(step, x[0] * 2, x[1:1])
        return carry.sum() + sum(row.sum() for row in rows)

    compiled = saker.compile(program)
    for _ in range(3):
        x = X.clone().requires_grad_()
        compiled(x).backward()
        expected = torch.zeros(3, 3)
        expected[0] = 2
        torch.testing.assert_close(x.grad, expected)


@scans_take_lengths
def test_a_scan_whose_length_becomes_zero() -> None:
    """One recording with a symbol for the length, or another one: the result is that of no steps."""

    def program(x):
        return o.scan(lambda c, r: (c + r, c * r), torch.zeros(3), x)

    compiled = saker.compile(program, dynamic=True)
    with torch.no_grad():
        for length in (3, 2, 1, 0, 3, 0):
            carry, rows = compiled(X[:length])
            torch.testing.assert_close(carry, X[:length].sum(0) if length else torch.zeros(3))
            assert rows.shape == (length, 3)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("mode", ["generic", "pointwise"])
@pytest.mark.parametrize("length", [0, 1, 3])
@scans_take_lengths
def test_associative_scans(entry: str, mode: str, length: int) -> None:
    from torch._higher_order_ops import associative_scan

    compare(
        entry, lambda x: associative_scan(torch.add, x[:length], 0, combine_mode=mode), lambda x: x[:length].cumsum(0)
    )


# --- functions that write ---


@pytest.mark.parametrize("entry", ["compile", "deferred"])
def test_a_branch_that_writes(entry: str) -> None:
    def program(x, cond):
        y = cond(x.sum() > 0, lambda v: v.add_(1) * 2, lambda v: v * 3, (x,))
        return cond(y.sum() > 0, lambda v: v + OUTSIDE.add_(1), lambda v: v - 1, (y,))

    compare(entry, lambda x: program(x, torch.cond), lambda x: program(x, reference.cond))


@pytest.mark.parametrize("entry", ["compile", "deferred"])
def test_a_loop_that_writes(entry: str) -> None:
    def program(x, while_loop):
        return while_loop(lambda v: v.sum() < 30, lambda v: (v.add_(1) + OUTSIDE.add_(1),), (x,))

    compare(entry, lambda x: program(x, o.while_loop), lambda x: program(x, reference.while_loop))


@pytest.mark.parametrize("entry", ENTRIES)
@scans_take_lengths
def test_a_map_that_writes(entry: str) -> None:
    def program(x, map_):
        return map_(lambda row: row.add_(1) * 2, x) + x

    compare(entry, lambda x: program(x, o.map), lambda x: program(x, reference.map))


@pytest.mark.parametrize("entry", ENTRIES)
@scans_take_lengths
def test_a_scan_that_writes(entry: str) -> None:
    def program(x, scan):
        return scan(lambda c, r: (c + r, OUTSIDE.add_(r) * 1), x[0] * 1, x)

    compare(entry, lambda x: program(x, o.scan), lambda x: program(x, reference.scan))


def test_a_branch_that_writes_is_eager() -> None:
    """What it writes is written in each call, and in the branch that is taken."""
    compiled = saker.compile(lambda x: torch.cond(x.sum() > 0, lambda v: v.add_(1) * 1, lambda v: v.sub_(1) * 2, (x,)))
    with torch.no_grad():
        for sign in (1, -1, 1, -1):
            x = X * sign
            expected = x + 1 if sign > 0 else (x - 1) * 2
            torch.testing.assert_close(compiled(x), expected)
            torch.testing.assert_close(x, X * sign + sign)
