"""What still differs from eager mode, each with its reason: docs/compile.md and docs/aot.md list the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch

import saker


def known(reason: str) -> Any:
    return pytest.mark.xfail(strict=True, reason=reason)


class Asked(torch.Tensor):
    calls: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def registers(x):
    y = x * 2
    y.register_hook(lambda grad: grad * 2)
    return y


def differentiates(x):
    return torch.autograd.grad((x * x).sum(), x, create_graph=True)[0]


def clears(x):
    x.grad = None
    return x * 2


@known(
    "a class's __torch_function__ is asked for operators; for hooks and .grad a replay asks as often as it needs them"
)
@pytest.mark.parametrize("function", [registers, differentiates, clears])
def test_what_a_class_is_asked(function: Callable) -> None:
    def calls(call: Callable) -> list[str]:
        x = torch.ones(3).as_subclass(Asked).requires_grad_()
        Asked.calls.clear()
        call(x)
        return list(Asked.calls)

    compiled = saker.compile(function)
    for _ in range(3):
        assert calls(compiled) == calls(function)


@known("PyTorch's C code looks up the method by name for a class with __torch_function__, which nobody watches")
def test_a_method_is_replaced_where_a_class_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tagged(torch.Tensor):
        pass

    def f(x, held):
        return x + held.sum()

    compiled = saker.compile(f)
    x, held = torch.ones(1), torch.ones(3).as_subclass(Tagged)
    for _ in range(2):
        compiled(x, held)
    monkeypatch.setattr(torch.Tensor, "add", lambda a, b: torch.mul(a, 3))
    assert compiled(x, held).item() == f(x, held).item()


@known("results of a compiled function share a node: hooks run where only another result leads to what is asked for")
def test_hooks_of_results_that_lead_elsewhere() -> None:
    def called(call: Callable) -> list[int]:
        x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        a, b = call(x, y)
        log: list[int] = []
        a.register_hook(lambda grad: log.append(1))
        (a.sum() + b.sum()).backward(inputs=[y])
        return log

    def f(x, y):
        return x.sin(), y.cos()

    compiled = saker.compile(f)
    for _ in range(3):
        assert called(compiled) == called(f)


@known("stages of a backward share a node's edges: a hook between two is called with None where no gradient arrives")
def test_hooks_between_stages_that_get_nothing() -> None:
    def called(call: Callable) -> list[bool]:
        x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        results = call(x, y)
        log: list[bool] = []
        results[1].register_hook(lambda grad: log.append(grad is None))
        results[2].sum().backward()
        return log

    def f(x, y):
        a = x.sin()
        return a.exp(), a, y * x

    compiled = saker.compile(f)
    for _ in range(3):
        assert called(compiled) == called(f)


@known("results of a compiled function share a node: it runs, and gradients are captured before hooks")
def test_gradients_of_results_with_hooks() -> None:
    def gradient(call: Callable) -> torch.Tensor:
        x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        a, b = call(x, y)
        a.register_hook(lambda grad: -grad)
        return torch.autograd.grad([a.sum(), b.sum()], [x, a])[1]

    def f(x, y):
        return y.cos(), x.sin()

    compiled = saker.compile(f)
    for _ in range(3):
        assert torch.equal(gradient(compiled), gradient(f))


@known("a list that a torch.autograd.Function is given is made anew in a replay")
def test_a_function_keeps_a_list_that_changes() -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factors):
            ctx.factors = factors
            return x * factors[0]

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factors[0], None

    factors = [2.0]

    def gradient(call: Callable) -> torch.Tensor:
        x = torch.ones(3, requires_grad=True)
        factors[0] = 2.0
        y = call(x)
        factors[0] = 5.0
        return torch.autograd.grad(y.sum(), x)[0]

    def f(x):
        return Scaled.apply(x, factors)

    compiled = saker.compile(f)
    for _ in range(2):
        assert torch.equal(gradient(compiled), gradient(f))


@known("effects on Python objects come after the operators: a kernel written in Python that reads them sees the last")
def test_a_kernel_reads_what_the_call_changes() -> None:
    state = {"k": 1.0}

    @torch.library.custom_op("saker_known::scaled", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * state["k"]

    scaled.register_fake(torch.empty_like)

    @saker.compile
    def f(x):
        state["k"] = 3.0
        a = scaled(x)
        state["k"] = 5.0
        return a, scaled(x)

    for _ in range(3):
        a, b = f(torch.ones(1))
        assert (a.item(), b.item()) == (3.0, 5.0)


@known("what is compiled ahead of time is called with stand-ins, which were never written and are views of nothing")
@pytest.mark.parametrize("function", [lambda x: x * 0 + x._version, lambda x: x * (2 if x._base is None else 3)])
def test_versions_and_bases_of_arguments(function: Callable) -> None:
    x = torch.ones(3)[:].add_(1)
    assert torch.equal(saker.aot_function(function)(x), function(x))


@known("with create_graph=True a gradient passes a write through .data to an argument, which autograd does not see")
def test_a_hidden_write_and_create_graph() -> None:
    def f(x):
        x.data.mul_(2)
        return x.sin()

    def gradient(call: Callable) -> list[float]:
        x = torch.ones(3, requires_grad=True)
        return torch.autograd.grad(call(x).sum(), x, create_graph=True)[0].tolist()

    assert gradient(saker.aot_function(f)) == gradient(f)


@known("the version of an intermediate tensor that is set to an argument's memory is not eager mode's")
def test_the_version_of_what_is_set() -> None:
    def f(x, y):
        z = x * 1
        z.set_(y)
        z.add_(1)
        return z

    versions = [call(torch.zeros(3), torch.ones(3))._version for call in (f, saker.aot_function(f))]
    assert versions[0] == versions[1]


@known("a branch that changes an object of the same call changes it when it is recorded; PyTorch rejects such branches")
def test_a_branch_that_changes_an_object_of_the_call() -> None:
    def f(x):
        seen = []

        def noting(v):
            seen.append(1)
            return v + 1

        torch.cond(x.sum() > 0, noting, lambda v: v * 2, (x,))
        return len(seen)

    compiled, x = saker.compile(f), torch.ones(2)
    assert [compiled(x), compiled(x), compiled(-x)] == [1, 1, 0]
