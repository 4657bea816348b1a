"""Programs with control flow that were found by attacking it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

import saker
from control_flow import operators, reference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

X = torch.rand(3, 3, generator=torch.Generator().manual_seed(0))


def branch(o, x, number):
    return o.cond(x.sum() > 0, lambda v: v * number, lambda v: v + number, (x,))


def rows(o, x, number):
    return o.scan(lambda c, r: (c + r * number, c * number), x[0] * 1, x)[1]


def loop(o, x, number):
    return o.while_loop(lambda v: v.sum() < 20, lambda v: (v + number,), (x,))[0]


@pytest.mark.parametrize("program", [branch, rows, loop], ids=lambda p: p.__name__)
def test_floats_that_change(program):
    compiled = saker.compile(lambda x, number: program(operators, x, number))
    for number in (0.5, 1.5, 2.5, 0.5):
        torch.testing.assert_close(compiled(X, number), program(reference, X, number))


@pytest.mark.parametrize("program", [branch, rows, loop], ids=lambda p: p.__name__)
def test_forward_mode(program):
    compiled = saker.compile(lambda x: program(operators, x, 0.5))
    for _ in range(3):
        with forward_ad.dual_level():
            x = forward_ad.make_dual(X, X.sin())
            found, expected = forward_ad.unpack_dual(compiled(x)), forward_ad.unpack_dual(program(reference, x, 0.5))
            torch.testing.assert_close(found.primal, expected.primal)
            torch.testing.assert_close(found.tangent, expected.tangent)


def written(v):
    return torch.empty(3).copy_(v)


def assigned(v):
    z = torch.zeros(3)
    z[0] = v[0]
    return z * v


def overwritten(v):
    z = v * 1
    z[0] = 1.0
    return z


def hidden(v):
    with torch.no_grad():
        a = F.linear(v, X)
    return a * v


@pytest.mark.parametrize("body", [written, assigned, overwritten, hidden], ids=lambda p: p.__name__)
@pytest.mark.parametrize("compiler", [saker.compile, saker.aot_function])
def test_writes_inside_of_bodies(compiler, body):
    compiled = compiler(lambda x: operators.map(body, x))
    for _ in range(3):
        found, expected = X.clone().requires_grad_(), X.clone().requires_grad_()
        compiled(found).sin().sum().backward()
        reference.map(body, expected).sin().sum().backward()
        torch.testing.assert_close(found.grad, expected.grad)


def test_random_numbers_in_a_nest():
    def program(o, x):
        def combine(c, r):
            return o.cond(r.sum() > 0, lambda v: v + torch.rand(3), lambda v: v * 2, (c,)), c * r

        return o.scan(combine, x[0] * 1, x)[1]

    compiled = saker.compile(lambda x: program(operators, x))
    for _ in range(3):
        gradients = []
        for function in (compiled, lambda x: program(reference, x)):
            x = X.clone().requires_grad_()
            torch.manual_seed(0)
            gradients.append(torch.autograd.grad(function(x).sum(), x)[0])
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("program", [branch, rows, loop], ids=lambda p: p.__name__)
def test_checkpoints_around(program):
    compiled = saker.compile(
        lambda x: checkpoint(lambda v: program(operators, v.sin(), 0.5).cos(), x, use_reentrant=False)
    )
    for _ in range(3):
        found, expected = X.clone().requires_grad_(), X.clone().requires_grad_()
        compiled(found).sum().backward()
        program(reference, expected.sin(), 0.5).cos().sum().backward()
        torch.testing.assert_close(found.grad, expected.grad)


@pytest.mark.parametrize("program", [branch, rows, loop], ids=lambda p: p.__name__)
def test_hooks_that_read_what_is_saved(program):
    compiled = saker.compile(lambda x: program(operators, x.sin(), 0.5).cos())
    for _ in range(3):
        found, expected = X.clone().requires_grad_(), X.clone().requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), torch.from_numpy):
            compiled(found).sum().backward()
        program(reference, expected.sin(), 0.5).cos().sum().backward()
        torch.testing.assert_close(found.grad, expected.grad)


def test_a_batched_choice_with_nothing_in_it():
    def program(x):
        return torch.cond(x.sum() > 0, lambda v: (v * 2, None), lambda v: (v.sin(), None), (x,))[0]

    expected = torch.stack([row * 2 if row.sum() > 0 else row.sin() for row in X - 0.5])
    torch.testing.assert_close(torch.vmap(saker.compile(program))(X - 0.5), expected)


@pytest.mark.parametrize("compiler", [saker.compile, saker.aot_function])
@pytest.mark.parametrize("name", ["strict_mode", "hints_wrapper"])
def test_gradients_through_wrappers(name, compiler):
    def program(x):
        if name == "strict_mode":
            return torch.ops.higher_order.strict_mode(lambda a: (a * 2,), (x,))[0] + x
        return torch.ops.higher_order.hints_wrapper(lambda a: a * 2, (x,), {}, {}) + x

    compiled = compiler(program)
    for _ in range(3):
        x = X.clone().requires_grad_()
        compiled(x).sum().backward()
        torch.testing.assert_close(x.grad, torch.full((3, 3), 3.0))


def test_an_error_about_a_dead_tensor_keeps_nothing():
    """PyTorch turns transforms off while it prints a tensor, for as long as the frame that does so lives."""
    kept = []
    saker.capture(lambda x: (kept.append(x), kept.append(x.sin()), x * 2)[2], torch.ones(2))
    for tensor in kept:
        with pytest.raises(saker.CaptureError, match="has ended"):
            repr(tensor)
    expected = torch.full((2, 2), 2.0)
    assert torch.vmap(torch.vmap(lambda a: a[0] * 2))(torch.ones(2, 2, 2)).equal(expected)


@pytest.mark.parametrize("wrap", [saker.compile, saker.aot_function], ids=["compile", "aot"])
def test_results_that_depend_on_each_other_are_differentiated_again(wrap):
    def f(o, x):
        y = o.cond(x.sum() > 0, lambda v: v * v, lambda v: v.sin(), (x,))
        return y, y * 2

    compiled = wrap(lambda x: f(operators, x))
    for values in ([1.0, 2.0], [1.0, -2.0], [3.0, 1.0]):
        found = []
        for function in (lambda x: f(reference, x), compiled):
            x = torch.tensor(values, requires_grad=True)
            y, z = function(x)
            first = torch.autograd.grad((y + z).sum(), x, create_graph=True)[0]
            found.append((first, torch.autograd.grad(first.sum(), x)[0]))
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(other, one)


@pytest.mark.parametrize("wrap", [saker.compile, saker.aot_function], ids=["compile", "aot"])
def test_a_result_that_the_history_keeps_is_written(wrap):
    """Values change places in the loop: what it gives at the end is what an earlier step was given."""

    def f(x):
        def step(a, b, n):
            return b, (a * a).tanh(), n + 1

        return operators.while_loop(lambda a, b, n: n < 2, step, (x, x + 1, torch.tensor(0)))[:2]

    compiled = wrap(f)
    for _ in range(3):
        x = torch.tensor([0.5, -1.0], requires_grad=True)
        a, b = compiled(x)
        expected = torch.autograd.grad((a + b).sum(), x)[0]
        a, b = compiled(x)
        total = (a + b).sum()
        with torch.no_grad():
            a.zero_()
        try:
            found = torch.autograd.grad(total, x)[0]
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
        else:
            torch.testing.assert_close(found, expected)


def test_logarithms_of_attention_are_differentiated_twice():
    from torch.nn.attention.flex_attention import flex_attention

    q, k, v = (torch.randn(1, 2, 8, 4, dtype=torch.float64) for _ in range(3))
    compiled = saker.compile(lambda q: flex_attention(q, k, v, return_lse=True, scale=1.0)[1])
    for _ in range(2):
        found = []
        for function in (lambda q: (q @ k.transpose(-2, -1)).logsumexp(-1), compiled):
            x = q.clone().requires_grad_()
            first = torch.autograd.grad(function(x).sin().sum(), x, create_graph=True)[0]
            found.append((first, torch.autograd.grad(first.sum(), x)[0]))
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(other, one)
