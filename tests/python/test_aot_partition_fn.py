"""A ``partition_fn`` of the user's is called with the joint graph, and the halves that it makes are what runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition

import saker


def program(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = (x @ w).sin()
    return y * w, (y.exp() + 1).sum()


def gradients(fn: Callable, *args: torch.Tensor, weights: tuple[float, ...] = (1.0, 2.0)) -> list[torch.Tensor]:
    results = fn(*args)
    loss = sum(result.sum() * weight for result, weight in zip(results, weights, strict=True) if weight)
    return [*(result.detach() for result in results), *torch.autograd.grad(loss, args)]


def same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    return len(found) == len(expected) and all(map(torch.allclose, found, expected))


class Partitioner:
    """Hands the work to PyTorch's own, and notes what it was called with."""

    def __init__(self, inner: Callable = default_partition) -> None:
        self.inner = inner
        self.calls: list[tuple] = []
        self.made: Any = None

    def __call__(self, joint: Any, inputs: Any, *, num_fwd_outputs: int) -> Any:
        self.calls.append((joint, inputs, num_fwd_outputs))
        self.made = self.inner(joint, inputs, num_fwd_outputs=num_fwd_outputs)
        return self.made


def arguments() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.rand(4, 4, requires_grad=True), torch.rand(4, 4, requires_grad=True)


@pytest.mark.parametrize("inner", [default_partition, min_cut_rematerialization_partition])
@pytest.mark.parametrize("dynamic", [False, True])
def test_it_is_called(inner: Callable, dynamic: bool) -> None:
    partitioner = Partitioner(inner)
    compiled = saker.aot_function(program, partition_fn=partitioner, dynamic=dynamic)
    for _ in range(3):
        assert same(gradients(compiled, *arguments()), gradients(program, *arguments()))
    ((joint, inputs, results),) = partitioner.calls
    assert isinstance(joint, torch.fx.GraphModule)
    names = [node.name for node in joint.graph.nodes if node.op == "placeholder"]
    assert names == ["primals_1", "primals_2", "tangents_1", "tangents_2"]
    assert [len(part) for part in inputs] == [2, 2]
    assert results == 2
    if dynamic:
        x, w = torch.rand(7, 7, requires_grad=True), torch.rand(7, 7, requires_grad=True)
        assert same(gradients(compiled, x, w), gradients(program, x, w))
        assert len(partitioner.calls) == 1


def test_its_halves_run() -> None:
    ran: list[str] = []

    def note(module: torch.fx.GraphModule, name: str) -> torch.fx.GraphModule:
        forward = module.forward
        module.forward = lambda *inputs: (ran.append(name), forward(*inputs))[1]
        return module

    def partition(joint: Any, inputs: Any, *, num_fwd_outputs: int) -> Any:
        first, second = default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)
        return note(first, "forward"), note(second, "backward")

    compiled = saker.aot_function(program, partition_fn=partition)
    for _ in range(2):
        assert same(gradients(compiled, *arguments()), gradients(program, *arguments()))
    assert ran == ["forward", "backward"] * 2


def test_compilers_get_its_halves() -> None:
    partitioner = Partitioner()
    seen: list[Any] = []

    def compiler(module: Any, examples: Any) -> Any:
        seen.append(module)
        return module

    compiled = saker.aot_function(program, fw_compiler=compiler, partition_fn=partitioner)
    assert same(gradients(compiled, *arguments()), gradients(program, *arguments()))
    assert seen == list(partitioner.made)


def test_names_do_not_decide() -> None:
    calls = []

    def my_default_partition(joint: Any, inputs: Any, *, num_fwd_outputs: int) -> Any:
        calls.append(num_fwd_outputs)
        return default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)

    gradients(saker.aot_function(program, partition_fn=my_default_partition), *arguments())
    gradients(saker.aot_function(program, partition_fn=functools.partial(my_default_partition)), *arguments())
    assert calls == [2, 2]


@pytest.mark.parametrize(
    "known", ["default", "min_cut", default_partition, functools.partial(min_cut_rematerialization_partition)]
)
def test_pytorchs_own_are_saker_s(known: Any) -> None:
    assert same(
        gradients(saker.aot_function(program, partition_fn=known), *arguments()), gradients(program, *arguments())
    )


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0)])
def test_some_tangents(weights: tuple[float, ...]) -> None:
    compiled = saker.aot_function(program, partition_fn=Partitioner())
    for _ in range(2):
        found = gradients(compiled, *arguments(), weights=weights)
        assert same(found, gradients(program, *arguments(), weights=weights))


def test_a_missing_tangent_meets_no_infinity() -> None:
    def roots(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, x.sqrt()

    x = torch.zeros(3, requires_grad=True)
    y, _ = saker.aot_function(roots, partition_fn=Partitioner())(x)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], torch.full((3,), 2.0))


def test_twice_and_again() -> None:
    compiled = saker.aot_function(lambda x: (x.sin() * x,), partition_fn=Partitioner())
    x = torch.rand(3, requires_grad=True)
    (y,) = compiled(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.allclose(second, 2 * x.cos() - x * x.sin())
    (y,) = compiled(x)
    first, again = (torch.autograd.grad(y.sum(), x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, again)


def test_writes_and_views() -> None:
    def writes(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x.mul_(w)
        return x[0] * 2

    def outcome(fn: Callable) -> list[torch.Tensor]:
        w = torch.full((2,), 3.0, requires_grad=True)
        leaf = torch.ones(2, 2, requires_grad=True)
        x = leaf * 1
        y = fn(x, w)
        (y.sum() + x.sum()).backward()
        return [x.detach(), y.detach(), leaf.grad, w.grad, torch.tensor(x._version)]

    compiled = saker.aot_function(writes, partition_fn=Partitioner())
    for _ in range(2):
        assert same(outcome(compiled), outcome(writes))


def test_it_is_not_called_where_nothing_is_differentiated() -> None:
    partitioner = Partitioner()
    x, w = (tensor.detach() for tensor in arguments())
    found = saker.aot_function(program, partition_fn=partitioner)(x, w)
    assert all(map(torch.equal, found, program(x, w)))
    assert partitioner.calls == []


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda first, second: None, "must give two graph modules, not a NoneType"),
        (lambda first, second: (first,), "must give two graph modules, not a tuple"),
        (lambda first, second: (first, 3), "must give two graph modules; one is a int"),
        (lambda first, second: (second, first), "the forward of partition_fn takes"),
        (lambda first, second: (first, first), "the backward of partition_fn takes"),
    ],
)
def test_halves_that_do_not_fit(made: Callable, told: str) -> None:
    def partition(joint: Any, inputs: Any, *, num_fwd_outputs: int) -> Any:
        return made(*default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs))

    with pytest.raises(saker.BackendError, match=told):
        saker.aot_function(lambda x: x.sin() * x.cos(), partition_fn=partition)(torch.rand(3, requires_grad=True))


@pytest.mark.parametrize(("wrong", "error"), [("best", saker.OptionError), (3, TypeError), (None, TypeError)])
def test_partitioners_that_are_none(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match='partition_fn must be "min_cut", "default" or a function'):
        saker.aot_function(program, partition_fn=wrong)
