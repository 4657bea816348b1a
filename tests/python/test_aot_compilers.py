"""What compilers that are not Saker's get, and how what they give is called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functorch.compile import (
    default_partition,
    make_boxed_compiler,
    make_boxed_func,
    min_cut_rematerialization_partition,
)
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import saker


def program(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = (x @ w).sin()
    return y.sum(), y.t()


class Compiler:
    """Keeps what it is given."""

    def __init__(self, wrap: Callable = lambda module: module) -> None:
        self.modules: list[torch.fx.GraphModule] = []
        self.examples: list[list[Any]] = []
        self.wrap = wrap

    def __call__(self, module: torch.fx.GraphModule, examples: list[Any]) -> Callable:
        self.modules.append(module)
        self.examples.append(examples)
        return self.wrap(module)


def arguments() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(6.0).reshape(2, 3).requires_grad_(), torch.arange(12.0).reshape(3, 4).cos().requires_grad_()


def outcome(fn: Callable[..., Any]) -> list[torch.Tensor]:
    args = arguments()
    total, seen = fn(*args)
    (total + seen.square().sum()).backward()
    return [total.detach(), seen.detach(), *(a.grad for a in args)]


PARTITIONS = {
    "name": "min_cut",
    "default": default_partition,
    "min cut": min_cut_rematerialization_partition,
    "partial": functools.partial(min_cut_rematerialization_partition, compiler="inductor"),
}


@pytest.mark.parametrize("wrap", [lambda m: m, make_boxed_func, lambda m: m.forward], ids=["module", "boxed", "plain"])
@pytest.mark.parametrize("partition", PARTITIONS)
def test_results_through_compilers(partition: str, wrap: Callable) -> None:
    forward, backward = Compiler(wrap), Compiler(wrap)
    compiled = saker.aot_function(program, forward, backward, PARTITIONS[partition])
    for _ in range(2):
        torch.testing.assert_close(outcome(compiled), outcome(program))
    assert len(forward.modules) == len(backward.modules) == 1


def test_boxed_compilers_of_torch() -> None:
    compiler = make_boxed_compiler(Compiler())
    torch.testing.assert_close(outcome(saker.aot_function(program, compiler)), outcome(program))


def names(module: torch.fx.GraphModule) -> tuple[list[str], list[str]]:
    inputs = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    (end,) = [node for node in module.graph.nodes if node.op == "output"]
    return inputs, [getattr(value, "name", None) for value in end.args[0]]


def test_names_of_inputs_and_saved_values() -> None:
    forward, backward = Compiler(), Compiler()
    outcome(saker.aot_function(program, forward, backward))
    inputs, outputs = names(forward.modules[0])
    assert inputs == ["primals_1", "primals_2"]
    saved, gradients = names(backward.modules[0])
    tangents = [name for name in saved if name.startswith("tangents_")]
    assert saved[len(saved) - len(tangents) :] == tangents
    assert outputs[-(len(saved) - len(tangents)) :] == saved[: len(saved) - len(tangents)]
    assert len(gradients) == 2
    inference = Compiler()
    saker.aot_function(program, inference)(*(a.detach() for a in arguments()))
    assert names(inference.modules[0])[0] == ["arg0_1", "arg1_1"]


def test_examples_and_values_have_no_data() -> None:
    forward, backward = Compiler(), Compiler()
    outcome(saker.aot_function(program, forward, backward))
    assert [tuple(e.shape) for e in forward.examples[0]] == [(2, 3), (3, 4)]
    for compiler in (forward, backward):
        assert all(isinstance(example, FakeTensor) for example in compiler.examples[0])
        for node in compiler.modules[0].graph.nodes:
            assert "val" in node.meta, node
    modes = {example.fake_mode for example in (*forward.examples[0], *backward.examples[0])}
    assert len(modes) == 1


def test_graphs_do_not_write_or_switch_autograd() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[0].mul_(2)
        return x @ w

    compiler = Compiler()
    saker.aot_function(fn, compiler)(*arguments()).sum().backward()
    for module in compiler.modules:
        for node in module.graph.nodes:
            if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
                assert not node.target._schema.is_mutable, node
            assert node.target is not torch._C._set_grad_enabled


def test_written_arguments_through_a_compiler() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1

    for keep in (False, True):
        x = torch.ones(3)
        got = saker.aot_function(fn, Compiler(), keep_inference_input_mutations=keep)(x)
        torch.testing.assert_close((x, got), (torch.full((3,), 2.0), torch.full((3,), 3.0)))


def test_decompositions_in_both_graphs() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (3,))).sum()

    aten = torch.ops.aten
    table = torch._decomp.get_decompositions(
        [aten.gelu, aten.gelu_backward, aten.native_layer_norm, aten.native_layer_norm_backward]
    )
    compiler = Compiler()
    x = torch.randn(4, 3, requires_grad=True)
    saker.aot_function(fn, compiler, decompositions=table)(x).backward()
    expected = torch.autograd.grad(fn(x), x)[0]
    torch.testing.assert_close(x.grad, expected)
    used = {node.target for module in compiler.modules for node in module.graph.nodes}
    assert not used & set(table)


def test_fake_arguments_of_a_simplified_module() -> None:
    module = nn.Linear(3, 2)
    x = torch.randn(4, 3)
    mode = FakeTensorMode()
    compiler = Compiler()
    compiled = saker.aot_module_simplified(module, (mode.from_tensor(x),), compiler)
    torch.testing.assert_close(compiled(x), module(x))
    assert compiler.examples[0][0].fake_mode is mode


def test_a_replaced_buffer_is_replaced() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Module()
            self.inner.register_buffer("steps", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.inner.steps = self.inner.steps + 1
            return x * self.inner.steps

    eager, ours = Counts(), Counts()
    compiled = saker.aot_module(ours)
    for _ in range(3):
        torch.testing.assert_close(compiled(torch.ones(2)), eager(torch.ones(2)))
    assert ours.inner.steps == eager.inner.steps == 3


def test_fake_examples_that_are_no_leaves() -> None:
    class Doubled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2)

    leaf = torch.ones(3, requires_grad=True)
    fake = FakeTensorMode().from_tensor(leaf.clone())
    compiled = saker.aot_module_simplified(Doubled(), (fake,), Compiler())
    compiled(leaf.clone()).sum().backward()
    assert torch.equal(leaf.grad, torch.full((3,), 2.0))
