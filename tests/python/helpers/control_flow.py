"""PyTorch's control flow operators as plain Python: what results and gradients must be."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import torch
import torch.utils.checkpoint
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan as torch_scan
from torch._higher_order_ops.while_loop import while_loop as torch_while_loop
from torch.utils import _pytree as pytree


def cond(pred, true_fn, false_fn, operands=()):
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(cond_fn, body_fn, carried):
    values = tuple(carried)
    while cond_fn(*values):
        values = tuple(body_fn(*values))
    return values


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    leaves, spec = pytree.tree_flatten(xs)
    count = leaves[0].shape[dim]
    order = range(count - 1, -1, -1) if reverse else range(count)
    carry, rows = init, {}
    for i in order:
        carry, row = combine_fn(carry, pytree.tree_unflatten([leaf.select(dim, i) for leaf in leaves], spec))
        rows[i] = pytree.tree_flatten(row)
    spec = rows[0][1]
    columns = zip(*(rows[i][0] for i in range(count)), strict=False)
    return carry, pytree.tree_unflatten([torch.stack(column, dim) for column in columns], spec)


def map(function, xs, *args):
    leaves, spec = pytree.tree_flatten(xs)
    rows = [
        pytree.tree_flatten(function(pytree.tree_unflatten([leaf[i] for leaf in leaves], spec), *args))
        for i in range(leaves[0].shape[0])
    ]
    return pytree.tree_unflatten(
        [torch.stack(column) for column in zip(*(row for row, _ in rows), strict=False)], rows[0][1]
    )


def checkpoint(function, *args):
    return function(*args)


def vmap(function, xs):
    return torch.stack([function(x) for x in xs])


def grad(function, x):
    """Of a function that gives a number."""
    with torch.enable_grad():
        x = x.view_as(x) if x.requires_grad else x.detach().requires_grad_()
        return torch.autograd.grad(function(x), x, create_graph=True, allow_unused=True, materialize_grads=True)[0]


reference = SimpleNamespace(
    cond=cond, while_loop=while_loop, scan=scan, map=map, checkpoint=checkpoint, vmap=vmap, grad=grad
)
operators = SimpleNamespace(
    cond=torch.cond,
    while_loop=torch_while_loop,
    scan=torch_scan,
    map=torch_map,
    checkpoint=functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=False),
    vmap=lambda function, xs: torch.vmap(function)(xs),
    grad=lambda function, x: torch.func.grad(function)(x),
)
