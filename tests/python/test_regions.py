"""Regions that a program marks (``nested_compile_region``, ``invoke_subgraph``): recorded as one call each, equal ones
differentiated once, and with the results, gradients and errors of the operators one by one."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import saker
from layers import Block, same_bits
from saker import _C
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

hop = torch.ops.higher_order
region = torch.compiler.nested_compile_region


class Deep(nn.Module):
    def __init__(self, layers: int = 6, *, marked: bool = True, tied: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block()] * layers if tied else [Block() for _ in range(layers)])
        self.call = region(lambda layer, x: layer(x)) if marked else lambda layer, x: layer(x)

    def forward(self, x):
        for layer in self.layers:
            x = self.call(layer, x)
        return x


def pair(**options):
    """A model with marked regions, and the same one without marks."""
    torch.manual_seed(0)
    made = Deep(**options)
    marked, plain = copy.deepcopy(made), copy.deepcopy(made)
    plain.call = lambda layer, x: layer(x)
    return marked, plain


def step(model, function, x):
    """Results and gradients of one call, and gradients of a second one."""
    x = x.clone().requires_grad_()
    for parameter in model.parameters():
        parameter.grad = None
    y = function(x)
    y.square().sum().backward()
    return [y.detach(), x.grad, *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize("tied", [False, True])
def test_layers_have_the_results_and_gradients_of_eager_mode_bit_by_bit(tied):
    marked, plain = pair(tied=tied)
    saker.reset(counts=True)
    compiled = saker.compile(marked)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(4, 8)
        same_bits(step(marked, compiled, x), step(plain, plain, x))
    assert saker.stats()["replays"] == 2, saker.stats()["stops"]


def test_equal_regions_are_differentiated_once():
    marked, _ = pair(layers=12)
    before = _C.derivatives_made()
    step(marked, saker.compile(marked), torch.randn(4, 8))
    assert _C.derivatives_made() == before + 1


def test_regions_of_two_kinds_are_differentiated_once_each():
    one, other = region(lambda v: (v * 2).sin()), region(lambda v: (v + 1).tanh())

    def f(x):
        for _ in range(4):
            x = other(one(x))
        return x * 3

    def plain(x):
        for _ in range(4):
            x = ((x * 2).sin() + 1).tanh()
        return x * 3

    before = _C.derivatives_made()
    compiled = saker.compile(f)
    x = torch.randn(5, requires_grad=True)
    for _ in range(2):
        (found,) = torch.autograd.grad(compiled(x).sum(), x)
        (expected,) = torch.autograd.grad(plain(x).sum(), x)
        assert torch.equal(found, expected)
    assert _C.derivatives_made() == before + 2


def test_double_backward():
    marked, plain = pair()

    def second(function, x):
        x = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(x).sin().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    compiled = saker.compile(marked)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(4, 8)
        torch.testing.assert_close(second(compiled, x), second(plain, x))


def test_sizes_that_change():
    marked, plain = pair()
    compiled = saker.compile(marked, dynamic=True)
    for rows in (4, 7, 3, 9):
        x = torch.randn(rows, 8)
        same_bits(step(marked, compiled, x), step(plain, plain, x))


# Programs whose regions are or are not calls; all of them have the results of the function itself.


def closes_over(x, r):
    w = x.cos()
    return r(lambda v: v * w + SCALE)(x) + r(lambda v: v * w + SCALE)(x * 2)


def writes_locally(x, r):
    def body(v):
        made = v * 2
        made.add_(1)
        return made.sin()

    return r(body)(r(body)(x)) * 2


def writes_operand(x, r):
    def body(v):
        v.mul_(2)
        return v.sin()

    y = x * 1
    return r(body)(y) + y


def gives_operand(x, r):
    body = r(lambda v: (v, v * 2))
    a, b = body(x * 1)
    c, d = body(a)
    c.add_(1)
    return a + b + c + d


def gives_view(x, r):
    body = r(lambda v: v.view(-1)[:2])
    y = x * 2
    body(y).add_(1)
    return y * body(y).sum()


def gives_structure(x, r):
    body = r(lambda v: {"a": v * 2, "b": (None, v.sin() + 1), "c": 3})
    found = body(body(x)["a"])
    assert found["b"][0] is None and found["c"] == 3
    return found["a"] * found["b"][1]


def gives_two(x, r):
    body = r(lambda v: (v.sin() * 2, v.cos() + 1))
    a, b = body(x)
    for _ in range(3):
        a, b = body(a * b)
    return a + b


def nests(x, r):
    inner = r(lambda v: v.sin() + 1)
    outer = r(lambda v: inner(inner(v) * 2))
    return outer(outer(outer(x)))


def around_cond(x, r):
    body = r(lambda v: torch.cond(v.sum() > 0, lambda u: u.sin(), lambda u: u.cos() * 2, (v,)) + 1)
    return body(body(x))


def inside_cond(x, r):
    body = r(lambda v: v.sin() * 2)
    return torch.cond(x.sum() > 0, lambda u: body(body(u)), lambda u: body(u + 1), (x,))


def inside_scan(x, r):
    from torch._higher_order_ops.scan import scan

    body = r(lambda c, v: c * v.sin() + v)

    def step_(c, v):
        new = body(c, v)
        return new, new.clone()

    return scan(step_, torch.ones(3), x.reshape(-1, 3))[1] if r is not identity else python_scan(body, x)


def python_scan(body, x):
    c, rows = torch.ones(3), []
    for v in x.reshape(-1, 3):
        c = body(c, v)
        rows.append(c)
    return torch.stack(rows)


def without_gradients(x, r):
    body = r(lambda v: v.sin() * 2)
    with torch.no_grad():
        y = body(body(x))
    return body(body(x)) * y


def no_grad_inside(x, r):
    def body(v):
        with torch.no_grad():
            w = v.exp()
        return v * w + v.detach()

    return r(body)(r(body)(x * 1) * 1) * 1


def cast(x, r):
    body = r(lambda v: (v.reshape(3, 2) @ v.reshape(2, 3)).float().sum() * v)
    with torch.autocast("cpu", torch.bfloat16):
        return body(body(x)) * 1


def skips(x, r):
    body = r(lambda v: v + (v * 2).sin())
    a = body(x * 1)
    b = body(a)
    c = body(b)
    return c + a + b


def unread_result(x, r):
    body = r(lambda v: (v * 3, v.abs().sqrt() + 1))
    a, _ = body(x * 1)
    b, _ = body(a)
    return b * 1


def undefined_gradient(x, r):
    body = r(lambda v, c: torch.where(c > 0, v * 2, v.sin()))
    y = x * 1
    return body(body(y, y.cos()), y.sin()) * 1


SCALE = torch.tensor(3.0)
PROGRAMS = [
    closes_over,
    writes_locally,
    writes_operand,
    gives_operand,
    gives_view,
    gives_structure,
    gives_two,
    nests,
    around_cond,
    inside_cond,
    inside_scan,
    without_gradients,
    no_grad_inside,
    cast,
    skips,
    unread_result,
    undefined_gradient,
]


def identity(function):
    return function


def values_and_gradients(function, x):
    x = x.clone().requires_grad_()
    y = function(x)
    return [y.detach(), *torch.autograd.grad(y.float().sum(), x)]


# In eager mode control flow is a branch or a loop of Python.
def eagerly(program):
    def plain(x):
        cond = torch.cond
        torch.cond = lambda pred, left, right, operands: left(*operands) if pred else right(*operands)
        try:
            return program(x, identity)
        finally:
            torch.cond = cond

    return plain


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("entry", ["compile", "aot_function", "deferred"])
def test_programs(entry, program):
    def f(x):
        return program(x, region)

    if entry == "compile":
        f = saker.compile(f)
    elif entry == "aot_function":
        f = saker.aot_function(f)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(6)
        expected = values_and_gradients(eagerly(program), x)
        if entry == "deferred":
            with saker.deferred():
                found = values_and_gradients(f, x)
        else:
            found = values_and_gradients(f, x)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_captured_programs_and_their_modules(program):
    x = torch.randn(6)
    graph = saker.capture(lambda v: program(v, region), x)
    expected = eagerly(program)(x)
    torch.testing.assert_close(graph(x), expected)
    module = graph.to_fx()
    torch.testing.assert_close(module(x)[0], expected)


def test_random_numbers_in_a_region():
    body = region(lambda v: nn.functional.dropout(v, 0.5) * 2)

    def f(x):
        return body(body(x)) * 1

    compiled = saker.compile(f)
    x = torch.randn(50, requires_grad=True)
    for seed in range(3):
        results = []
        for function in (compiled, lambda v: nn.functional.dropout(nn.functional.dropout(v) * 2) * 2):
            torch.manual_seed(seed)
            y = function(x)
            results.append([y.detach(), *torch.autograd.grad(y.sum(), x), torch.rand(1)])
        same_bits(*results)


def test_vmap_around_regions():
    body = region(lambda v: v.sin() * v + 1)

    def f(x):
        return torch.vmap(lambda v: body(body(v)) * 2)(x)

    compiled = saker.compile(f)
    x = torch.randn(4, 3, requires_grad=True)
    for _ in range(2):
        y = compiled(x)
        z = x.sin() * x + 1
        expected = (z.sin() * z + 1) * 2
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(*(torch.autograd.grad(each.sum(), x)[0] for each in (y, expected)))


def test_modules_show_regions_as_invoke_subgraph():
    body = region(lambda v: v.sin() * v)
    graph = saker.capture(lambda x: body(body(x) + 1), torch.randn(3, requires_grad=True))
    module = graph.to_fx()
    calls = [node for node in module.graph.nodes if node.target is hop.invoke_subgraph]
    assert len(calls) == 2
    assert [node.args[1] for node in calls] == ["subgraph_0", "subgraph_0"]  # equal bodies are one attribute
    assert isinstance(module.subgraph_0, torch.fx.GraphModule)
    x = torch.randn(3, requires_grad=True)
    y = x.sin() * x + 1
    expected = y.sin() * y
    torch.testing.assert_close(module(x)[0], expected)
    torch.testing.assert_close(*(torch.autograd.grad(each.sum(), x)[0] for each in (module(x)[0], expected)))


def test_a_parameter_that_no_backward_saves_may_be_written_before_it():
    marked, plain = pair()
    compiled = saker.compile(marked)
    x = torch.randn(4, 8)
    for _ in range(2):
        results = []
        for model, function in ((marked, compiled), (plain, plain)):
            y = function(x)
            with torch.no_grad():
                model.layers[2].up.bias.add_(1)
            y.sum().backward()
            with torch.no_grad():
                model.layers[2].up.bias.sub_(1)
            results.append([y.detach(), model.layers[0].up.weight.grad])
        same_bits(*results)


def test_a_parameter_that_is_saved_may_not_be_written_before_the_backward():
    marked, plain = pair()
    compiled = saker.compile(marked)
    x = torch.randn(4, 8)
    step(marked, compiled, x)
    errors = []
    for model, function in ((marked, compiled), (plain, plain)):
        y = function(x)
        with torch.no_grad():
            model.layers[2].up.weight.add_(0)
        with pytest.raises(RuntimeError) as raised:
            y.sum().backward()
        errors.append(str(raised.value))
    assert errors[0] == errors[1]


def test_a_second_backward_raises_as_in_eager_mode():
    marked, plain = pair()
    compiled = saker.compile(marked)
    x = torch.randn(4, 8)
    step(marked, compiled, x)
    for function in (compiled, plain):
        y = function(x)
        y.sum().backward()
        with pytest.raises(RuntimeError):
            y.sum().backward()


def test_results_of_regions_that_the_caller_sees():
    marked, plain = pair()

    def all_of(model, call):
        def run(x):
            seen = []
            for layer in model.layers:
                x = call(layer, x)
                seen.append(x)
            return seen

        return run

    compiled = saker.compile(all_of(marked, marked.call))
    for seed in range(2):
        torch.manual_seed(seed)
        x = torch.randn(4, 8)
        found, expected = compiled(x), all_of(plain, plain.call)(x)
        same_bits(found, expected)
        for model, results in ((marked, found), (plain, expected)):
            model.zero_grad()
            sum(result.sum() for result in results).backward()
        same_bits([p.grad for p in marked.parameters()], [p.grad for p in plain.parameters()])


def test_an_error_in_a_region_is_the_programs_own():
    def body(v):
        raise ValueError("no")

    f = saker.compile(lambda x: region(body)(x))
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            f(torch.randn(3))
    marked, plain = pair()
    x = torch.randn(4, 8)
    same_bits(step(marked, saker.compile(marked), x), step(plain, plain, x))  # no region is left open
