"""Control flow under ``torch.vmap`` and ``torch.func``: against each of a batch by itself, in plain Python."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import saker
from control_flow import operators, reference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

WEIGHT = torch.randn(3, 3, generator=torch.Generator().manual_seed(5)) / 2
XS = torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(6))


torch.vmap(torch.sin)(XS)  # the first one loads PyTorch's decompositions, which is not recorded


def branch(o, x, w):
    return o.cond(w.sum() > 0, lambda v: v @ w, lambda v: v.sin() + w, (x,))


def branch_for_each(o, x, w):
    return o.cond(x.sum() > 0, lambda v: v @ w, lambda v: v.sin() + w, (x,))


def rows(o, x, w):
    return o.map(lambda row: (row @ w).sin() + x.sum(), x)


def running(o, x, w):
    carry, ys = o.scan(lambda c, row: ((c * 0.5 + row) @ w, c + x[0]), x[0] * 1, x)
    return carry + ys


def running_from_one(o, x, w):
    """What is carried first is the same for all of a batch."""
    return o.scan(lambda c, row: (c * 0.5 + row, c.sin()), w[0] * 1, x)[1]


def backwards(o, x, w):
    return o.scan(lambda c, row: ((c + row).sin(), c * row), w[0] * 1, x, reverse=True, dim=1)[1]


def often(o, x, w):
    return o.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, (v @ w).sin()), (torch.tensor(0), x))[1]


def often_for_each(o, x, w):
    return o.while_loop(lambda v: v.abs().sum() < 20, lambda v: (v * 1.5 + w.abs() * 0.1 + 0.01,), (x,))[0]


def rows_in_loop(o, x, w):
    def body(i, v):
        return i + 1, o.map(lambda row: row.cos() + x[0], v)

    return o.while_loop(lambda i, v: i < 2, body, (torch.tensor(0), x))[1]


def branch_in_scan(o, x, w):
    def combine(c, row):
        new = o.cond(w.sum() > 0, lambda v: v * row, lambda v: v + row, (c,))
        return new, new * 2

    return o.scan(combine, x[0] * 1, x)[1]


PROGRAMS = [
    *(branch, branch_for_each, rows, running, running_from_one, backwards),
    *(often, often_for_each, rows_in_loop, branch_in_scan),
]


def each(program, xs, w):
    return torch.stack([program(reference, x, w) for x in xs])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_vmap_is_compiled(program):
    saker.reset()
    compiled = saker.compile(torch.vmap(lambda x, w: program(operators, x, w), in_dims=(0, None)))
    for scale in (1.0, -1.0, 0.5):
        torch.testing.assert_close(compiled(XS * scale, WEIGHT), each(program, XS * scale, WEIGHT))
    assert saker.stats()["replays"] >= 2, saker.stats()["stops"]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_is_compiled_is_batched(program):
    compiled = saker.compile(lambda x, w: program(operators, x, w))
    for scale in (1.0, -1.0):
        found = torch.vmap(compiled, in_dims=(0, None))(XS * scale, WEIGHT)
        torch.testing.assert_close(found, each(program, XS * scale, WEIGHT))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_two_levels_and_other_dimensions(program):
    both = torch.stack([XS, XS * 0.5 + 0.1])
    expected = torch.stack([each(program, xs, WEIGHT) for xs in both])
    inner = torch.vmap(lambda x, w: program(operators, x, w), in_dims=(1, None))
    compiled = saker.compile(torch.vmap(inner, in_dims=(0, None)))
    for _ in range(2):
        torch.testing.assert_close(compiled(both.transpose(1, 2), WEIGHT), expected)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_gradients_through_vmap(program):
    compiled = saker.compile(torch.vmap(lambda x, w: program(operators, x, w), in_dims=(0, None)))
    for scale in (1.0, -1.0, 0.5):
        found, expected = [], []
        for function, gradients in ((compiled, found), (lambda x, w: each(program, x, w), expected)):
            x, w = (XS * scale).requires_grad_(), WEIGHT.clone().requires_grad_()
            gradients += torch.autograd.grad(function(x, w).sin().sum(), (x, w), allow_unused=True)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("transform", ["grad", "jacrev", "vmap of grad", "grad of grad"])
def test_transforms_of_gradients(transform, program):
    def total(o):
        return lambda x: program(o, x, WEIGHT).sin().sum()

    def transformed(o):
        if transform == "grad":
            return torch.func.grad(total(o))
        if transform == "jacrev":
            return torch.func.jacrev(lambda x: program(o, x, WEIGHT))
        if transform == "grad of grad":
            return torch.func.grad(lambda x: torch.func.grad(total(o))(x).sum())
        inner = torch.func.grad(total(o))
        return lambda x: (
            torch.stack([inner(x), inner(x * 2)]) if o is reference else torch.vmap(inner)(torch.stack([x, x * 2]))
        )

    compiled = saker.compile(transformed(operators))
    for x in XS[:2]:
        torch.testing.assert_close(compiled(x), transformed(reference)(x), rtol=1e-4, atol=1e-4)


def test_random_numbers_of_a_batch():
    def draw(x):
        return operators.map(lambda row: row + torch.rand(3), x)

    for randomness, alike in (("same", True), ("different", False)):
        compiled = saker.compile(torch.vmap(draw, randomness=randomness))
        for _ in range(2):
            found = compiled(torch.zeros(4, 2, 3))
            assert bool((found[0] == found[1]).all()) is alike


OPERATORS = {
    "cond": "torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))",
    "while_loop": "while_loop(lambda v: v.sum() < 9, lambda v: (v + 1,), (x,))[0]",
    "scan": "scan(lambda c, r: (c + r, c * r), x[0] * 1, x)[1]",
    "map": "map(lambda r: r.sin() * 2, x)",
    "associative_scan": "associative_scan(lambda a, b: a + b, x, 0, combine_mode='generic')",
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_pytorchs_compiler_is_not_loaded(operator):
    program = f"""
