"""Parameters of bodies are called as those of the program's functions, in graphs and in ``torch.fx``."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import saker
from control_flow import operators
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

while_loop, scan, map_rows = operators.while_loop, operators.scan, operators.map
WEIGHT = torch.linspace(-1, 1, 9).view(3, 3)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(3, 3), nn.Linear(3, 3)

    def scaled(self, value, scale):
        return self.left(value) * scale

    def forward(self, x):
        y = x.sin()
        return torch.cond(x.sum() > 0, self.scaled, lambda value, scale: self.right(value) + y * scale, (x, x * 2))


def choose(x):
    return torch.cond(x.sum() > 0, lambda v: v.sin() @ WEIGHT, lambda w: w.cos(), (x,))


def repeat(x):
    return while_loop(lambda step, value: step < 3, lambda i, old: (i + 1, old.sin() @ WEIGHT), (torch.tensor(0), x))[1]


def accumulate(x):
    def combine(carry, row):
        return {"sum": carry["sum"] + row[0], "last": row[1] * 1}, carry["sum"] * row[1]

    start = {"sum": x[0] * 1, "last": x[0] * 2}
    last, rows = scan(combine, start, (x, x.cos()))
    return rows + last["sum"] + last["last"]


def each(x):
    return map_rows(lambda row, pair: row * pair[0] + pair[1], x, (x[0], x[1]))


def nested(x):
    def outer(value):
        return torch.cond(value.max() > 1, lambda big: big.sin() * value, lambda small: small.cos(), (value * 2,))

    return torch.cond(x.sum() > 0, outer, lambda value: value.tanh(), (x,))


def of_any_number(x):
    return torch.cond(x.sum() > 0, lambda *values: values[0].sin(), lambda *values: values[0].cos(), (x,))


def called_self(x):
    def left(self, other):
        return self.sin() * other

    return torch.cond(x.sum() > 0, left, lambda self, other: self.cos(), (x, x * 2))


def names(module, prefix=""):
    found = {}
    for name, body in module.named_children():
        if isinstance(body, torch.fx.GraphModule):
            path = f"{prefix}{name}"
            found[path] = [node.name for node in body.graph.nodes if node.op == "placeholder"]
            found |= names(body, path + ".")
    return found


CASES = {
    choose: {"true_graph_0": ["v", "arg1_1"], "false_graph_0": ["w", "arg1_1"]},
    repeat: {
        "while_loop_cond_graph_0": ["step", "value", "arg2_1"],
        "while_loop_body_graph_0": ["i", "old", "arg2_1"],
    },
    accumulate: {"scan_combine_graph_0": ["carry_0", "carry_1", "row_0", "row_1"]},
    each: {"body_graph_0": ["row", "pair_0", "pair_1"]},
    nested: {
        "true_graph_0": ["value"],
        "true_graph_0.true_graph_0": ["big", "arg1_1"],
        "true_graph_0.false_graph_0": ["small", "arg1_1"],
        "false_graph_0": ["value"],
    },
    of_any_number: {"true_graph_0": ["arg0_1"], "false_graph_0": ["arg0_1"]},
    called_self: {"true_graph_0": ["self_", "other"], "false_graph_0": ["self_", "other"]},
}


@pytest.mark.parametrize("program", CASES, ids=lambda program: program.__name__)
def test_placeholders_are_called_as_parameters(program):
    x = torch.linspace(-1, 2, 9).view(3, 3)
    graph = saker.capture(program, x)
    module = graph.to_fx()
    assert names(module) == CASES[program]
    torch.testing.assert_close(module(x)[0], graph(x))


def test_what_a_module_closes_over_comes_behind_its_arguments_once_for_both_branches():
    model, x = Model(), torch.randn(2, 3)
    module = saker.capture(model, x).to_fx()
    expected = ["value", "scale", *(f"arg{i}_1" for i in range(2, 7))]
    assert names(module) == {"true_graph_0": expected, "false_graph_0": expected}
    for given in (x, x + 3, x - 3):
        torch.testing.assert_close(module(given)[0], model(given))


@pytest.mark.parametrize("grad", [False, True])
def test_back_ends_are_given_the_names(grad):
    seen = []

    def backend(module, inputs):
        seen.append(names(module))
        return module

    compiled = saker.compile(repeat, backend=backend)
    x = torch.linspace(-1, 2, 9).view(3, 3).requires_grad_(grad)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), repeat(x))
    bodies = seen[0]
    assert bodies["while_loop_body_graph_0"][:2] == ["i", "old"]
    assert bodies["while_loop_cond_graph_0"][:2] == ["step", "value"]


def test_names_in_the_text_are_read_again():
    graph = saker.capture(nested, torch.ones(3, 3))
    assert "(%big: f32[3, 3], " in graph.text and graph.text.count("%value") > 1
    assert saker.parse(graph.text).text == graph.text


def test_a_call_that_is_rejected_names_nothing_else():
    """What was noted for an operator that then raises is not used for another one."""
    x = torch.ones(3)

    def program(x):
        try:
            while_loop(lambda wrong: wrong.sum() < 3, lambda wrong: wrong.sum(), (x,))
        except RuntimeError:
            pass
        return scan(lambda carry, row: (carry + row, carry * row), x[0] * 1, x)[1]

    assert names(saker.capture(program, x).to_fx()) == {"scan_combine_graph_0": ["carry", "row"]}
