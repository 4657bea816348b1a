"""Tensor subclasses, given to compiled functions by someone who means no good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import saker
from torch_versions import captures_see_python

COMPILERS = [saker.compile, pytest.param(saker.aot_function, marks=captures_see_python)]


def two(value: float = 1.0, *size: int) -> TwoTensor:
    return TwoTensor(torch.full(size or (3,), value), torch.full(size or (3,), value))


class Ten(torch.Tensor):
    """Answers calls itself."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result * 10 if func is torch.Tensor.sin else result


class Plain(torch.Tensor):
    pass


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("kind", [Ten, Plain])
def test_a_class_that_answers_calls_is_asked(compiler: Callable, kind: type) -> None:
    def f(x, y):
        return x.sin() + y["y"]

    compiled = compiler(f)
    for _ in range(3):
        x = torch.ones(3).as_subclass(kind)
        result, expected = compiled(x, {"y": x}), f(x, {"y": x})
        assert type(result) is type(expected)
        assert torch.equal(result.as_subclass(torch.Tensor), expected.as_subclass(torch.Tensor))


def test_a_parameter_that_answers_calls_is_asked() -> None:
    class TenParameter(torch.nn.Parameter):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                result = func(*args, **(kwargs or {}))
                return result * 10 if func is torch.Tensor.sin else result

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = TenParameter(torch.ones(3))

        def forward(self, x):
            return x + self.w.sin()

    net = Net()
    assert torch.equal(saker.aot_module(net)(torch.ones(3)), net(torch.ones(3)))


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("make", [lambda: two(1.0, 3, 4), lambda: two(1.0, 4, 3).detach().t()], ids=["rows", "columns"])
def test_gradients_lie_in_memory_as_in_eager_mode(compiler: Callable, make: Callable) -> None:
    compiled = compiler(lambda x: x.sum())
    for _ in range(2):
        theirs, mine = make().requires_grad_(), make().requires_grad_()
        theirs.sum().backward()
        compiled(mine).backward()
        assert mine.grad.stride() == theirs.grad.stride()
        assert mine.grad.a.stride() == theirs.grad.a.stride()
        mine.grad.mul_(2)


def test_a_leaf_that_is_made_stays_one() -> None:
    compiled = saker.compile(lambda x: (x.detach() * 2).requires_grad_())
    for _ in range(3):
        result = compiled(torch.ones(3).as_subclass(Plain))
        assert type(result) is Plain
        assert result.is_leaf
        result.sum().backward()
        assert result.grad is not None


def test_the_history_of_a_class_is_eager_mode_s() -> None:
    def names(node: Any) -> list[str]:
        return [] if node is None else [node.name(), *names(node.next_functions[0][0] if node.next_functions else None)]

    compiled = saker.compile(lambda x: x * 2)
    x = torch.ones(3, requires_grad=True).as_subclass(Plain)
    expected = names((x * 2).grad_fn)
    assert names(compiled(x).grad_fn) == expected
    assert len(names(compiled(x).grad_fn)) <= len(expected)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_leaf_that_is_made_of_parts_stays_one(compiler: Callable) -> None:
    compiled = compiler(lambda x: (x.detach() * 2).requires_grad_())
    for _ in range(2):
        result = compiled(two())
        assert result.requires_grad
        assert result.is_leaf


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("leaf", [True, False])
def test_requires_grad_is_seen_outside_of_autograd(compiler: Callable, around: Callable, leaf: bool) -> None:
    def f(x):
        y = x * 2 if x.requires_grad else x * 3
        return y * 5 if x.is_leaf else y, y if torch.is_inference_mode_enabled() else x.t()

    compiled = compiler(f)
    for _ in range(2):
        x = two().requires_grad_()
        x = x if leaf else x * 1
        with around():
            for mine, theirs in zip(compiled(x), f(x), strict=True):
                assert torch.equal(mine.a, theirs.a)
                assert mine.requires_grad == theirs.requires_grad


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("grad", [False, True])
def test_results_have_eager_mode_s_versions(compiler: Callable, grad: bool) -> None:
    compiled = compiler(lambda x: ((x * 2).add_(1).mul_(2), x * 3))
    for _ in range(2):
        assert [each._version for each in compiled(two().requires_grad_(grad))] == [2, 0]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("written", ["argument", "result", "other"])
def test_a_late_write_is_noticed(compiler: Callable, written: str) -> None:
    compiled = compiler(lambda x, y: (x * y).exp())
    for _ in range(2):
        x, y = two().requires_grad_(written == "argument"), torch.ones(3, requires_grad=True)
        result = compiled(x, y)
        with torch.no_grad():
            (result if written == "result" else x).mul_(10)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_late_write_inside_is_not_noticed(compiler: Callable) -> None:
    compiled = compiler(lambda x, y: x * y)
    for _ in range(2):
        x, y = two().requires_grad_(), torch.ones(3, requires_grad=True)
        result = compiled(x, y)
        x.a.mul_(10)
        result.sum().backward()
        assert y.grad.a.tolist() == [10.0] * 3


@pytest.mark.parametrize("compiler", COMPILERS)
def test_attributes_that_are_set(compiler: Callable) -> None:
    def marks(x):
        y = x * 2
        y.note = 5
        return y

    def replaces(x):
        x.a = x.a * 2
        return x + 1

    marks, replaces = compiler(marks) if compiler is saker.compile else marks, compiler(replaces)
    for _ in range(2):
        assert marks(two()).note == 5
        x = two()
        result = replaces(x)
        assert (result.a[0].item(), x.a[0].item()) == (3.0, 2.0)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("make", [two, lambda: torch.ones(3).as_subclass(Plain)], ids=["parts", "plain"])
def test_hooks_on_a_result_that_another_depends_on(compiler: Callable, make: Callable) -> None:
    def f(x):
        h = x * 2
        return h, h.sin()

    def gradient(call: Callable) -> list[float]:
        x = make().requires_grad_()
        h, s = call(x)
        h.register_hook(lambda grad: grad * 10)
        s.sum().backward()
        return getattr(x.grad, "a", x.grad).tolist()

    compiled = compiler(f)
    for _ in range(3):
        assert gradient(compiled) == gradient(f)


def test_a_view_made_without_autograd() -> None:
    def f(x):
        with torch.no_grad():
            return x.view(-1)

    compiled = saker.compile(f)
    for _ in range(3):
        x = torch.nn.Parameter(torch.ones(3)).as_subclass(Plain)
        mine, theirs = compiled(x), f(x)
        assert (mine.is_leaf, mine.requires_grad) == (theirs.is_leaf, theirs.requires_grad)
