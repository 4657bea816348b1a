"""Programs with branches and loops, for tests of what their graphs are turned into."""

from __future__ import annotations

import torch
from torch import nn

import saker
from control_flow import operators, reference

WEIGHT = nn.Parameter(torch.randn(3, 3, generator=torch.Generator().manual_seed(7)) / 3)


def branch(o, x, w):
    scale = x * 2
    return o.cond(x.sum() > 0, lambda v: v * scale + w, lambda v: v.cos() - w, (x,))


def loop(o, x, w):
    scale = x.cos()
    return o.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, (v @ w).sin() * scale), (torch.tensor(0), x))[1]


def loop_without_a_step(o, x, w):
    return o.while_loop(lambda v: v.sum() > 1e6, lambda v: (v @ w,), (x,))[0] * 2


def scanned(o, x, w):
    return o.scan(lambda c, r: (c * r.sin() + w[0], c @ w), x[0] * 1, x)[1]


def scanned_from_the_end(o, x, w):
    carry, rows = o.scan(lambda c, r: (c * 0.5 + r, c * r), x[0] * 1, x, reverse=True)
    return carry + rows


def mapped(o, x, w):
    return o.map(lambda row, y: row @ w + y, x, x[0])


def nested(o, x, w):
    inner = x.sin()

    def body(i, v):
        def left(u):
            return o.scan(lambda c, r: (c + r * inner[0], c * w[1]), u[0] * 1, u)[1]

        return i + 1, o.cond(v.sum() > 0, left, lambda u: u.cos() + inner, (v,))

    return o.while_loop(lambda i, v: i < 2, body, (torch.tensor(0), x))[1]


def branches_in_branches(o, x, w):
    inner = x.exp()

    def deep(v):
        return o.cond(v.mean() > 0, lambda u: u * inner, lambda u: u - w, (v,))

    def middle(v):
        return o.cond(v.max() > 0.5, deep, lambda u: u.tanh(), (v,))

    return o.cond(x.sum() > 0, middle, lambda v: v * 3, (x,))


def results_of_other_kinds(o, x, w):
    def combine(carry, row):
        return carry + row.long(), row.double() * 2

    carry, rows = o.scan(combine, torch.zeros(3, dtype=torch.int64), x)
    positive, kept = o.cond(x.sum() > 0, lambda v: (v > 0, v), lambda v: (v < 0, v), (x,))
    return carry, rows, positive, kept


def trees_and_nothing(o, x, w):
    made = o.cond(x.sum() > 0, lambda v: {"a": v.sin(), "n": None}, lambda v: {"a": v.cos(), "n": None}, (x,))
    return made["a"]


PROGRAMS = [
    branch,
    loop,
    loop_without_a_step,
    scanned,
    scanned_from_the_end,
    mapped,
    nested,
    branches_in_branches,
    trees_and_nothing,
]


def inputs():
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(3, 3, generator=generator) + shift for shift in (1, -1, 0)]


def captured(program):
    """Closes over the parameter."""
    return saker.capture(lambda x: program(operators, x, WEIGHT), inputs()[0].requires_grad_())


def expected_of(program, x):
    return program(reference, x, WEIGHT)


def as_list(value):
    return list(value) if isinstance(value, tuple) else [value]


def gradients(function, x):
    x = x.clone().requires_grad_()
    y = function(x)
    found = torch.autograd.grad(y.sin().sum(), (x, WEIGHT), allow_unused=True)
    return [y.detach(), *(torch.zeros(3, 3) if g is None else g for g in found)]


def all_graphs(module):
    return [m for m in module.modules() if isinstance(m, torch.fx.GraphModule)]


def calls(module, target):
    return [node for node in module.graph.nodes if node.target is target]


def results(module):
    return list(module.graph.output_node().args[0])
