"""What a replay could not do as eager mode does it runs eagerly, with a reason that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch

import saker

Tensor = torch.Tensor


def reasons(compile: Callable[..., Any], calls: Callable[[Callable[..., Any]], None], function: Any) -> dict[str, int]:
    saker.reset()
    before = saker.stats()
    calls(compile(function))
    after = saker.stats()
    return {
        name: count - before[kind].get(name, 0)
        for kind in ("stops", "instead")
        for name, count in after[kind].items()
        if count > before[kind].get(name, 0)
    }


# --- classes with a __torch_function__ of their own ---


class Asked(torch.Tensor):
    calls: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Named(torch.Tensor):
    pass


def registers(x: Tensor) -> Tensor:
    y = x * 2
    y.register_hook(lambda grad: grad * 2)
    return y


def registers_afterwards(x: Tensor) -> Tensor:
    x.register_post_accumulate_grad_hook(lambda x: None)
    return x * 2


def differentiates(x: Tensor) -> Tensor:
    return torch.autograd.grad((x * x).sum(), x, create_graph=True)[0]


def clears(x: Tensor) -> Tensor:
    x.grad = None
    return x * 2


@pytest.mark.parametrize("function", [registers, registers_afterwards, differentiates, clears])
def test_what_a_class_is_asked(function: Callable) -> None:
    def calls(call: Callable) -> list[str]:
        x = torch.ones(3).as_subclass(Asked).requires_grad_()
        Asked.calls.clear()
        call(x)
        return list(Asked.calls)

    def several(compiled: Callable) -> None:
        for _ in range(3):
            assert calls(compiled) == calls(function)

    assert "asks-class-of-gradients" in reasons(saker.compile, several, function)


@pytest.mark.parametrize("function", [registers, registers_afterwards, clears])
def test_classes_that_answer_nothing_are_replayed(function: Callable) -> None:
    compiled = saker.compile(function, fullgraph=True)
    before = saker.stats()["replays"]
    for _ in range(3):
        x = torch.ones(3).as_subclass(Named).requires_grad_()
        result = compiled(x)
        assert torch.equal(result, function(torch.ones(3, requires_grad=True)))
        assert type(result) is Named
    assert saker.stats()["replays"] > before


# --- lists that a Function keeps ---


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factors):
        ctx.factors = factors
        return x * factors[0]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factors[0], None


FACTORS: Any = [2.0]
NESTED: Any = [[2.0]]


def of_a_global(x: Tensor) -> Tensor:
    return Scaled.apply(x, FACTORS)


def of_a_part(x: Tensor) -> Tensor:
    return Scaled.apply(x, NESTED[0])


def changed_inside(x: Tensor) -> Tensor:
    factors = [2.0]
    y = Scaled.apply(x, factors)
    factors[0] = 5.0
    return y


@pytest.mark.parametrize("function", [of_a_global, of_a_part, changed_inside])
def test_a_function_keeps_a_list_that_changes(function: Callable) -> None:
    def gradient(call: Callable) -> list[float]:
        x = torch.ones(3, requires_grad=True)
        FACTORS[0] = NESTED[0][0] = 2.0
        y = call(x)
        FACTORS[0] = NESTED[0][0] = 5.0
        return torch.autograd.grad(y.sum(), x)[0].tolist()

    compiled = saker.compile(function)
    for _ in range(4):
        assert gradient(compiled) == gradient(function)


def test_a_function_keeps_a_dict_that_changes() -> None:
    class Of(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factors):
            ctx.factors = factors
            return x * factors["a"]

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factors["a"], None

    factors = {"a": 2.0}

    def gradient(call: Callable) -> list[float]:
        x = torch.ones(3, requires_grad=True)
        factors["a"] = 2.0
        y = call(x)
        factors["a"] = 5.0
        return torch.autograd.grad(y.sum(), x)[0].tolist()

    compiled = saker.compile(lambda x: Of.apply(x, factors))
    for _ in range(4):
        assert gradient(compiled) == [5.0] * 3


def test_a_list_from_outside_that_stays_is_replayed() -> None:
    factors = [2.0]
    compiled = saker.compile(lambda x: Scaled.apply(x, factors))
    before = saker.stats()["replays"]
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [2.0] * 3
    assert saker.stats()["replays"] > before


# --- kernels written in Python ---

STATE = {"k": 1.0}


@torch.library.custom_op("saker_refused::scaled", mutates_args=())
def scaled(x: Tensor) -> Tensor:
    return x * STATE["k"]


scaled.register_fake(torch.empty_like)


def changes_between(x: Tensor) -> Any:
    STATE["k"] = 3.0
    a = scaled(x)
    STATE["k"] = 5.0
    return a, scaled(x)


def changes_before(x: Tensor) -> Any:
    STATE["k"] = STATE["k"] + 1
    return scaled(x)


def changes_behind(x: Tensor) -> Any:
    a = scaled(x)
    STATE["k"] = STATE["k"] + 1
    return a


@pytest.mark.parametrize("function", [changes_between, changes_before, changes_behind])
def test_a_kernel_reads_what_the_call_changes(function: Callable) -> None:
    def seen(call: Callable) -> list[Any]:
        STATE["k"] = 1.0
        return [str(call(torch.ones(1))) for _ in range(4)] + [STATE["k"]]

    found: list[Any] = []
    told = reasons(saker.compile, lambda compiled: found.append(seen(compiled)), function)
    assert found[0] == seen(function)
    assert ("kernel-after-effects" in told) == (function is not changes_behind)


def test_effects_before_kernels_of_pytorch_are_replayed() -> None:
    log: list[int] = []

    def f(x: Tensor) -> Tensor:
        log.append(1)
        return x.sin()

    compiled = saker.compile(f, fullgraph=True)
    for _ in range(3):
        compiled(torch.ones(2))
    assert log == [1, 1, 1]


# --- ahead of time ---


def writes_data(x: Tensor) -> Tensor:
    x.data.mul_(2)
    return x.sin()


def writes_data_of_a_view(x: Tensor) -> Tensor:
    x.data[1:].mul_(2)
    return x.sin()


def writes_data_of_a_product(x: Tensor) -> Tensor:
    y = x * 1
    y.data.mul_(2)
    return y.sin()


def writes_without_gradients(x: Tensor) -> Tensor:
    with torch.no_grad():
        x.mul_(2)
    return x.sin()


@pytest.mark.parametrize("compile", [saker.compile, saker.aot_function])
@pytest.mark.parametrize(
    "function", [writes_data, writes_data_of_a_view, writes_data_of_a_product, writes_without_gradients]
)
def test_a_hidden_write_and_create_graph(function: Callable, compile: Callable) -> None:
    def gradient(call: Callable) -> Any:
        x = torch.ones(3, requires_grad=True)
        first = torch.autograd.grad(call(x).sum(), x, create_graph=True)[0]
        return first.tolist(), torch.autograd.grad(first.sum(), x)[0].tolist(), x._version

    compiled = compile(function)
    for _ in range(3):
        assert gradient(compiled) == gradient(function)


def sets_made(x: Tensor, y: Tensor) -> Tensor:
    z = x * 1
    z.set_(y)
    z.add_(1)
    return z


def sets_made_to_made(x: Tensor, y: Tensor) -> Tensor:
    z, w = x * 1, y * 2
    z.set_(w)
    z.add_(1)
    return z


def sets_argument(x: Tensor, y: Tensor) -> Tensor:
    x.set_(y)
    x.add_(1)
    return x * 2


@pytest.mark.parametrize("function", [sets_made, sets_made_to_made, sets_argument])
def test_the_version_of_what_is_set(function: Callable) -> None:
    def seen(call: Callable) -> Any:
        x, y = torch.zeros(3), torch.ones(3)
        z = call(x, y)
        return z.tolist(), x.tolist(), y.tolist(), z._version, x._version, y._version

    compiled = saker.aot_function(function)
    for _ in range(3):
        assert seen(compiled) == seen(function)
