"""Graphs in other forms: torch.fx, Graphviz, HTML; and what importing saker loads."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
import torch
from torch import nn

import saker
from test_zoo import KNOWN, READS_DATA, case_of, forward, seeded, with_gradients
from torch_versions import symbolic_matmul
from zoo import MODELS

WORKING = [name for name in MODELS if (name, "capture") not in KNOWN and (name, False) not in READS_DATA]


@pytest.mark.parametrize("functional", [False, True], ids=["raw", "functional"])
@pytest.mark.parametrize("name", WORKING)
def test_fx_module_equals_eager(name: str, functional: bool) -> None:
    case = case_of(name, training=False)
    for function in (forward, with_gradients):
        fn = function(case)
        graph = saker.capture(fn, *case.inputs)
        module = (graph.functional() if functional else graph).to_fx()
        assert isinstance(module, torch.fx.GraphModule)
        assert torch.is_grad_enabled()
        expected = seeded(fn, *case.inputs)
        got = seeded(module, *case.inputs)
        assert torch.is_grad_enabled()
        torch.testing.assert_close(got, list(expected) if isinstance(expected, list) else [expected])


def test_fx_module_differentiates_and_shares_parameters() -> None:
    model = nn.Linear(3, 2)
    x = torch.randn(4, 3)
    module = saker.capture(model, x).to_fx()
    (result,) = module(x)
    result.sum().backward()
    gradient = model.weight.grad.clone()
    model.weight.grad = None
    model(x).sum().backward()
    torch.testing.assert_close(gradient, model.weight.grad)
    assert {id(p) for p in module.parameters()} == {id(p) for p in model.parameters()}


@symbolic_matmul
@pytest.mark.parametrize("name", ["gpt2", "bert", "t5", "transformer"])
def test_fx_module_with_symbolic_sizes(name: str) -> None:
    case = case_of(name, training=False)
    fn = with_gradients(case)
    module = saker.capture(fn, *case.inputs, dynamic=case.dynamic).to_fx()
    for batch, length in ((7, 11), (3, 9)):
        inputs = case.make_inputs(batch, length)
        torch.testing.assert_close(module(*inputs), fn(*inputs))


def test_fx_module_does_what_the_program_did_to_its_arguments() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x.add_(1)[0].mul_(2)
        (x * w).sum().backward()
        return x.t()

    x = torch.randn(2, 3)
    w = torch.randn(3, requires_grad=True)
    for make in (lambda g: g, lambda g: g.functional()):
        module = make(saker.capture(program, x, w)).to_fx()
        mine, theirs = x.clone(), x.clone()
        w.grad = None
        (got,) = module(mine, w)
        gradient, w.grad = w.grad, None
        torch.testing.assert_close(got, program(theirs, w))
        torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(gradient, w.grad)
        w.grad = None


def test_fx_arguments_that_share_memory() -> None:
    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        return b + 1

    memory = torch.arange(6.0)
    module = saker.capture(program, memory[:4], memory[2:]).to_fx()
    mine, theirs = memory.clone(), memory.clone()
    (got,) = module(mine[:4], mine[2:])
    torch.testing.assert_close(got, program(theirs[:4], theirs[2:]))
    torch.testing.assert_close(mine, theirs)


def test_fx_generator_and_several_results() -> None:
    generator = torch.Generator()

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        values, indices = x.sort()
        noise = torch.rand(3, generator=generator)
        return [*x.split(2), values, indices, noise]

    x = torch.randn(3, 3)
    module = saker.capture(program, x).to_fx()
    generator.manual_seed(1)
    got = module(x)
    generator.manual_seed(1)
    torch.testing.assert_close(got, program(x))


def test_fx_nodes_say_what_they_are() -> None:
    module = saker.capture(lambda x: torch.sin(x).sum(), torch.randn(2, 3)).to_fx()
    sine = next(node for node in module.graph.nodes if node.target is torch.ops.aten.sin.default)
    assert sine.meta["val"].shape == (2, 3)
    assert "test_capture_convert.py" in sine.meta["stack_trace"]
    assert sine.meta["type"] == "f32[2, 3]"


def test_dot_and_html() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    graph = saker.capture(model, torch.randn(4, 3))
    dot = graph.to_dot()
    assert dot.startswith("digraph")
    assert dot.count(" -> ") >= len(graph)
    assert "aten::relu" in dot
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg"], input=dot.encode(), check=True, stdout=subprocess.DEVNULL)
    shown = graph._repr_html_()
    assert "aten::relu" in shown
    assert "<script" not in shown
    assert shown.count("<tr>") == len(graph) + 3 + 2  # parameters, the head, `return`


LOADED = """
import sys
import torch
before = set(sys.modules)
import saker
print([name for name in sorted(set(sys.modules) - before) if not name.startswith("saker")])
"""


def test_importing_saker_loads_none_of_the_other_compiler() -> None:
    found = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True).stdout
    loaded = [name.strip(" '") for name in found.strip().strip("[]").split(",")]
    heavy = ("torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd", "torch.fx")
    assert [name for name in loaded if name.startswith(heavy)] == []
