"""Operators of ``torch.ops.higher_order`` that call one function under some state."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import saker
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

hop = torch.ops.higher_order
SCALE = [2.0]


def wrapped(x):
    return hop.wrap(lambda v, w: (v @ w).sin() * SCALE[0], x, x + 1)


def without_gradients(x):
    return hop.wrap_with_set_grad_enabled(False, lambda v: v.sin() * 2, x) + x.cos()


def cast(x):
    y = hop.wrap_with_autocast("cpu", torch.bfloat16, True, False, lambda v: v @ v, x)
    assert y.dtype is torch.bfloat16
    return y.float() + x @ x


def bypassed(x):
    def twice(function):
        return lambda v: function(function(v))

    return hop.dynamo_bypassing_wrapper(twice, lambda v: v.sin() + 1, x)


def nested(x):
    return hop.wrap(lambda v: hop.wrap_with_set_grad_enabled(False, lambda u: u * 3, v) * hop.wrap(torch.sin, v), x)


def branch_inside(x):
    return hop.wrap(lambda v: torch.cond(v.sum() > 0, torch.sin, torch.cos, (v,)), x)


PLAIN = {
    wrapped: lambda x: (x @ (x + 1)).sin() * SCALE[0],
    without_gradients: lambda x: (x.sin() * 2).detach() + x.cos(),
    cast: lambda x: (x.bfloat16() @ x.bfloat16()).float() + x @ x,
    bypassed: lambda x: (x.sin() + 1).sin() + 1,
    nested: lambda x: (x * 3).detach() * x.sin(),
    branch_inside: lambda x: x.sin() if x.sum() > 0 else x.cos(),
}


def outcome(function, x):
    x = x.clone().requires_grad_()
    y = function(x)
    return [y.detach(), torch.autograd.grad(y.sum(), x)[0]]


@pytest.mark.parametrize("program", PLAIN, ids=lambda p: p.__name__)
@pytest.mark.parametrize("compiler", ["compile", "aot_function"])
def test_wrappers(compiler, program):
    saker.reset(counts=True)
    compiled = getattr(saker, compiler)(program)
    for scale in (1.0, -1.0, 0.5):
        x = torch.linspace(0.1, 1, 9).view(3, 3) * scale
        torch.testing.assert_close(outcome(compiled, x), outcome(PLAIN[program], x), rtol=1e-4, atol=1e-4)
    if compiler == "compile":
        assert saker.stats()["replays"] == 2, saker.stats()["stops"]


def test_what_functions_read_is_guarded():
    compiled = saker.compile(wrapped)
    x = torch.ones(3, 3)
    try:
        for SCALE[0] in (2.0, 3.0, 2.0):
            torch.testing.assert_close(compiled(x), PLAIN[wrapped](x))
    finally:
        SCALE[0] = 2.0


def test_what_functions_change_is_changed():
    seen = []

    def program(x, y):
        def function(v, w):
            seen.append(v.shape[0])
            w.add_(v)
            return w * 2

        return hop.wrap(function, x, y)

    compiled = saker.compile(program)
    for turn in range(3):
        x, y = torch.ones(3), torch.full((3,), float(turn))
        torch.testing.assert_close(compiled(x, y), torch.full((3,), turn + 1.0) * 2)
        torch.testing.assert_close(y, torch.full((3,), turn + 1.0))
        assert len(seen) == turn + 1


@pytest.mark.parametrize("program", ["wrapped", "without_gradients", "cast", "bypassed"])
def test_pytorchs_compiler_is_not_loaded(program):
    script = f"""
import sys, torch, saker
sys.path[:0] = {sys.path!r}
import test_wrappers
x = torch.rand(3, 3)
saker.compile(test_wrappers.{program})(x)
saker.capture(test_wrappers.{program}, x)
saker.aot_function(test_wrappers.{program})(x)
assert "torch._dynamo" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
