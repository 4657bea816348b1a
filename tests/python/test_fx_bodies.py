"""Nodes with bodies as ``torch.fx``: PyTorch's own operators over closed graph modules, which run and are shared."""

from __future__ import annotations

import operator
import os
import subprocess
import sys

import pytest
import torch

import saker
from body_programs import (
    PROGRAMS,
    WEIGHT,
    all_graphs,
    as_list,
    branch,
    branches_in_branches,
    calls,
    captured,
    expected_of,
    gradients,
    inputs,
    loop,
    mapped,
    nested,
    results,
    results_of_other_kinds,
    scanned,
    scanned_from_the_end,
)
from control_flow import operators, reference
from control_flow_programs import Choices, nest
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

higher = torch.ops.higher_order


# --- values and gradients ---


@pytest.mark.parametrize("program", [*PROGRAMS, results_of_other_kinds], ids=lambda p: p.__name__)
def test_modules_compute_what_graphs_do(program):
    graph = captured(program)
    for module in (graph.to_fx(), graph.functional().to_fx()):
        for x in inputs():
            expected = graph(x)
            torch.testing.assert_close(module(x), as_list(expected))
            torch.testing.assert_close(as_list(expected), as_list(expected_of(program, x)))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_autograd_goes_through_modules(program):
    module = captured(program).to_fx()
    for x in inputs():
        expected = gradients(lambda x: expected_of(program, x), x)
        torch.testing.assert_close(gradients(lambda x: module(x)[0], x), expected)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_gradients_inside_of_graphs(program):
    def differentiated(x):
        return torch.autograd.grad(program(operators, x, WEIGHT).sin().sum(), [x], allow_unused=True)[0]

    graph = saker.capture(differentiated, inputs()[0].requires_grad_())
    for each in [graph] if program in (mapped, nested) else [graph, graph.functional()]:
        module = each.to_fx()
        for x in inputs():
            expected = gradients(lambda x: expected_of(program, x), x)[1]
            torch.testing.assert_close(module(x.clone().requires_grad_())[0], expected)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_transforms_go_through_modules(program):
    module = captured(program).to_fx()

    def function(x):
        return module(x)[0]

    found = torch.vmap(function)(torch.stack(inputs()))
    torch.testing.assert_close(found, torch.stack([expected_of(program, x) for x in inputs()]))
    for x in inputs():
        expected = gradients(lambda x: expected_of(program, x), x)[1]
        torch.testing.assert_close(torch.func.grad(lambda x: function(x).sin().sum())(x), expected)


def test_modules_are_captured_again():
    module = captured(nested).to_fx()
    compiled = saker.compile(lambda x: module(x)[0] * 2, fullgraph=True)
    graph = saker.capture(lambda x: module(x)[0] * 2, inputs()[0])
    for x in inputs():
        for function in (compiled, graph, graph.to_fx()):
            found = function(x)
            torch.testing.assert_close(found[0] if isinstance(found, list) else found, expected_of(nested, x) * 2)


