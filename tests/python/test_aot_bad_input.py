"""Ahead-of-time compiled functions given what they were not made for: eager mode's error or a clearer one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import saker
from torch_versions import captures_see_python


def scaled(x: torch.Tensor, by: int = 2) -> torch.Tensor:
    return x * by


def raised_by(call: Callable[[], Any]) -> tuple[type, str]:
    with pytest.raises(Exception) as raised:
        call()
    return raised.type, str(raised.value).splitlines()[0]


def test_other_structure() -> None:
    compiled = saker.aot_function(lambda pair: pair[0] + pair[1])
    compiled([torch.ones(2), torch.ones(2)])
    assert torch.equal(compiled((torch.ones(2), torch.full((2,), 3.0))), torch.full((2,), 4.0))
    with pytest.raises(IndexError):
        compiled([torch.ones(2)])


def test_results_that_are_no_tensors() -> None:
    def fn(x: torch.Tensor) -> dict[str, Any]:
        return {"name": "double", "value": x * 2, "nothing": None, "sizes": [x.dim(), 1.5]}

    compiled = saker.aot_function(fn)
    x = torch.randn(2)
    for _ in range(2):
        got, expected = compiled(x), fn(x)
        torch.testing.assert_close(got.pop("value"), expected.pop("value"))
        assert got == expected


class Box:
    """What PyTorch does not look into."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value


def test_a_tensor_in_a_result_that_is_none() -> None:
    """Nobody could fill it in: the call is eager mode's."""
    compiled = saker.aot_function(lambda x: (x.mul_(2), Box(x + 1)))
    x = torch.ones(2)
    first, second = compiled(x)[1], compiled(x)[1]
    assert [first.value.tolist(), second.value.tolist()] == [[3, 3], [5, 5]] and first is not second


def test_results_without_any_tensor() -> None:
    def fn(x: torch.Tensor) -> str:
        x.mul_(2)
        return "done"

    compiled = saker.aot_function(fn)
    x = torch.ones(2)
    assert [compiled(x), compiled(x)] == ["done", "done"] and x.tolist() == [4, 4]
    with pytest.raises(AttributeError) as raised:
        saker.aot_function(fn)(torch.ones(2, requires_grad=True) * 1).backward()
    assert str(raised.value) == "'str' object has no attribute 'backward'"


def states(*tensors: torch.Tensor) -> list[Any]:
    return [
        (t.tolist(), t._version, t.requires_grad, t.shape, None if t.grad is None else t.grad.tolist()) for t in tensors
    ]


