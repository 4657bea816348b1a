"""First and second derivatives of control flow, whose bodies call operators with all kinds of gradient formulas: some
ask for data, some write in place, some hide what they do from autograd."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import saker
from control_flow import operators, reference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

# Of a row of four positive numbers.
FORMULAS = {
    "cumprod": lambda v: v.cumprod(0),
    "prod": lambda v: v * v.prod(),
    "median": lambda v: v * v.median(),
    "amax": lambda v: v * v.amax(),
    "max": lambda v: v * v.max(),
    "max along a dim": lambda v: v * v.max(0).values,
    "norm": lambda v: v * v.norm(),
    "std": lambda v: v * v.std(),
    "var_mean": lambda v: v * torch.var_mean(v)[0],
    "sort": lambda v: v.sort().values * v,
    "topk": lambda v: torch.cat([v.topk(2).values, v[:2]]),
    "index": lambda v: v[[2, 0, 1, 1]] * v,
    "gather": lambda v: v.gather(0, torch.tensor([3, 3, 0, 1])) * v,
    "scatter": lambda v: torch.zeros(4).scatter(0, torch.tensor([3, 1, 0, 2]), v * v),
    "index_put": lambda v: torch.zeros(4).index_put((torch.tensor([1, 2, 0, 0]),), v * v, accumulate=True),
    "masked_fill": lambda v: v.masked_fill(v > 1.0, 0.5) * v,
    "where": lambda v: torch.where(v > 1.0, v * v, v.sin()),
    "clamp": lambda v: v.clamp(0.8, 1.2) * v,
    "layer_norm": lambda v: F.layer_norm(v, (4,)),
    "batch_norm": lambda v: F.batch_norm(v.view(2, 2), None, None, training=True).view(4) * v,
    "softmax": lambda v: v.softmax(0) * v,
    "log_softmax": lambda v: v.log_softmax(0) * v,
    "silu": F.silu,
    "gelu": F.gelu,
    "softplus": F.softplus,
    "matmul": lambda v: torch.outer(v, v) @ v,
    "conv1d": lambda v: F.conv1d(v.view(1, 1, 4), v[:3].view(1, 1, 3), padding=1).view(4),
    "max_pool1d": lambda v: F.max_pool1d(v.view(1, 1, 4), 3, 1, 1).view(4) * v,
    "logsumexp": lambda v: v * v.logsumexp(0),
    "cross_entropy": lambda v: v * F.cross_entropy(v.view(2, 2), torch.tensor([0, 1])),
    "local writes": lambda v: (v * 2).mul_(v).add_(v.sin()),
    "a slice is written": lambda v: torch.zeros(4).index_fill(0, torch.tensor(1), 2.0).add_(v).mul_(v),
    "detached": lambda v: v * v.detach() + v.detach().sin(),
}

OPERATORS = {
    "cond": lambda o, body, x: o.cond(x.sum() > 0, lambda v: body(v[0]) * v[1], lambda v: v[0].cos(), (x,)),
    "scan": lambda o, body, x: o.scan(lambda c, r: (body(c * 0.1 + r), c * 2), x[0] * 1, x)[1],
    "map": lambda o, body, x: o.map(body, x),
}


def derivatives(function, x):
    x = x.clone().requires_grad_()
    y = function(x)
    (first,) = torch.autograd.grad(y.sin().sum(), x, create_graph=True)
    second = torch.autograd.grad((first**2).sum(), x)[0] if first.requires_grad else torch.zeros(())
    return y.detach(), first.detach(), second


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("compiler", [saker.compile, saker.aot_function])
def test_derivatives(compiler, formula, operator):
    call, body = OPERATORS[operator], FORMULAS[formula]
    compiled = compiler(lambda x: call(operators, body, x))
    for seed in range(2):
        x = torch.rand(3, 4, generator=torch.Generator().manual_seed(seed)) + 0.5
        expected = derivatives(lambda v: call(reference, body, v), x)
        torch.testing.assert_close(derivatives(compiled, x), expected, rtol=1e-3, atol=1e-4)
