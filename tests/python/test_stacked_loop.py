"""``while_loop_stack_output``: what each step of a loop gave, as a node, in every way to record."""

from __future__ import annotations

import pytest
import torch
import torch._higher_order_ops as ho

import saker
from torch_versions import control_flow_in_one_place

pytestmark = [
    control_flow_in_one_place,
    pytest.mark.skipif(not hasattr(ho, "while_loop_stack_output"), reason="this torch has no such operator"),
]

SCALES = (1.0, 0.1, 0.1, 100.0, 1.0, 0.01)  # one step, two, two, none, one, some


def reference(cond_fn, body_fn, carried, additional=()):
    values, columns = tuple(carried), [[] for _ in carried]
    while cond_fn(*values, *additional):
        values = tuple(body_fn(*values, *additional))
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    return tuple(torch.stack(column or [value]) for column, value in zip(columns, values, strict=True))


def several(o, x):
    limit = x.new_full((), 30.0)
    start = (torch.zeros((), dtype=torch.int64), x.abs() + 1)
    return o(lambda i, v: v.sum() < limit, lambda i, v: (i + 1, v * 2), start, ())


def additional(o, x):
    return o(lambda v, w: (v * w).sum() < 9, lambda v, w: (v + w.abs() + 1,), (x * 1,), (x.cos(),))


def swaps(o, x):
    return o(lambda a, b: (a + b).sum() < 40, lambda a, b: (b, a + b.abs() + 1), (x + 0, x * 2), ())


def carried_as_it_is(o, x):
    return o(lambda i, v: i < 3, lambda i, v: (i + 1, v), (torch.zeros((), dtype=torch.int64), x), ())


def used_on(o, x):
    i, v = several(o, x)
    rows = i[:, None, None] + v
    return (rows.sin() * 2 + v.sum(0)).cumsum(0), v[-1], v.mean(0), i.float()


def branch_inside(o, x):
    def step(v):
        return (torch.cond(v.sum() > 10, lambda u: u * 3, lambda u: u + 4, (v,)),)

    return o(lambda v: v.sum() < 50, step, (x.abs(),), ())


def plain_branch_inside(o, x):
    return o(lambda v: v.sum() < 50, lambda v: (v * 3 if v.sum() > 10 else v + 4,), (x.abs(),), ())


PROGRAMS = [several, additional, swaps, carried_as_it_is, used_on, branch_inside]
PLAIN = {branch_inside: plain_branch_inside}
ENTRIES = ["compile", "dynamic", "capture", "aot_function", "aot_function dynamic", "deferred", "to_fx"]


def entered(entry, function, x):
    if entry == "compile":
        return saker.compile(function)
    if entry == "dynamic":
        return saker.compile(function, dynamic=True)
    if entry.startswith("aot_function"):
        return saker.aot_function(function, **({"dynamic": True} if "dynamic" in entry else {}))
    if entry == "capture":
        return saker.capture(function, x)
    if entry == "to_fx":
        return saker.capture(function, x).to_fx()

    def deferred(x):
        with saker.deferred():
            return function(x)

    return deferred


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_results(program, entry):
    """Values, sizes and strides, whatever the number of steps."""
    x = torch.linspace(-1, 1.5, 9).view(3, 3)
    call = entered(entry, lambda x: program(ho.while_loop_stack_output, x), x)
    for scale in SCALES:
        given = x * scale
        found, expected = call(given), PLAIN.get(program, program)(reference, given)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert one.stride() == other.stride() and not one.requires_grad
            torch.testing.assert_close(one, other)


def test_replays():
    x = torch.ones(3, 3)
    saker.reset(counts=True)
    compiled = saker.compile(lambda x: several(ho.while_loop_stack_output, x), dynamic=True)
    for scale in SCALES:
        compiled(x * scale)
    assert saker.stats()["replays"] == len(SCALES) - 1 and not saker.stats()["stops"], saker.stats()
    saker.reset(counts=True)
    compiled = saker.compile(lambda x: several(ho.while_loop_stack_output, x))
    for _ in range(3):
        compiled(x)
    assert saker.stats()["replays"] == 2
    compiled(x * 0.1)
    assert list(saker.stats()["stops"]) == ["size-changed"]


def test_the_graph():
    graph = saker.capture(lambda x: several(ho.while_loop_stack_output, x), torch.ones(3, 3))
    text = str(graph)
    assert text.count("saker::while(") == 1 and text.count("saker::loop_rows(") == 1, text
    assert "symbol u0 in [1, inf]" in text and "i64[u0], %" in text and "f32[u0, 3, 3]" in text, text


def test_operands_with_gradients_raise_in_the_backward():
    """As in eager mode; where autograd is off there is a node."""
    program = saker.compile(lambda x: several(ho.while_loop_stack_output, x)[1])
    x = torch.ones(3, 3, requires_grad=True)
    for function in (lambda x: several(ho.while_loop_stack_output, x)[1], program, program):
        found = function(x)
        assert torch.equal(found, several(reference, x)[1])
        with pytest.raises(RuntimeError, match="Autograd not implemented for while_loop_stack_output"):
            found.sum().backward()
    with torch.no_grad():
        saker.reset(counts=True)
        for _ in range(3):
            assert torch.equal(program(x), several(reference, x)[1])
        assert saker.stats()["replays"] == 2, saker.stats()


def test_what_is_closed_over_has_no_gradient():
    weight = torch.full((3, 3), 2.0, requires_grad=True)

    def program(x):
        return ho.while_loop_stack_output(lambda v: v.sum() < 50, lambda v: (v * weight,), (x,), ())[0]

    compiled = saker.compile(program)
    for _ in range(3):
        found = compiled(torch.ones(3, 3))
        assert not found.requires_grad and torch.equal(found, program(torch.ones(3, 3)))


def test_transforms_raise_what_they_raise_in_eager_mode():
    def program(x):
        return ho.while_loop_stack_output(lambda v: v.sum() < 9, lambda v: (v + 1,), (x,), ())[0]

    raised = []
    for function in (program, saker.compile(program), saker.aot_function(program)):
        with pytest.raises(Exception) as error:
            torch.vmap(function)(torch.ones(2, 3))
        raised.append(error.type)
    assert len(set(raised)) == 1, raised


def test_branches_with_sizes_of_their_own():
    """Results of two branches that have as many rows as loops in them take steps."""

    def program(o, x, cond):
        def steps(v):
            return o(lambda u: u.sum() < 30, lambda u: (u * 2,), (v.abs() + 1,), ())[0]

        return cond(x.sum() > 0, steps, lambda v: steps(v * 3), (x,))

    def plain(x):
        return program(reference, x, lambda pred, left, right, given: (left if pred else right)(*given))

    compiled = saker.compile(lambda x: program(ho.while_loop_stack_output, x, torch.cond))
    for scale in (1.0, -1.0, 0.1, -0.1, 1.0):
        x = torch.ones(3, 3) * scale
        assert torch.equal(compiled(x), plain(x))
    with pytest.raises(saker.CaptureError, match="cannot be known before the program runs"):
        saker.capture(lambda x: program(ho.while_loop_stack_output, x, torch.cond), torch.ones(3, 3))
