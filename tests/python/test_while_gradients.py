"""Gradients of while loops: an operator goes back through the steps that the loop has kept, or runs it again."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
import torch

import saker
from control_flow import operators, reference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

WEIGHT = torch.randn(3, 3, generator=torch.Generator().manual_seed(7)) / 3


def newton(o, x, w):
    x = x.abs() + 0.1

    def goes_on(value, step):
        return (step.abs() > 1e-4).any()

    def better(value, step):
        new = value - (value * value - x) / (2 * value)
        return new, new - value

    return o.while_loop(goes_on, better, (x + 1, torch.ones_like(x)))[0]


def times(o, x, w):
    """As often as a tensor says; the counter has no gradient."""
    count = x.detach().sum().abs().long() % 4
    return o.while_loop(lambda i, v: i < count, lambda i, v: (i + 1, (v @ w).sin()), (torch.tensor(0), x))[1]


def never(o, x, w):
    return o.while_loop(lambda v: v.sum() > 1e6, lambda v: (v @ w,), (x,))[0] * 2


def passes_on(o, x, w):
    """What a step is given comes out of it, swapped."""
    _, a, b = o.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b, a * w), (torch.tensor(0), x, w))
    return a + 2 * b


def loop_in_loop(o, x, w):
    def body(i, v):
        _, u = o.while_loop(lambda j, u: j < i, lambda j, u: (j + 1, u.sin() + w), (torch.tensor(0), v))
        return i + 1, u * w

    return o.while_loop(lambda i, v: i < 3, body, (torch.tensor(0), x))[1]


def branch_in_loop(o, x, w):
    def body(i, v):
        return i + 1, o.cond(v.sum() > 0, lambda u: u * w - 1, lambda u: u.cos() + w, (v,))

    return o.while_loop(lambda i, v: i < 4, body, (torch.tensor(0), x))[1]


def loop_in_branch(o, x, w):
    def loop(v):
        return o.while_loop(lambda i, u: i < 3, lambda i, u: (i + 1, u.sin() * w), (torch.tensor(0), v))[1]

    return o.cond(x.sum() > 0, loop, lambda v: v * w, (x,))


def loop_in_scan(o, x, w):
    def combine(carry, row):
        new = o.while_loop(lambda v: v.sum() < 5, lambda v: (v * 1.5 + w[0].abs() + 0.1,), (carry.abs() + row.abs(),))
        return new[0], new[0] * row

    return o.scan(combine, x[0] * 1, x)[1]


def scan_in_loop(o, x, w):
    def body(i, v):
        return i + 1, o.scan(lambda c, r: (c * 0.5 + r, c @ w), v[0] * 1, v)[1]

    return o.while_loop(lambda i, v: i < 2, body, (torch.tensor(0), x))[1]


def detaches(o, x, w):
    """A value that steps compute is read with its history and without."""

    def body(i, v):
        made = (v * w).tanh()
        return i + 1, made.detach() * 0.3 + made.sin()

    return o.while_loop(lambda i, v: i < 3, body, (torch.tensor(0), x))[1]


PROGRAMS = [
    newton,
    times,
    never,
    passes_on,
    detaches,
    loop_in_loop,
    branch_in_loop,
    loop_in_branch,
    loop_in_scan,
    scan_in_loop,
]
SECOND = [program for program in PROGRAMS if program is not newton]  # its condition compares what has just converged


def inputs():
    generator = torch.Generator().manual_seed(3)
    return [
        torch.randn(3, 3, generator=generator) * scale + shift for scale, shift in ((1, 1), (1, -1), (2, 0), (1, 3))
    ]


def gradients(function, x, w, second=False):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    y = function(x, w)
    first = torch.autograd.grad(y.sin().sum(), (x, w), create_graph=second, allow_unused=True)
    found = [y.detach(), *first]
    if second:
        total = sum((gradient**2).sum() for gradient in first if gradient is not None)
        found += torch.autograd.grad(total, (x, w), allow_unused=True)
    return [None if each is None else each.detach() for each in found]


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        one = torch.zeros(()) if one is None else one
        other = torch.zeros(()) if other is None else other
        torch.testing.assert_close(one, other.expand_as(one), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("compiler", ["compile", "aot_function"])
def test_gradients(compiler, program):
    saker.reset()
    compiled = getattr(saker, compiler)(lambda x, w: program(operators, x, w))
    for x in inputs():
        assert_same(gradients(compiled, x, WEIGHT), gradients(lambda x, w: program(reference, x, w), x, WEIGHT))
    if compiler == "compile":
        assert saker.stats()["replays"] >= 3, saker.stats()


@pytest.mark.parametrize("program", SECOND, ids=lambda p: p.__name__)
@pytest.mark.parametrize("compiler", ["compile", "aot_function"])
def test_second_derivatives(compiler, program):
    compiled = getattr(saker, compiler)(lambda x, w: program(operators, x, w))
    for x in inputs():
        expected = gradients(lambda x, w: program(reference, x, w), x, WEIGHT, second=True)
        assert_same(gradients(compiled, x, WEIGHT, second=True), expected)


def test_the_graph_has_one_node_each_way():
    def step(x, w):
        return torch.autograd.grad(times(operators, x, w).sum(), (x, w))

    x, w = inputs()[0].requires_grad_(), WEIGHT.clone().requires_grad_()
    text = str(saker.capture(step, x, w))
    assert text.count("saker::while(") == 1 and text.count("saker::while_backward(") == 1, text


def test_steps_that_were_copied_are_computed_again():
    compiled = saker.compile(lambda x, w: times(operators, x, w))
    for x in inputs():
        expected = gradients(lambda x, w: times(reference, x, w), x, WEIGHT)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            assert_same(gradients(compiled, x, WEIGHT), expected)


def test_two_backwards():
    compiled = saker.compile(lambda x, w: times(operators, x, w))
    for x in inputs():
        x = x.requires_grad_()
        found = compiled(x, WEIGHT).sum()
        first = torch.autograd.grad(found, x, retain_graph=True)
        assert torch.equal(first[0], torch.autograd.grad(found, x)[0])


def test_what_the_loop_was_given_changes_before_the_backward():
    compiled = saker.compile(lambda x, w: times(operators, x, w))
    for x in inputs():
        leaf = x.clone().requires_grad_()
        given = leaf * 1
        found = compiled(given, WEIGHT)
        with torch.no_grad():
            given.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(found.sum(), leaf)


def test_a_loop_without_end_can_be_interrupted():
    program = """
import signal, torch, saker
from torch._higher_order_ops.while_loop import while_loop
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
compiled = saker.compile(lambda x: while_loop(lambda v: v.sum() < 1, lambda v: (v * 1,), (x,))[0])
print(compiled(torch.ones(3)), flush=True)
try:
    compiled(torch.zeros(3))
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(compiled(torch.ones(3)))
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        lines = [process.stdout.readline()]
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert rest.splitlines() == ["interrupted", lines[0].rstrip()]
