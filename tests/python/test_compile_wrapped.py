"""Tensors made of others, and autograd Functions, in functions that saker.compile records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import saker
from differential import Halved as Same
from test_aot_subclass import compare
from torch_versions import captures_see_python

BACKENDS = ["aten", "eager"]


def numbers(seed: int) -> torch.Tensor:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))


def two(seed: int = 0) -> TwoTensor:
    return TwoTensor(numbers(seed), numbers(seed + 1)).requires_grad_()


def nested() -> TwoTensor:
    return TwoTensor(two(1).detach(), two(3).detach()).requires_grad_()


def plain(seed: int = 7) -> torch.Tensor:
    return numbers(seed).requires_grad_()


class Scaled(torch.Tensor):
    """One tensor, and a number that its operators use."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor, scale: float) -> Scaled:
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner: torch.Tensor, scale: float) -> None:
        self.inner, self.scale = inner, scale

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["inner"], self.scale

    @staticmethod
    def __tensor_unflatten__(parts: dict, scale: Any, size: Any, stride: Any) -> Scaled:
        return Scaled(parts["inner"], scale)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        scales = [arg.scale for arg in args if isinstance(arg, Scaled)]
        result = func(*[arg.inner if isinstance(arg, Scaled) else arg for arg in args], **(kwargs or {}))
        return Scaled(result * scales[0], scales[0]) if isinstance(result, torch.Tensor) else result


def flattened(value: Any) -> Any:
    if isinstance(value, TwoTensor):
        return ["two", flattened(value.a), flattened(value.b)]
    if isinstance(value, Scaled):
        return ["scaled", flattened(value.inner), value.scale]
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, (list, tuple)):
        return [flattened(item) for item in value]
    return value


def outcome(call: Callable, make: tuple[Callable, ...]) -> Any:
    arguments = [one() for one in make]
    results = call(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    for result in results:
        if result.requires_grad:
            result.sum().backward(retain_graph=True)
    about = [[r.requires_grad, r.is_leaf, type(r).__name__] for r in results]
    return flattened([list(results), about, [argument.grad for argument in arguments]])


def parts(x, y):
    return x.sin() + y, x.a * 2 if isinstance(x, TwoTensor) else x


def inside_of_a_result(x):
    y = x.exp()
    return y * y.a.sum(), y.b


def looped(x, y):
    for i in range(3):
        x = torch.relu(x * y) if i % 2 else x @ y.t() @ y
    return x


def written(x):
    y = x * 2
    y.add_(1)
    y[0].mul_(3)
    return y, y.t()


PROGRAMS: dict[str, tuple[Callable, tuple[Callable, ...]]] = {
    "one": (lambda x: x.sin().cos(), (two,)),
    "nested": (lambda x: (x.sin() * x).sum(0), (nested,)),
    "with a plain one": (lambda x, y: (x * y.detach()).exp(), (two, plain)),
    "a plain one gets a gradient of the class": (lambda x, y: (x * y, y * 2), (two, plain)),
    "nested with a plain one": (lambda x, y: (x * y, y * 2), (nested, plain)),
    "parts": (parts, (two, plain)),
    "inside of a result": (inside_of_a_result, (two,)),
    "a loop": (looped, (two, plain)),
    "written": (written, (two,)),
    "made inside": (lambda x: TwoTensor(x.detach() * 2, x.detach() + 1) * 3, (plain,)),
    "with a number": (lambda x: x.sin() + 1, (lambda: Scaled(numbers(5), 3.0).requires_grad_(),)),
    "without a gradient": (lambda x: x.cos(), (lambda: two().detach(),)),
    "the same one twice": (lambda x, y: x * y + x, (two, two)),
}


@captures_see_python
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_subclass(name: str, backend: str) -> None:
    fn, make = PROGRAMS[name]
    expected = outcome(fn, make)
    compiled = saker.compile(fn, backend=backend, fullgraph=True)
    compare(outcome(compiled, make), expected)
    before = saker.stats()["replays"]
    for _ in range(2):
        compare(outcome(compiled, make), expected)
    assert saker.stats()["replays"] == before + 2


def test_class_and_numbers_are_guarded() -> None:
    def fn(x):
        return x.sin() * 2

    compiled = saker.compile(fn)
    for make in (
        lambda: Scaled(numbers(5), 3.0),
        lambda: Scaled(numbers(5), 4.0),
        two,
        nested,
        plain,
        lambda: Scaled(numbers(5), 3.0),
    ):
        compare(flattened(compiled(make())), flattened(fn(make())))


def test_parameters() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(TwoTensor(numbers(1), numbers(2)))
            self.bias = nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight + self.bias

    def trained(compile: bool) -> list[Any]:
        net = Net()
        call = saker.compile(net, fullgraph=True) if compile else net
        results = []
        for step in range(3):
            result = call(numbers(step))
            result.square().sum().backward()
            results.append(result)
        return flattened([results, net.weight.grad, net.bias.grad])

    compare(trained(True), trained(False))


@captures_see_python
def test_gradient_of_another_class() -> None:
    """The first call is eager mode's; a compiled backward says what it was made for."""
    compiled = saker.compile(lambda x: x.clone())
    compiled(two()).backward(gradient=two(5).detach())
    x = two()
    compiled(x).backward(gradient=two(5).detach())
    compare(flattened(x.grad), flattened(two(5)))
    with pytest.raises(RuntimeError, match="a TwoTensor, and is given a plain tensor"):
        compiled(two()).backward(gradient=numbers(5))


# --- Functions ---

CALLS: list[str] = []


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        CALLS.append("forward")
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x.sin() * factor, x * 2

    @staticmethod
    def backward(ctx, first, second):
        CALLS.append("backward")
        (x,) = ctx.saved_tensors
        return first * x.cos() * ctx.factor * 0.5 + second, None


class Writes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        x.mul_(2)
        return gradient.clone()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: sum(Halved.apply(x * 2, 3.0)).exp(),
        lambda x: Same.apply(x * 1),
        lambda x: Same.apply(x.sin()) * 2,
        lambda x: Writes.apply(x * 1) * 2,
    ],
)
def test_function(fn: Callable, backend: str) -> None:
    def run(call: Callable) -> Any:
        CALLS.clear()
        x = plain()
        result = call(x)
        result.sum().backward()
        return [result.detach(), x.grad, x.detach()], [list(CALLS), result._base is x]

    expected = run(fn)
    compiled = saker.compile(fn, backend=backend, fullgraph=True)
    for replay in (False, True, True):
        before = saker.stats()["replays"]
        got = run(compiled)
        torch.testing.assert_close(got[0], expected[0])
        assert got[1] == expected[1]
        assert saker.stats()["replays"] == before + replay