def test_looking_up_an_operator_in_a_body_changes_nothing():
    command = """if True:
        import torch, saker
        def program(x):
            def left(v):
                return torch.ops.higher_order.map_impl(lambda row: (row.sin(),), [v], [])[0]
            return torch.cond(x.sum() > 0, left, lambda v: v.cos(), (x,))
        x = torch.ones(3, 3)
        print(saker.compile(program, fullgraph=True)(x).equal(x.sin()))
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, env=env, check=False)
    assert found.stdout.strip() == "True", found.stderr


def test_random_numbers_in_bodies():
    generator = torch.Generator()

    def program(x):
        noise = torch.cond(
            x.sum() > 0, lambda v: torch.randn(3, generator=generator) * v, lambda v: torch.rand(3) + v, (x[0],)
        )
        return x + noise

    graph = saker.capture(program, inputs()[0])
    module = graph.to_fx()
    for x in inputs():
        found = []
        for function in (graph, lambda x: module(x)[0]):
            generator.manual_seed(1)
            torch.manual_seed(1)
            found.append(function(x))
        assert found[0].equal(found[1])


def test_inputs_stay_as_they_are():
    """Results are memory of their own: what is written to them reaches no operand."""

    def program(x):
        y = torch.cond(x.sum() > 0, lambda v: v, lambda v: v.t(), (x,))
        z = operators.while_loop(lambda v: v.sum() > 1e6, lambda v: (v * 2,), (x,))[0]
        return y.add_(1), z.mul_(2)

    module = saker.capture(program, inputs()[0]).to_fx()
    for x in inputs():
        before = x.clone()
        y, z = module(x)
        torch.testing.assert_close(y, (before if before.sum() > 0 else before.t()) + 1)
        torch.testing.assert_close(z, before * 2)
        assert x.equal(before)


@pytest.mark.parametrize("part", range(3))
def test_random_nests(part):
    captured_nests = 0
    for seed in range(part, 30, 3):
        rng = Choices(seed)
        program = nest(rng, rng.randint(1, 3))
        if rng.needs_data:  # a branch or loop inside of gradients is Python code, which a capture has no data for
            continue
        captured_nests += 1
        generator = torch.Generator().manual_seed(seed)
        x, w = (torch.randn(3, 3, generator=generator) for _ in range(2))
        module = saker.capture(lambda x, w: program(operators, x, w), x, w).to_fx()
        for shift in (-1, 0, 1):
            torch.testing.assert_close(
                module(x + shift, w), [program(reference, x + shift, w)], rtol=1e-3, atol=1e-4, msg=f"seed {seed}"
            )
    assert captured_nests >= 5


# --- what modules look like ---


def test_a_branch_is_pytorchs_operator():
    module = captured(branch).to_fx()
    (call,) = calls(module, higher.cond)
    condition, left, right, operands = call.args
    assert condition.target is torch.ops.aten.view.default
    assert (left.op, left.target) == ("get_attr", "true_graph_0")
    assert (right.op, right.target) == ("get_attr", "false_graph_0")
    # what is passed, then what is closed over, in the order in which it was found
    assert [node.op for node in operands] == ["placeholder", "call_function", "get_attr"]
    for body in (module.true_graph_0, module.false_graph_0):
        assert isinstance(body, torch.fx.GraphModule)
        assert len(body.graph.find_nodes(op="placeholder")) == 3
        assert not body.graph.find_nodes(op="get_attr")
        assert not list(body.parameters()) and not list(body.buffers())
    assert [node.target for node in calls(module, operator.getitem)] == [operator.getitem]


def test_loops_are_pytorchs_operators():
    module = captured(loop).to_fx()
    (call,) = calls(module, higher.while_loop)
    assert [each.target for each in call.args[:2]] == ["while_loop_cond_graph_0", "while_loop_body_graph_0"]
    assert [len(each) for each in call.args[2:]] == [2, 2]
    assert isinstance(module.while_loop_cond_graph_0.graph.output_node().args[0], torch.fx.Node)
    assert len(results(module.while_loop_body_graph_0)) == 2

    module = captured(scanned).to_fx()
    (call,) = calls(module, higher.scan)
    assert call.args[0].target == "scan_combine_graph_0"
    assert [len(each) for each in call.args[1:]] == [1, 1, 1]

    module = captured(mapped).to_fx()
    (call,) = calls(module, higher.map_impl)
    assert call.args[0].target == "body_graph_0"
    assert [len(each) for each in call.args[1:]] == [1, 2]

    module = captured(scanned_from_the_end).to_fx()
    assert len(calls(module, higher.scan)) == 1
    assert len(calls(module, torch.ops.aten.flip.default)) >= 2


def test_bodies_of_bodies_are_modules_in_modules():
    module = captured(branches_in_branches).to_fx()
    assert isinstance(module.true_graph_0.true_graph_0.true_graph_0, torch.fx.GraphModule)
    middle = module.true_graph_0
    (call,) = calls(middle, higher.cond)
    # what only the innermost body reads goes through all of them
    assert len(call.args[3]) == 3 and all(node.op == "placeholder" for node in call.args[3])
    assert not hasattr(module, "true_graph_1")


def test_a_value_is_lifted_once():
    def program(x):
        y = x.sin()
        return torch.cond(x.sum() > 0, lambda v: v * y + y, lambda v: y - v + y.cos(), (x,))

    (call,) = calls(saker.capture(program, inputs()[0]).to_fx(), higher.cond)
    assert len(call.args[3]) == 2


def test_a_value_that_is_passed_is_not_lifted_too():
    """The functional form reads operands where bodies read parameters."""

    def program(x):
        x.mul_(2)
        y = torch.cond(x.sum() > 0, lambda v: v * WEIGHT, lambda v: v - WEIGHT, (x,))
        return y.add_(1)

    graph = saker.capture(program, inputs()[0])
    module = graph.functional().to_fx()
    (call,) = calls(module, higher.cond)
    assert len(call.args[3]) == len(set(call.args[3])) == 2
    for x in inputs():
        expected, one, other = x.clone(), x.clone(), x.clone()
        expected.mul_(2)
        result = (expected * WEIGHT if expected.sum() > 0 else expected - WEIGHT) + 1
        torch.testing.assert_close(module(one)[0], result)
        torch.testing.assert_close(graph(other), result)
        torch.testing.assert_close(one, expected)


def test_all_nodes_of_bodies_say_what_they_give():
    for program in PROGRAMS:
        for module in all_graphs(captured(program).to_fx()):
            for node in module.graph.nodes:
                if node.op == "placeholder" or isinstance(node.target, torch._ops.OpOverload):
                    value = node.meta["val"]
                    assert isinstance(value, torch.Tensor) and value.fake_mode is not None, (module.code, node)


def test_sizes_that_change():
    def program(x):
        n = x.shape[0]
        y = x[1:]
        z = torch.cond(x.sum() > 0, lambda v: v * n, lambda v: v.reshape(-1, n - 1)[0] - 1, (y,))
        return operators.scan(lambda c, r: (c + r, c * n), x[0] * 1, z)[1]

    module = saker.capture(program, torch.randn(6), dynamic={0: {0: "n"}}).to_fx()
    for size in (6, 9):
        for x in (torch.rand(size), -torch.rand(size)):
            y = x[1:] * size if x.sum() > 0 else x[1:] - 1
            rows = reference.scan(lambda c, r: (c + r, c * size), x[0] * 1, y)[1]
            torch.testing.assert_close(module(x), [rows])


def test_sizes_that_operators_find():
    def program(o, x):
        count = x.nonzero().shape[0]

        def left(v):
            return torch.full((v.masked_select(v > 0).shape[0] * 2,), 1.0).sum() + v * count

        return o.cond(x.sum() > 0, left, lambda v: v.cos(), (x,)) + torch.full((count,), 2.0).sum()

    graph = saker.capture(lambda x: program(operators, x), inputs()[0])
    for x in [*inputs(), torch.zeros(3, 3)]:
        torch.testing.assert_close(graph.to_fx()(x)[0], program(reference, x))


# --- bodies that are equal ---


def test_equal_bodies_are_installed_once():
    def program(x):
        for _ in range(3):
            x = torch.cond(x.sum() > 0, lambda v: v.sin() * WEIGHT, lambda v: v.cos(), (x,))
        return torch.cond(x.sum() > 0, lambda v: v.sin() * 2, lambda v: v.cos(), (x,))

    module = saker.capture(program, inputs()[0]).to_fx()
    made = calls(module, higher.cond)
    assert [call.args[1].target for call in made] == ["true_graph_0"] * 3 + ["true_graph_1"]
    assert [call.args[2].target for call in made[:3]] == ["false_graph_0"] * 3
    # the last one is given one operand only
    assert made[3].args[2].target == "false_graph_1"
    assert sorted(name for name, _ in module.named_children()) == [
        "false_graph_0",
        "false_graph_1",
        "true_graph_0",
        "true_graph_1",
    ]


@pytest.mark.parametrize("other", ["constant", "dtype", "inner"])
def test_bodies_that_differ_are_not_shared(other):
    def program(x):
        y = torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: deep(v, 1), (x,))
        given = x.double() if other == "dtype" else x
        z = torch.cond(
            x.sum() > 0,
            lambda v: v * (3 if other == "constant" else 2),
            lambda v: deep(v, 2 if other == "inner" else 1),
            (given,),
        )
        return y + z

    def deep(v, n):
        return torch.cond(v.max() > 0, lambda u: u.sin() * n, lambda u: u.cos(), (v,))

    first, second = calls(saker.capture(program, inputs()[0]).to_fx(), higher.cond)
    same = [first.args[i].target == second.args[i].target for i in (1, 2)]
    assert same == {"constant": [False, True], "dtype": [False, False], "inner": [True, False]}[other]
