"""Calls of functions that are compiled on the tensors inside of subclasses: what is compiled again, what is counted,
which gradients there are, and what is told where one does not fit."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import saker
from torch_versions import captures_see_python

pytestmark = captures_see_python


def two(requires_grad: bool = False, rows: int = 2) -> TwoTensor:
    a = torch.arange(3.0 * rows).reshape(rows, 3)
    return TwoTensor(a.sin(), a.cos()).requires_grad_(requires_grad)


def contents(value: Any) -> Any:
    if isinstance(value, TwoTensor):
        return [contents(value.a), contents(value.b)]
    return value.detach().tolist() if isinstance(value, torch.Tensor) else value


def counted() -> tuple[int, int]:
    return saker.stats()["graphs"], saker.stats()["fallbacks"]


def test_a_compiled_call_is_no_fallback() -> None:
    compiled = saker.aot_function(lambda x: x * 2)
    compiled(two())
    graphs, fallbacks = counted()
    compiled(two())
    assert counted() == (graphs, fallbacks)


def test_what_was_compiled_is_found_again() -> None:
    compiled = saker.aot_function(lambda x: x * 2)
    given = [two(rows=rows) for rows in range(1, 20)] + [TwoTensor(two(), two())]
    expected = [contents(x * 2) for x in given]
    assert [contents(compiled(x)) for x in given] == expected
    before = counted()
    assert [contents(compiled(x)) for x in given] == expected
    assert counted() == before


def test_constants_of_another_class_are_others() -> None:
    """2 and 2.0 and True are equal, and give other dtypes."""

    def program(x: torch.Tensor, factor: Any) -> torch.Tensor:
        return x * factor

    compiled = saker.aot_function(program)
    x = TwoTensor(torch.arange(3), torch.arange(3) + 1)
    for factor in (2, 2.0, True, 1.0, 1):
        found, expected = compiled(x, factor), program(x, factor)
        assert found.dtype == found.a.dtype == expected.dtype
        assert contents(found) == contents(expected)


class Holder:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def test_an_object_that_holds_a_tensor_is_made_by_each_call() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, Holder]:
        return x * 2, Holder(x * 3)

    compiled = saker.aot_function(program)
    for rows in (2, 2, 3):
        x = two(rows=rows)
        result, holder = compiled(x)
        assert contents(result) == contents(x * 2)
        assert contents(holder.tensor) == contents(x * 3)


def gradients(fn: Callable, pick: int) -> Any:
    x = two(requires_grad=True)
    y = torch.ones(2, 3, requires_grad=True)
    fn(x, y)[pick].sum().backward()
    return contents(x.grad), contents(y.grad)


@pytest.mark.parametrize("pick", [0, 1])
def test_arguments_that_no_gradient_reaches_have_none(pick: int) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, y.sin()

    compiled = saker.aot_function(program)
    for _ in range(2):
        assert gradients(compiled, pick) == gradients(program, pick)


def test_a_backward_that_frees_nothing_runs_twice() -> None:
    def backwards(fn: Callable) -> Any:
        x = two(requires_grad=True)
        result = fn(x)
        total = [type(result.backward(torch.ones_like(result))) for _ in range(2)]
        return total, contents(x.grad)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    compiled = saker.aot_function(program)
    for _ in range(2):
        assert backwards(compiled) == backwards(program)


def test_inference_mode() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    compiled = saker.aot_function(program)
    with torch.inference_mode():
        for _ in range(2):
            assert contents(compiled(two())) == contents(program(two()))


def test_names_of_nodes() -> None:
    compiled = saker.aot_function(lambda x: x * 2)
    result = compiled(two(requires_grad=True))
    assert result.grad_fn.name() == type(result.grad_fn).__name__ == "SakerResultBackward"
    (inside, _), *_ = result.grad_fn.next_functions
    assert inside.name() == "CompiledFunctionBackward"
    (below, _), *_ = inside.next_functions
    assert below.name() == type(below).__name__ == "SakerToInnerBackward"


def test_a_gradient_of_another_class_is_told() -> None:
    compiled = saker.aot_function(lambda x: x * 2)
    result = compiled(two(requires_grad=True))
    nested = TwoTensor(two(), two())
    with pytest.raises(RuntimeError, match="a gradient that is a TwoTensor, and is given a plain tensor"):
        result.backward(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="is given a TwoTensor of a TwoTensor, a TwoTensor"):
        compiled(two(requires_grad=True)).backward(nested)


class Turns(TwoTensor):
    """Plain gradients and such of its base turn into it."""

    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride):
        return Turns(inner["a"], inner["b"], size, stride)

    def __coerce_same_metadata_as_tangent__(self, context: Any, kind: type | None = None) -> Any:
        return TwoTensor(self.a, self.b) if kind is TwoTensor else None


def test_a_gradient_that_turns_into_the_class() -> None:
    compiled = saker.aot_function(lambda x: x * 2)
    x = two(requires_grad=True)
    compiled(x).backward(Turns(torch.ones(2, 3), torch.ones(2, 3) * 3))
    assert type(x.grad) is TwoTensor
    assert contents(x.grad) == [torch.full((2, 3), 2.0).tolist(), torch.full((2, 3), 6.0).tolist()]


class Broken(TwoTensor):
    fails = False

    def __tensor_flatten__(self):
        if Broken.fails:
            raise KeyError("flattening")
        return ["a", "b"], None


def test_an_error_of_the_class_is_its_own() -> None:
    compiled = saker.aot_function(lambda x: x * 2)
    x = Broken(torch.ones(2), torch.ones(2))
    compiled(x)
    Broken.fails = True
    try:
        with pytest.raises(KeyError, match="flattening"):
            compiled(x)
    finally:
        Broken.fails = False
    compiled(x)


def test_containers_around_subclasses() -> None:
    def program(given: dict[str, Any], *, scale: float) -> dict[str, Any]:
        x, (y, names) = given["x"], given["more"]
        return {"sum": (x + y) * scale, "shape": x.shape, "names": [*names, "z"]}

    compiled = saker.aot_function(program)
    for scale in (1.0, 2.0, 1.0):
        given = {"x": two(True), "more": (torch.ones(2, 3), ["a", "b"])}
        found, expected = compiled(given, scale=scale), program(given, scale=scale)
        assert list(found) == list(expected)
        assert contents(found["sum"]) == contents(expected["sum"])
        assert found["shape"] == expected["shape"]
        assert type(found["shape"]) is torch.Size
        assert found["names"] == expected["names"]


def test_nothing_is_kept_alive() -> None:
    class Scale:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    fn = Scale()
    fn.compiled = saker.aot_function(fn)  # a cycle
    x = two()
    result = fn.compiled(x)
    gone, given = weakref.ref(fn), weakref.ref(x)
    del fn, x, result
    gc.collect()
    assert gone() is None
    assert given() is None


def test_a_result_outlives_the_function() -> None:
    compiled = saker.aot_function(lambda x: x * 2)
    x = two(requires_grad=True)
    result = compiled(x)
    del compiled
    gc.collect()
    result.backward(torch.ones_like(result))
    assert contents(x.grad.a) == torch.full((2, 3), 2.0).tolist()


def test_threads_that_compile_the_same() -> None:
    compiled = saker.aot_function(lambda x, y: (x * y).sin())
    expected = contents((two() * torch.ones(2, 3)).sin())
    failed: list[Any] = []

    def run() -> None:
        for _ in range(5):
            x, y = two(True), torch.ones(2, 3, requires_grad=True)
            result = compiled(x, y)
            result.backward(torch.ones_like(result))
            if contents(result) != expected or type(y.grad) is not TwoTensor:
                failed.append(result)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_compilers_see_one_graph() -> None:
    """Finding out of which class the gradient of a plain argument is needs no compiler."""
    graphs: list[torch.fx.GraphModule] = []

    def compiler(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable:
        graphs.append(graph)
        return graph

    before = counted()[0]
    compiled = saker.aot_function(lambda x, y: (x * y).sin(), fw_compiler=compiler)
    y = torch.ones(2, 3, requires_grad=True)
    result = compiled(two(True), y)
    assert len(graphs) == 1
    result.backward(torch.ones_like(result))
    assert len(graphs) == 2
    assert type(y.grad) is TwoTensor
    assert counted()[0] == before + 1
