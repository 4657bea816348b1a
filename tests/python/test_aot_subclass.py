"""Tensor subclasses made of other tensors, operators of the user, and effects, through saker.aot_function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import saker
from torch_versions import captures_see_python

PARTITIONS = ["min_cut", "default"]


def two(seed: int = 0, requires_grad: bool = True) -> TwoTensor:
    generator = torch.Generator().manual_seed(seed)
    made = TwoTensor(torch.randn(3, 4, generator=generator), torch.randn(3, 4, generator=generator))
    return made.requires_grad_(requires_grad)


def nested() -> TwoTensor:
    return TwoTensor(two(1, False), two(2, False)).requires_grad_()


def plain(seed: int = 5) -> torch.Tensor:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def flattened(value: Any) -> Any:
    """Tensors at the bottom, and what is around them."""
    if isinstance(value, TwoTensor):
        return ["two", flattened(value.a), flattened(value.b), value.requires_grad]
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, (list, tuple)):
        return [flattened(item) for item in value]
    return value


def compare(got: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected)
    elif isinstance(expected, list):
        assert isinstance(got, list)
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            compare(a, b)
    else:
        assert got == expected


def outcome(fn: Callable, make: tuple[Callable[[], torch.Tensor], ...]) -> Any:
    arguments = [one() for one in make]
    result = fn(*arguments)
    outputs = [t for t in (result if isinstance(result, tuple) else (result,)) if isinstance(t, torch.Tensor)]
    for output in outputs:
        if output.requires_grad:
            output.sin().sum().backward(retain_graph=True)
    return flattened([outputs, [argument.grad for argument in arguments]])


PROGRAMS: dict[str, tuple[Callable, tuple[Callable, ...]]] = {
    "one": (lambda x: x.sin() * 2, (two,)),
    "with a plain one": (lambda x, y: (x * y).exp(), (two, plain)),
    "results of both kinds": (lambda x, y: (x * 2, y.sin(), x + y), (two, plain)),
    "matrices": (lambda x, y: torch.softmax(x @ y.t(), -1), (two, plain)),
    "nested": (lambda x: (x.sin() * x).sum(0), (nested,)),
    "nested and plain": (lambda x, y: (x * y, y * 2), (nested, plain)),
    "made inside": (lambda x: TwoTensor(x.detach() * 2, x.detach() + 1) * 3, (plain,)),
    "without a gradient": (lambda x: x.cos(), (lambda: two(0, False),)),
    "twice": (lambda x, y: x * y + x, (two, lambda: two(3))),
}


@captures_see_python
@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_subclass(name: str, partition: str) -> None:
    fn, make = PROGRAMS[name]
    compiled = saker.aot_function(fn, partition_fn=partition)
    expected = outcome(fn, make)
    for _ in range(2):
        compare(outcome(compiled, make), expected)


@captures_see_python
def test_graphs_are_of_plain_tensors() -> None:
    graphs = []

    def compiler(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable:
        graphs.append(graph)
        assert not any(isinstance(example, TwoTensor) for example in examples)
        return graph

    saker.aot_function(lambda x: x.sin(), fw_compiler=compiler)(two()).sum().backward()
    assert len(graphs) == 2
    assert sum(node.target is torch.ops.aten.sin.default for node in graphs[0].graph.nodes) == 2


@captures_see_python
def test_parameters() -> None:
    def trained(compile: bool) -> list[Any]:
        module = nn.Linear(4, 3)
        module.weight = nn.Parameter(two(7, False))
        module.bias = nn.Parameter(torch.ones(3))
        call = saker.aot_module(module) if compile else module
        for _ in range(2):
            call(plain().detach()).square().sum().backward()
        return flattened([module.weight.grad, module.bias.grad])

    compare(trained(True), trained(False))


@captures_see_python
def test_gradients_that_the_graphs_cannot_give() -> None:
    """Where autograd is to follow, or a plain result is given a gradient of a class, the function is called again."""

    def program(x, y):
        return x * y, y * y

    def twice(fn: Callable) -> Any:
        x, y = two(), plain()
        (first,) = torch.autograd.grad(fn(x, y)[0].sum(), x, create_graph=True)
        return flattened([first, *torch.autograd.grad(first.sin().sum(), [x, y], allow_unused=True)])

    def mixed(fn: Callable) -> Any:
        x, y = two(), plain()
        first, second = fn(x, y)
        (first + second).sum().backward()
        return flattened([x.grad, y.grad])

    compiled = saker.aot_function(program)
    for _ in range(2):
        compare(twice(compiled), twice(program))
        compare(mixed(compiled), mixed(program))


@captures_see_python
def test_each_class_has_its_own_graph() -> None:
    compiled = saker.aot_function(lambda x: x.sin())
    for value in (two(), plain(), nested(), two(4)):
        compare(flattened(compiled(value)), flattened(value.sin()))


# --- operators of the user ---

CALLS: list[str] = []


@torch.library.custom_op("saker_test::scaled_sin", mutates_args=())
def scaled_sin(x: torch.Tensor, scale: float) -> torch.Tensor:
    CALLS.append("scaled_sin")
    return x.sin() * scale


@scaled_sin.register_fake
def _(x, scale):
    return torch.empty_like(x)


def _setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]


scaled_sin.register_autograd(lambda ctx, g: (g * ctx.saved_tensors[0].cos() * ctx.scale, None), setup_context=_setup)


@torch.library.custom_op("saker_test::log", mutates_args=())
def log(x: torch.Tensor, what: str) -> None:
    CALLS.append(f"{what} {x.sum():.3f}")


@log.register_fake
def _(x, what):
    return None


LIBRARY = torch.library.Library("saker_test2", "FRAGMENT")
LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
LIBRARY.impl("twice", torch.empty_like, "Meta")
LIBRARY.define("composite(Tensor x) -> Tensor")
LIBRARY.impl("composite", lambda x: x.sin() + 1, "CompositeImplicitAutograd")


@pytest.mark.parametrize("partition", PARTITIONS)
def test_custom_operator_with_a_formula(partition: str) -> None:
    def fn(x):
        return scaled_sin(x * 2, 3.0).exp()

    x = plain()
    expected = torch.autograd.grad(fn(x).sum(), x)
    compiled = saker.aot_function(fn, partition_fn=partition)
    for _ in range(2):
        CALLS.clear()
        result = compiled(x)
        torch.testing.assert_close(torch.autograd.grad(result.sum(), x), expected)
        torch.testing.assert_close(result, fn(x))
        assert CALLS == ["scaled_sin", "scaled_sin"]  # once here, once by eager mode


def test_operators_of_a_library() -> None:
    def fn(x):
        return torch.ops.saker_test2.composite(torch.ops.saker_test2.twice(x.detach()) + x)

    x = plain()
    compiled = saker.aot_function(fn)
    torch.testing.assert_close(compiled(x), fn(x))
    torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x), torch.autograd.grad(fn(x).sum(), x))


@pytest.mark.parametrize("partition", PARTITIONS)
def test_effects_come_in_order_and_once(partition: str) -> None:
    def fn(x):
        log(x, "first")
        y = x.sin()
        log(y, "second")
        log(y * 2, "third")
        return y.exp()

    def run(call: Callable) -> list[str]:
        CALLS.clear()
        x = plain()
        call(x).sum().backward()
        return list(CALLS)

    expected = run(fn)
    compiled = saker.aot_function(fn, partition_fn=partition)
    assert len(expected) == 3
    run(compiled)  # compiles, which must not run effects of its own
    assert run(compiled) == expected


def test_compiling_runs_no_effect() -> None:
    compiled = saker.aot_function(lambda x: (log(x, "one"), x * 2)[1])
    CALLS.clear()
    compiled(plain())
    assert len(CALLS) == 1


def test_printing(capfd: pytest.CaptureFixture) -> None:
    def fn(x):
        torch.ops.aten._print("before")
        y = x.sin()
        torch.ops.aten._print("after")
        return y

    compiled = saker.aot_function(fn)
    for _ in range(2):
        compiled(plain()).sum().backward()
        assert capfd.readouterr().out.split() == ["before", "after"]


def test_operators_of_the_user_are_differentiated_twice() -> None:
    with torch.library._scoped_library("aot_twice_test", "FRAGMENT"):

        @torch.library.custom_op("aot_twice_test::cube", mutates_args=())
        def cube(x: torch.Tensor) -> torch.Tensor:
            return x * x * x

        cube.register_fake(torch.empty_like)
        cube.register_autograd(
            lambda ctx, gradient: gradient * 3 * ctx.saved_tensors[0] ** 2,
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        )
        x = torch.randn(4, requires_grad=True)
        y = saker.aot_function(lambda t: cube(t).sin())(x)
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        expected = (x**3).sin()
        (plain,) = torch.autograd.grad(expected.sum(), x, create_graph=True)
        torch.testing.assert_close(first, plain)
        torch.testing.assert_close(second, torch.autograd.grad(plain.sum(), x)[0])


@captures_see_python
def test_sizes_of_a_subclass_that_change() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x.transpose_(0, 1)
        return x * 2

    compiled = saker.aot_function(fn)
    for _ in range(2):
        x, same = two(0, False), two(0, False)
        compare(flattened(compiled(x)), flattened(fn(same)))
        assert x.shape == same.shape == (4, 3)


def test_a_formula_that_writes_in_the_backward() -> None:
    with torch.library._scoped_library("aot_write_test", "FRAGMENT"):

        @torch.library.custom_op("aot_write_test::copied", mutates_args=())
        def copied(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
            return x.clone()

        def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
            with torch.no_grad():
                ctx.other.zero_()
            return gradient * 2, None

        copied.register_fake(lambda x, other: torch.empty_like(x))
        copied.register_autograd(backward, setup_context=lambda ctx, inputs, output: setattr(ctx, "other", inputs[1]))
        x, other = torch.ones(3, requires_grad=True), torch.ones(3)
        y = saker.aot_function(lambda a, b: copied(a, b) + 1)(x, other)
        assert torch.equal(other, torch.ones(3))
        y.sum().backward()
        assert torch.equal(other, torch.zeros(3))
        assert torch.equal(x.grad, torch.full((3,), 2.0))


@captures_see_python
def test_a_subclass_given_twice() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y

    graphs = saker.stats()["graphs"]
    x, same = nested(), nested()
    saker.aot_function(fn)(x, x).sum().backward()
    fn(same, same).sum().backward()
    compare(flattened(x.grad), flattened(same.grad))
    assert saker.stats()["graphs"] == graphs + 1


def test_nested_tensors_run_in_eager_mode() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin() * 2, y.cos()

    def outcome(fn: Callable, x: torch.Tensor) -> list[torch.Tensor]:
        given = x.detach().requires_grad_()
        y = plain()
        ragged, dense = fn(given, y)
        (ragged.values().sum() + dense.sum()).backward()
        assert ragged.shape == given.shape
        return [ragged.values().detach(), dense.detach(), given.grad.values(), y.grad]

    compiled = saker.aot_function(program)
    for rows in (2, 3):
        parts = [torch.arange(2.0 * rows).reshape(rows, 2), torch.arange(6.0).reshape(3, 2)]
        x = torch.nested.nested_tensor(parts, layout=torch.jagged)
        for found, expected in zip(outcome(compiled, x), outcome(program, x), strict=True):
            assert torch.equal(found, expected)
