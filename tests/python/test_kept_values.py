"""What bodies of a backward read of the forward's: kept by branches and while loops, written between, copied by hooks,
wanted in part, differentiated again; and bodies that are equal, which are kept once."""

from __future__ import annotations

import pytest
import torch

import saker
from control_flow import operators, reference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

W = torch.tensor([0.5, -1.5, 2.0], requires_grad=True)


def branch(o, x):
    """One branch has more to keep than the other one, of other types."""
    return o.cond(x.sum() > 0, lambda v: (v * W).tanh(), lambda v: (v.sin() * v.exp()).sum(0) * v * W, (x,))


def branch_of_two(o, x):
    left, right = o.cond(x.sum() > 0, lambda v: (v.exp() * W, v.sigmoid()), lambda v: (v.tanh(), (v * W).cos()), (x,))
    return left * right


def nested(o, x):
    def inner(v):
        return o.cond(v.amax() > 1, lambda u: (u * W).sigmoid(), lambda u: u.exp() * W, (v,))

    return o.cond(x.sum() > 0, lambda v: inner(v * 2).tanh(), lambda v: v * W, (x,))


def loop(o, x):
    def step(v, n):
        return (v * W).tanh() * 1.5, n + 1

    return o.while_loop(lambda v, n: n < 4, step, (x, torch.tensor(0)))[0]


def loop_whose_result_is_kept(o, x):
    return o.while_loop(lambda v, n: n < 3, lambda v, n: ((v * W).tanh(), n + 1), (x, torch.tensor(0)))[0]


def unused_carry(o, x):
    """What the second value is computed from is differentiated by nobody."""

    def step(v, change):
        new = (v + x.abs() / v) / 2
        return new, (new - v).abs().max() * W.sum()

    return o.while_loop(lambda v, change: change.abs() > 1e-3, step, (x.abs() + 1, torch.tensor(1.0)))[0]


PROGRAMS = [branch, branch_of_two, nested, loop, loop_whose_result_is_kept, unused_carry]
INPUTS = [
    torch.tensor([[0.5, 1.0, 0.25], [1.5, 0.3, 0.2]]),
    torch.tensor([[-0.5, -1.0, 0.25], [-1.5, 0.3, -0.2]]),
    torch.tensor([[0.1, 0.7, 0.9], [0.3, -0.3, 0.2]]),
]
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)


def pairs(program):
    """Both ways to run it, on each input twice: recorded, and replayed."""
    compiled = saker.compile(lambda x: program(operators, x))
    for values in [*INPUTS, *INPUTS]:
        yield lambda x: program(reference, x), compiled, values


def close(found, expected):
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    elif expected is None:
        assert found is None
    else:
        for one, other in zip(found, expected, strict=True):
            close(one, other)


@each_program
@pytest.mark.parametrize("wanted", ["both", "x", "w"])
def test_gradients_that_are_wanted(program, wanted):
    for eager, compiled, values in pairs(program):
        found = []
        for function in (eager, compiled):
            x = values.clone().requires_grad_()
            inputs = {"both": (x, W), "x": (x,), "w": (W,)}[wanted]
            found.append(torch.autograd.grad(function(x).cos().sum(), inputs, allow_unused=True))
        close(found[1], found[0])


@each_program
def test_first_plainly_and_then_to_be_differentiated(program):
    if program in (loop, loop_whose_result_is_kept, unused_carry):
        pytest.skip("gradients of a while loop are differentiated operator by operator: test_while_gradients.py")
    for eager, compiled, values in pairs(program):
        found = []
        for function in (eager, compiled):
            x = values.clone().requires_grad_()
            result = function(x).sin().sum()
            first = torch.autograd.grad(result, (x, W), retain_graph=True)
            second = torch.autograd.grad(result, (x, W), create_graph=True)
            third = torch.autograd.grad(second[0].square().sum() + second[1].sum(), (x, W))
            found.append((first, second, third))
        close(found[1], found[0])


@each_program
def test_a_result_that_is_written_before_the_backward(program):
    for eager, compiled, values in pairs(program):
        x = values.clone().requires_grad_()
        expected = torch.autograd.grad(eager(x).sum(), (x, W), allow_unused=True)
        result = compiled(x)
        total = result.sum()
        with torch.no_grad():
            result.zero_()
        try:
            found = torch.autograd.grad(total, (x, W), allow_unused=True)
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
        else:
            close(found, expected)


@each_program
def test_what_is_saved_is_copied_by_hooks(program):
    for eager, compiled, values in pairs(program):
        found = []
        for function in (eager, compiled):
            x = values.clone().requires_grad_()
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t * 1):
                total = function(x).sum()
            found.append(torch.autograd.grad(total, (x, W), allow_unused=True))
        close(found[1], found[0])


def test_equal_bodies_are_derived_once(tmp_path):
    """Layers differ in their weights, which are operands: their branches have one derivative."""
    counts = {}
    for layers in (2, 6):
        folder = tmp_path / str(layers)
        folder.mkdir()
        weights = [torch.randn(3, 3, requires_grad=True) for _ in range(layers)]

        def f(x, weights=weights):
            for w in weights:
                x = torch.cond(x.sum() > 0, lambda v, w=w: (v @ w).tanh(), lambda v, w=w: (v @ w).tanh() * 2, (x,))
            return x

        saker.set_stages(f"dump={folder}")
        try:
            saker.compile(f)(torch.ones(2, 3)).sum().backward()
        finally:
            saker.set_stages("")
        texts = [path.read_text() for path in folder.iterdir() if "body" in path.name]
        counts[layers] = sum("tanh_backward" in text for text in texts)
    assert counts[2] == counts[6] > 0
