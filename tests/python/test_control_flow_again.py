"""Control flow differentiated again, for several gradients at a time, and in checkpoints inside of checkpoints."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import saker
from control_flow import operators, reference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place


def writes(o: Any, v: torch.Tensor) -> torch.Tensor:
    def taken(v: torch.Tensor) -> torch.Tensor:
        w = v.clone()
        w[0] = v[1] * v[2]
        w[1:].mul_(2)
        return w * v

    return o.cond(v.sum() > 0, taken, lambda v: v * v * v, (v,))


def writes_in_loop(o: Any, v: torch.Tensor) -> torch.Tensor:
    def step(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        w = c.clone()
        w[0] = x * v[1]
        return w * c, w.sin()

    return o.scan(step, v, v)[1]


def loop(o: Any, v: torch.Tensor) -> torch.Tensor:
    return o.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * a.sin() * v), (torch.tensor(0), v))[1]


def branch(o: Any, v: torch.Tensor) -> torch.Tensor:
    return o.cond(v.sum() > 0, lambda v: v * v.sin(), lambda v: v * v, (v,))


def scanned(o: Any, v: torch.Tensor) -> torch.Tensor:
    return o.scan(lambda c, x: (c * x, c.sin() * x), v, v)[1].sum(0)


PROGRAMS = {function.__name__: function for function in (writes, writes_in_loop, loop, branch, scanned)}


def start() -> torch.Tensor:
    return torch.tensor([0.5, 2.0, 1.5], requires_grad=True)


def second(function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    x = start()
    first = torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]
    return torch.autograd.grad((first * first).sum(), x)[0]


def batched(function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    x = start()
    y = function(x)
    basis = torch.eye(y.numel()).reshape(y.numel(), *y.shape)
    return torch.autograd.grad(y, x, basis, is_grads_batched=True)[0]


@pytest.mark.parametrize("what", [second, batched])
@pytest.mark.parametrize("way", ["compile", "aot", "deferred", "result of a block"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_gradients_and_batches(name: str, way: str, what: Callable) -> None:
    program = PROGRAMS[name]
    expected = what(lambda v: program(reference, v))

    def deferred(v: torch.Tensor) -> torch.Tensor:
        with saker.deferred():
            return program(operators, v)

    compiled = {"compile": saker.compile, "aot": saker.aot_function}.get(way, lambda f: f)(
        lambda v: program(operators, v)
    )
    for _ in range(3):
        if way == "deferred":
            with saker.deferred():
                found = what(compiled)
        else:
            found = what(deferred if way == "result of a block" else compiled)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("loaded", [False, True], ids=["", "with PyTorch's compiler loaded"])
@pytest.mark.parametrize("name", ["branch", "loop", "scanned"])
def test_a_checkpoint_in_a_compiled_function_in_a_checkpoint(name: str, loaded: bool) -> None:
    if loaded:
        importlib.import_module("torch._dynamo")

    def checkpointed(o: Any, v: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda v: PROGRAMS[name](o, v).exp() * v, v, use_reentrant=False)

    expected_input = start()
    expected = torch.autograd.grad(checkpointed(reference, expected_input).sum(), expected_input)[0]
    compiled = saker.compile(lambda v: checkpointed(operators, v))
    for outside in (True, True, False, True):
        x = start()
        y = checkpoint(compiled, x, use_reentrant=False) if outside else compiled(x)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], expected)


def test_such_checkpoints_do_not_start_the_compiler_of_pytorch() -> None:
    program = """
import sys, torch, saker
from torch.utils.checkpoint import checkpoint
def inner(v):
    return torch.cond(v.sum() > 0, lambda v: v * v.sin(), lambda v: v * v, (v,))
compiled = saker.compile(lambda v: checkpoint(inner, v, use_reentrant=False))
for _ in range(2):
    x = torch.ones(3, requires_grad=True)
    checkpoint(compiled, x, use_reentrant=False).sum().backward()
assert "torch._dynamo.symbolic_convert" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
