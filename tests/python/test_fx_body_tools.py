"""Back ends, compilers, partitioners, exports, passes and drawings get the bodies of nodes as graph modules."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import saker
from body_programs import (
    PROGRAMS,
    WEIGHT,
    all_graphs,
    branch,
    calls,
    captured,
    expected_of,
    gradients,
    inputs,
    loop_without_a_step,
    mapped,
    nested,
    scanned,
    scanned_from_the_end,
    trees_and_nothing,
)
from control_flow import operators, reference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

higher = torch.ops.higher_order


def test_passes_over_modules():
    module = captured(nested).to_fx()
    for each in all_graphs(module):
        each.graph.lint()
        each.graph.eliminate_dead_code()
        each.recompile()
    again = copy.deepcopy(module)
    for x in inputs():
        torch.testing.assert_close(again(x), [expected_of(nested, x)])
    rebuilt = torch.fx.Interpreter(module)
    torch.testing.assert_close(rebuilt.run(inputs()[0]), [expected_of(nested, inputs()[0])])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_back_ends_of_compile(program):
    made = []

    def backend(module, examples):
        made.append(module)
        for each in all_graphs(module):
            each.graph.eliminate_dead_code()
            each.recompile()
        return module.forward

    saker.reset(counts=True)
    compiled = saker.compile(lambda x: program(operators, x, WEIGHT), backend=backend, fullgraph=True)
    for x in inputs():
        torch.testing.assert_close(compiled(x), expected_of(program, x))
        expected = gradients(lambda x: expected_of(program, x), x)
        torch.testing.assert_close(gradients(compiled, x), expected)
    assert made and all(len(all_graphs(module)) > 1 for module in made)
    assert saker.stats()["fallbacks"] == 0


@pytest.mark.parametrize("partition", ["min_cut", "default"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_compilers_of_aot_function(program, partition):
    seen = []

    def compiler(module, examples):
        seen.append(module)
        return module.forward

    compiled = saker.aot_function(lambda x, w: program(operators, x, w), compiler, partition_fn=partition)
    for x in inputs():
        expected = gradients(lambda x: expected_of(program, x), x)
        torch.testing.assert_close(gradients(lambda x: compiled(x, WEIGHT), x), expected)
        torch.testing.assert_close(compiled(x, WEIGHT), expected[0])
    assert len(seen) >= 2 and all(len(all_graphs(module)) > 1 for module in seen[:2])


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p not in (mapped, nested)], ids=lambda p: p.__name__)
def test_modules_run_on_examples(program):
    """Compilers ask what a graph gives by calling it with fake tensors."""
    seen = []

    def compiler(module, examples):
        with examples[0].fake_mode:
            found = module(*examples)
        expected = module.graph.output_node().meta["val"]
        for one, other in zip(found, expected, strict=True):
            assert (one is None and other is None) or (one.shape, one.dtype) == (other.shape, other.dtype)
        seen.append(module)
        return module.forward

    compiled = saker.aot_function(lambda x, w: program(operators, x, w), compiler)
    gradients(lambda x: compiled(x, WEIGHT), inputs()[0])
    assert len(seen) == 2


def test_partitioners_get_bodies():
    seen = []

    def partition(joint, inputs, *, num_fwd_outputs):
        from functorch.compile import default_partition

        seen.append(joint)
        return default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)

    def mine(joint, inputs, *, num_fwd_outputs):
        return partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)

    compiled = saker.aot_function(lambda x, w: branch(operators, x, w), partition_fn=mine)
    for x in inputs():
        expected = gradients(lambda x: expected_of(branch, x), x)
        torch.testing.assert_close(gradients(lambda x: compiled(x, WEIGHT), x), expected)
    assert len(calls(seen[0], higher.cond)) == 2


def test_modules_of_aot_module():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x, o=operators):
            return o.cond(x.sum() > 0, lambda v: self.linear(v).relu(), lambda v: self.linear(v * 2), (x,))

    layer = Layer()
    compiled = saker.aot_module(layer, lambda module, examples: module.forward)
    for x in inputs():
        expected = layer(x, reference)
        torch.testing.assert_close(compiled(x), expected)
        wanted = torch.autograd.grad(expected.sum(), list(layer.parameters()))
        torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), list(layer.parameters())), wanted)


def test_export():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x, o=operators):
            y = o.cond(x.sum() > 0, lambda v: self.linear(v).relu(), lambda v: self.linear(v * 2), (x,))
            return (o.scan(lambda c, r: (c + r, c * r), y[0] * 1, y)[1].sum(),)

    layer = Layer()
    state = list(layer.parameters())
    module, signature = saker.aot_export_module(layer, (inputs()[0],), trace_joint=False)
    joint, _ = saker.aot_export_module(layer, (inputs()[0],), trace_joint=True, output_loss_index=0)
    assert signature.parameters == ["linear.weight", "linear.bias"]
    for x in inputs():
        loss = layer(x, reference)[0]
        torch.testing.assert_close(module(*state, x)[0], loss)
        with torch.no_grad():
            found = joint(*state, x)
        torch.testing.assert_close(list(found[1:]), list(torch.autograd.grad(loss, state)))


def test_export_of_a_buffer_that_a_branch_computes():
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", torch.zeros(3))

        def forward(self, x, o=operators):
            self.last.copy_(o.cond(x.sum() > 0, lambda v: v[0] * 2, lambda v: v[1], (x,)))
            return (x + self.last,)

    module, signature = saker.aot_export_module(Counted(), (inputs()[0],), trace_joint=False)
    assert list(signature.buffers_to_mutate.values()) == ["last"]
    for x in inputs():
        counted = Counted()
        expected = counted(x, reference)
        found = module(torch.zeros(3), x)
        torch.testing.assert_close(list(found), [counted.last, *expected])


def test_joint_exports():
    def program(o, x):
        return [o.scan(lambda c, r: (c * r, c + r), x[0] * 1, x)[1]]

    x = inputs()[0].requires_grad_()
    joint = saker.aot_export_joint_simple(lambda x: program(operators, x), [x], trace_joint=True)
    (rows,), (gradient,) = joint([x.detach()], [torch.ones(3, 3)])
    expected = program(reference, x)[0]
    torch.testing.assert_close(rows, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), x)[0])


def test_graphs_that_write_to_inputs():
    seen = []

    def compiler(module, examples):
        seen.append(module)
        return module.forward

    def program(o, x):
        x.copy_(o.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,)))
        return x + 1

    compiled = saker.aot_function(lambda x: program(operators, x), compiler, keep_inference_input_mutations=True)
    for x in inputs():
        one, other = x.clone(), x.clone()
        torch.testing.assert_close(compiled(one), program(reference, other))
        torch.testing.assert_close(one, other)
    assert len(calls(seen[0], torch.ops.aten.copy_.default)) == 1


@pytest.mark.parametrize("program", [loop_without_a_step, scanned, scanned_from_the_end, trees_and_nothing])
def test_sizes_that_change_in_aot_function(program):
    seen = []

    def compiler(module, examples):
        seen.append(module)
        return module.forward

    compiled = saker.aot_function(lambda x, w: program(operators, x, w), compiler, dynamic=True)
    for size in (3, 5, 4):
        x = torch.randn(size, 3, requires_grad=True)
        found, expected = compiled(x, WEIGHT), expected_of(program, x)
        torch.testing.assert_close(found, expected)
        for one, other in zip(
            torch.autograd.grad(found.sin().sum(), x), torch.autograd.grad(expected.sin().sum(), x), strict=True
        ):
            torch.testing.assert_close(one, other)
    assert len(seen) == 2


def test_decompositions_reach_bodies():
    seen = []

    def compiler(module, examples):
        seen.append(module)
        return module.forward

    def silu(x):
        return x * torch.sigmoid(x)

    table = {torch.ops.aten.silu.default: silu}

    def program(o, x):
        return o.cond(x.sum() > 0, lambda v: torch.nn.functional.silu(v), lambda v: v * 2, (x,))

    compiled = saker.aot_function(lambda x: program(operators, x), compiler, decompositions=table)
    with torch.no_grad():
        for x in inputs():
            torch.testing.assert_close(compiled(x), program(reference, x))
    found = {node.target for module in all_graphs(seen[0]) for node in module.graph.nodes}
    assert torch.ops.aten.silu.default not in found and torch.ops.aten.sigmoid.default in found


def test_drawings_and_explanations_show_bodies():
    graph = captured(nested)
    drawn = graph.to_dot()
    assert drawn.count("subgraph cluster") == 5
    assert drawn.count("aten::cos") == 1 and drawn.count("label=return") == 6
    shown = graph._repr_html_()
    assert "saker::scan" in shown and "aten::cos" in shown
    told = saker.explain(lambda x: nested(operators, x, WEIGHT))(inputs()[0])
    assert told.operators["saker::scan"] == 1 and told.operators["aten::cos"] == 1
    assert told.bodies == {"saker::while": 2, "saker::if": 2, "saker::scan": 1}
    assert "bodies: 5" in str(told)


PROGRAM_THAT_TRACES_NOTHING = """
import saker, torch
from control_flow import operators
from body_programs import PROGRAMS, WEIGHT, captured, gradients, inputs
for program in PROGRAMS:
    module = captured(program).to_fx()
    gradients(lambda x: module(x)[0], inputs()[0])
    compiled = saker.compile(lambda x: program(operators, x, WEIGHT), backend=lambda module, examples: module.forward)
    compiled(inputs()[0])
    gradients(compiled, inputs()[0])
    compiled = saker.aot_function(lambda x, w: program(operators, x, w), lambda module, examples: module.forward)
    gradients(lambda x: compiled(x, WEIGHT), inputs()[0])
# fake tensors ask for its settings; it has traced nothing
print([sorted(counts) for counts in torch._dynamo.utils.counters.values()])
"""


def test_pytorchs_compiler_is_not_started():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    command = [sys.executable, "-c", PROGRAM_THAT_TRACES_NOTHING]
    found = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert found.stdout.strip() == "[]", found.stdout + found.stderr