def write_leaf(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.add_(1)
    x.mul_(2)
    return x * y


def write_view_of_leaf(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.add_(1)
    x[0].mul_(2)
    return x * y


def write_expanded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.add_(1)
    x.sum().expand(3).mul_(2)
    return x


@pytest.mark.parametrize("fn", [write_leaf, write_view_of_leaf, write_expanded])
@pytest.mark.parametrize("before", [False, True], ids=["at once", "after a call that is right"])
def test_a_write_that_autograd_refuses(fn: Callable[..., Any], before: bool) -> None:
    def run(call: Callable[..., Any]) -> Any:
        if before and fn is not write_expanded:
            call(torch.ones(2), torch.ones(2))
        x, y = torch.ones(2, requires_grad=True), torch.ones(2)
        error = raised_by(lambda: call(x, y))
        return error, states(x, y)

    assert run(saker.aot_function(fn)) == run(fn)


def as_integers(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return y + 1


def write_integers(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.zero_()
    return x * 2


@pytest.mark.parametrize("fn", [as_integers, write_integers])
@pytest.mark.parametrize("grad", [False, True], ids=["plain", "with history"])
def test_arguments_on_one_memory_with_different_dtypes(fn: Callable[..., Any], grad: bool) -> None:
    def run(call: Callable[..., Any]) -> Any:
        leaf = torch.ones(2, requires_grad=grad)
        x = leaf * 1
        y = x.detach().view(torch.int32)
        seen = []
        for _ in range(2):
            result = call(x, y)
            seen += states(x, y, result)
        if result.requires_grad:
            result.sum().backward()
            seen += states(leaf)
        return seen

    assert run(saker.aot_function(fn)) == run(fn)


def test_an_alias_of_another_dtype_as_a_result() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        return y, y.view(torch.int32)

    def run(call: Callable[..., Any]) -> Any:
        y, bits = call(torch.ones(2))
        bits.zero_()
        return states(y, bits), bits._base is y

    assert run(saker.aot_function(fn)) == run(fn)


@pytest.mark.parametrize("tangent", [torch.ones(3), torch.ones(2, dtype=torch.complex64), None], ids=str)
def test_wrong_tangents(tangent: torch.Tensor | None) -> None:
    def backward(fn: Callable[..., torch.Tensor]) -> None:
        fn(torch.ones(2, requires_grad=True)).backward(tangent)

    assert raised_by(lambda: backward(saker.aot_function(scaled))) == raised_by(lambda: backward(scaled))


def test_a_backward_after_one_with_a_wrong_tangent() -> None:
    """Nothing is freed and nothing accumulated by the one that fails."""
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    result = saker.aot_function(lambda x, y: (x * y).sin())(x, y)
    for tangent in (torch.ones(3), torch.ones(2, 2)):
        with pytest.raises(RuntimeError):
            result.backward(tangent)
        assert x.grad is None and y.grad is None
    result.backward(torch.ones(2))
    torch.testing.assert_close(x.grad, torch.ones(2).cos())


def test_tangent_of_other_strides() -> None:
    def gradient(fn: Callable[..., torch.Tensor]) -> torch.Tensor:
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        fn(x).backward(torch.arange(6.0).reshape(3, 2).t())
        return x.grad

    fn = lambda x: x.sin() * 2  # noqa: E731
    torch.testing.assert_close(gradient(saker.aot_function(fn)), gradient(fn))


def test_an_error_of_the_function_is_its_own_and_can_be_tried_again() -> None:
    calls = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 1:
            raise KeyError("not yet")
        return x + 1

    compiled = saker.aot_function(fn)
    x = torch.zeros(2)
    with pytest.raises(KeyError, match="not yet"):
        compiled(x)
    assert x._version == 0
    torch.testing.assert_close(compiled(x), torch.ones(2))


def test_an_error_of_a_compiler_is_its_own_and_can_be_tried_again() -> None:
    calls = []

    def compiler(module: torch.fx.GraphModule, examples: list[Any]) -> Callable:
        calls.append(1)
        if len(calls) == 1:
            raise KeyError("not yet")
        return module

    compiled = saker.aot_function(scaled, fw_compiler=compiler)
    with pytest.raises(KeyError, match="not yet"):
        compiled(torch.ones(2))
    torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))


def test_a_compiler_must_give_something_to_call() -> None:
    with pytest.raises(TypeError, match="must give something to call, not a NoneType"):
        saker.aot_function(scaled, fw_compiler=lambda module, examples: None)(torch.ones(2))


def test_a_module_with_fake_parameters() -> None:
    with FakeTensorMode():
        module = nn.Linear(2, 3)
    for call in (saker.aot_module, lambda m: saker.aot_module_simplified(m, (torch.ones(2),))):
        with pytest.raises(saker.CaptureError, match="Unexpected fake tensor: weight"):
            call(module)


@captures_see_python
def test_a_fake_tensor_that_is_no_argument() -> None:
    with FakeTensorMode():
        fake = torch.ones(2)
    with pytest.raises(AssertionError, match="Unexpected fake"):
        saker.aot_function(lambda x: x + fake)(torch.ones(2))


def test_unknown_names_of_partitioners() -> None:
    with pytest.raises(ValueError, match="min_cut"):
        saker.aot_function(scaled, partition_fn="best")
    with pytest.raises(TypeError, match="min_cut"):
        saker.aot_function(scaled, partition_fn=3)
