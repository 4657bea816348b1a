"""Second gradients of while loops inside of what is recorded: loops again, of as many steps as the loop has taken."""

from __future__ import annotations

import pytest
import torch

import saker
from control_flow import operators, reference
from test_while_gradients import SECOND, WEIGHT, assert_same, inputs, never, times
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place


def second(program, o, third=False):
    def found(x, w):
        y = program(o, x, w)
        first = torch.autograd.grad(y.sin().sum(), (x, w), create_graph=True, allow_unused=True)
        total = sum((gradient**2).sum() for gradient in first if gradient is not None)
        again = torch.autograd.grad(total, (x, w), create_graph=third, allow_unused=True)
        if third:
            total = sum(gradient.sin().sum() for gradient in again if gradient is not None)
            again = torch.autograd.grad(total, (x, w), allow_unused=True)
        return [torch.zeros(()) if each is None else each for each in (y, *again)]

    return found


def leaves(x):
    return x.clone().requires_grad_(), WEIGHT.clone().requires_grad_()


@pytest.mark.parametrize("program", SECOND, ids=lambda p: p.__name__)
def test_captured(program):
    """One graph, whatever the number of steps."""
    graph = saker.capture(second(program, operators), *leaves(inputs()[0]))
    for x in inputs():
        assert_same(graph(*leaves(x)), second(program, reference)(*leaves(x)))
    assert "saker::scan" in str(graph)


@pytest.mark.parametrize("compiler", ["compile", "aot_function"])
@pytest.mark.parametrize("program", SECOND, ids=lambda p: p.__name__)
def test_in_one_program(program, compiler):
    compiled = getattr(saker, compiler)(second(program, operators))
    for x in (*inputs(), inputs()[0], inputs()[0]):
        assert_same(compiled(*leaves(x)), second(program, reference)(*leaves(x)))


def powers(o, x, w):
    """Three steps, or as many as a number of Python's says."""
    return o.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, (v @ w).tanh()), (x.new_zeros((), dtype=int), x * 1))[
        1
    ]


def test_loops_of_one_length_are_replayed():
    saker.reset(counts=True)
    compiled = saker.compile(second(powers, operators))
    for x in inputs():
        assert_same(compiled(*leaves(x)), second(powers, reference)(*leaves(x)))
    assert saker.stats()["replays"] == 3 and not saker.stats()["stops"], saker.stats()


def test_third_gradients():
    graph = saker.capture(second(powers, operators, third=True), *leaves(inputs()[0]))
    compiled = saker.compile(second(powers, operators, third=True))
    for x in inputs():
        expected = second(powers, reference, third=True)(*leaves(x))
        assert_same(graph(*leaves(x)), expected)
        assert_same(compiled(*leaves(x)), expected)


@pytest.mark.parametrize("program", [times, powers], ids=lambda p: p.__name__)
def test_as_a_module_of_torch_fx(program):
    """The number of steps is one more value that the loop carries there."""
    graph = saker.capture(second(program, operators), *leaves(inputs()[0]))
    module = graph.to_fx()
    for x in inputs():
        assert_same(module(*leaves(x)), second(program, reference)(*leaves(x)))


def test_a_history_that_was_copied_tells_how_many_steps_there_were():
    compiled = saker.compile(second(times, operators))
    for x in (*inputs(), *inputs()):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            assert_same(compiled(*leaves(x)), second(times, reference)(*leaves(x)))


@pytest.mark.parametrize("program", [p for p in SECOND if p is not never], ids=lambda p: p.__name__)
def test_batched_gradients(program):
    """``is_grads_batched`` around a gradient that is differentiated."""

    def found(o, x, w):
        (first,) = torch.autograd.grad(program(o, x, w).sin().sum(), x, create_graph=True)
        if not first.requires_grad:
            return first
        rows = torch.stack([torch.ones_like(first), first.detach()])
        return torch.autograd.grad(first, x, rows, is_grads_batched=True)[0]

    compiled = saker.compile(lambda x, w: found(operators, x, w))
    for x in inputs():
        assert_same([compiled(*leaves(x))], [found(reference, *leaves(x))])