import sys, torch, saker
from torch._higher_order_ops.while_loop import while_loop
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.map import map
from torch._higher_order_ops.associative_scan import associative_scan

def f(x):
    return {OPERATORS[operator]}

x = torch.ones(3, 3)
expected = saker.compile(f)(x)
assert torch.equal(saker.capture(f, x)(x), expected)
assert torch.equal(saker.aot_function(f)(x), expected)
with saker.deferred():
    found = f(x) + 0
assert torch.equal(found, expected)
leaf = x.clone().requires_grad_()
saker.compile(f)(leaf).sum().backward()
other = x.clone().requires_grad_()
saker.aot_function(f)(other).sum().backward()
torch.testing.assert_close(leaf.grad, other.grad)
torch.vmap(saker.compile(f))(torch.ones(2, 3, 3))
assert "torch._dynamo" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_change_is_named():
    seen = {}

    def noting(x):
        seen["x"] = 1
        return x * 2

    with pytest.raises(saker.errors.BodyError, match=r"__setitem__ of a dict, 'x'"):
        saker.compile(lambda x: torch.cond(x.sum() > 0, noting, torch.sin, (x,)))(torch.ones(2))


class Rounding(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(v):
        return v.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


def test_a_function_inside_of_gradients_inside_of_control_flow():
    """PyTorch's own class for one level of a transform is none of the program's Functions."""

    def program(o, x):
        def derived(u):
            return o.grad(lambda v: (Rounding.apply(v) * v).sin().sum(), u).tanh()

        return o.while_loop(
            lambda i, v: i < 2,
            lambda i, v: (i + 1, o.cond(v.sum() > 0, derived, lambda u: u.cos(), (v,))),
            (torch.tensor(0), x * 1),
        )[1]

    for way in (saker.compile, saker.aot_function):
        compiled = way(lambda x: program(operators, x))
        for seed in range(4):
            torch.manual_seed(seed)
            x = torch.randn(3, 3, requires_grad=True)
            found, expected = compiled(x), program(reference, x)
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(*(torch.autograd.grad(y.sum(), x)[0] for y in (found, expected)))


def test_code_of_pytorchs_that_knows_no_symbols():
    """`cat` under two levels of vmap asks for sizes in numbers."""

    def f(x, w):
        def inner(u):
            return torch.vmap(lambda t: torch.cat([t[1:], u[:1]]))(torch.stack([u, w])).sum(0)

        return torch.vmap(inner)(torch.stack([x, x * 2])).sum(0)

    for way in (saker.compile, saker.aot_function):
        compiled = way(f, dynamic=True)
        for size in (3, 5, 4):
            x, w = torch.randn(size, size), torch.randn(size, size)
            torch.testing.assert_close(compiled(x, w), f(x, w))
    with pytest.raises(saker.CaptureError, match="asks for sizes in numbers") as caught:
        x = torch.randn(3, 3)
        saker.capture(f, x, x * 2, dynamic={0: {0: "n", 1: "n"}, 1: {0: "n", 1: "n"}})
    assert caught.value.file == __file__


def carries_two(o, x, w):
    last, rows = o.scan(lambda c, e: ((c[0] + 1, c[1] * 0.5 + e), c[1] * c[0]), (torch.tensor(0), x[0] * 1), x)
    return rows * last[0] + last[1] @ w


def carries_structures(o, x, w):
    def step(c, e):
        return {"a": c["a"] * e["p"] + e["q"][0], "b": (c["b"][0] + 1,)}, [c["a"].sin(), (e["p"] @ w,)]

    start = {"a": x[0] * 1, "b": (x[1] * 2,)}
    last, (left, (right,)) = o.scan(step, start, {"p": x, "q": [x.cos()]})
    return left * right + last["a"] + last["b"][0]


def goes_back_along_columns(o, x, w):
    last, rows = o.scan(lambda c, e: (c * e + w[0], c.sin()), x[:, 0] * 1, x, dim=1, reverse=True)
    return rows + last


SCANS = [carries_two, carries_structures, goes_back_along_columns]


@pytest.mark.parametrize("way", ["compile", "aot_function"])
@pytest.mark.parametrize("program", SCANS, ids=lambda program: program.__name__)
def test_scans_of_several_values_in_batches_of_batches(program, way):
    def twice(o):
        return torch.vmap(torch.vmap(lambda x: program(o, x, WEIGHT)))

    saker.reset(counts=True)
    compiled = getattr(saker, way)(twice(operators))
    for factor in (1.0, -0.5, 0.25):
        xs = torch.stack([XS, XS * 0.5]) * factor
        expected = torch.stack([torch.stack([program(reference, x, WEIGHT) for x in each]) for each in xs])
        torch.testing.assert_close(compiled(xs), expected)
    assert way != "compile" or saker.stats()["replays"] == 2


@pytest.mark.parametrize("batched", [False, True])
def test_branches_of_other_sizes_are_rejected_in_batches_too(batched):
    """Both branches run where the condition is batched: a choice would broadcast what they give."""

    def f(x):
        chosen = x.sum() if batched else WEIGHT.sum()
        return torch.cond(chosen > 0, lambda v: v @ WEIGHT, lambda v: v[:1].sin(), (x,))

    with pytest.raises(RuntimeError, match="same dtype, device and sizes") as caught:
        saker.compile(torch.vmap(f))(XS)
    assert isinstance(caught.value, saker.errors.BodyError) and "true_fn" in str(caught.value)


@pytest.mark.parametrize("way", ["compile", "aot_function"])
def test_second_derivatives_of_gradients_beside_a_function(way):
    def f(x, w):
        return torch.func.grad(lambda u: (u.detach() * 0.3 + (u * w).sin()).sin().sum())(Rounding.apply(x) * w).tanh()

    def derivatives(function, x, w):
        x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
        y = function(x, w)
        first = torch.autograd.grad(y.sin().sum(), [x, w], create_graph=True)
        return [y, *first, *torch.autograd.grad(sum(each.square().sum() for each in first), [x, w])]

    compiled = getattr(saker, way)(f)
    for seed in range(4):
        torch.manual_seed(seed)
        x, w = torch.randn(3, 3, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)
        for one, other in zip(derivatives(compiled, x, w), derivatives(f, x, w), strict=True):
            torch.testing.assert_close(one, other)
