"""Gradients that a compiled backward is given: in the layout of the results, whatever they are given in, and for some
of the results only."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import saker
from torch_versions import captures_see_python, statistics_have_gradients


def channels_last() -> torch.Tensor:
    x = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).reshape(2, 3, 4, 5).sin()
    return x.to(memory_format=torch.channels_last)


TANGENTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as the result": torch.ones_like,
    "contiguous": lambda y: torch.ones(y.shape),
    "expanded": lambda y: torch.ones(()).expand(y.shape),
    "transposed": lambda y: torch.ones(y.shape[::-1]).permute(3, 2, 1, 0),
    "with gaps": lambda y: torch.ones(*y.shape[:-1], 2 * y.shape[-1])[..., ::2],
}


class Seen:
    """A back end that keeps the strides of the tangents that its backward is given."""

    def __init__(self) -> None:
        self.strides: list[tuple[int, ...]] = []

    def backward(self, module: torch.fx.GraphModule, _examples: list[Any]) -> Callable:
        def run(*inputs: torch.Tensor) -> Any:
            self.strides += [t.stride() for t in inputs[-1:]]
            return module(*inputs)

        return run


@pytest.mark.parametrize("tangent", TANGENTS)
def test_a_backward_is_given_what_it_was_made_for(tangent: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    seen = Seen()
    compiled = saker.aot_function(program, fw_compiler=lambda module, _: module, bw_compiler=seen.backward)
    for _ in range(2):
        found = []
        for fn in (program, compiled):
            x = channels_last().requires_grad_()
            result = fn(x)
            result.backward(TANGENTS[tangent](result))
            found.append(x.grad)
        assert torch.equal(*found)
        assert found[0].stride() == found[1].stride()
    assert seen.strides == [channels_last().stride()] * 2


@captures_see_python
@pytest.mark.parametrize("tangent", TANGENTS)
def test_gradients_inside_of_subclasses(tangent: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    compiled = saker.aot_function(program)
    for _ in range(2):
        found = []
        for fn in (program, compiled):
            x = TwoTensor(channels_last(), channels_last() + 1).requires_grad_()
            result = fn(x)
            given = TwoTensor(TANGENTS[tangent](result.a), TANGENTS[tangent](result.b))
            result.backward(given)
            found.append(x.grad)
        for part in ("a", "b"):
            assert torch.equal(getattr(found[0], part), getattr(found[1], part))


def two_norms(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.native_group_norm(x, w, b, 2, 4, 15, 2, 1e-5) + torch.native_layer_norm(x, (5,), None, None, 1e-5)


SEVERAL_RESULTS: dict[str, Callable[..., tuple[torch.Tensor, ...]]] = {
    "group norm": lambda x, w, b: torch.native_group_norm(x, w, b, 2, 4, 15, 2, 1e-5),
    "two norms": two_norms,
    "group norm of an intermediate": lambda x, w, b: torch.native_group_norm(x * 2, w.sin(), b + 1, 2, 4, 15, 2, 1e-5),
    "factors": lambda x, w, b: (*torch.linalg.qr(x[0, 0] * w[0]), b * 2),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[statistics_have_gradients] if "norm" in n else []) for n in SEVERAL_RESULTS]
)
def test_gradients_of_some_results(name: str) -> None:
    """None where eager mode has none, zeros where it has zeros."""
    program = SEVERAL_RESULTS[name]

    def gradients(fn: Callable, chosen: tuple[int, ...]) -> list[torch.Tensor | None]:
        values = torch.arange(2 * 4 * 3 * 5, dtype=torch.float64).reshape(2, 4, 3, 5).sin()
        leaves = [t.requires_grad_() for t in (values, torch.ones(4).double() * 3, torch.ones(4).double())]
        results = [t for t in fn(*leaves) if t.requires_grad]
        loss = sum((results[i] * (i + 2)).sin().sum() for i in chosen if i < len(results))
        return list(torch.autograd.grad(loss, leaves, allow_unused=True)) if chosen[-1] < len(results) else []

    for compile in (saker.aot_function, saker.compile):
        compiled = compile(program)
        for count in (1, 2, 3):
            for chosen in combinations(range(4), count):
                found, expected = gradients(compiled, chosen), gradients(program, chosen)
                assert [g is None for g in found] == [g is None for g in expected]
                for got, wanted in zip(found, expected, strict=True):
                    if wanted is not None:
                        torch.testing.assert_close(got, wanted)


SHARED_ADDRESSES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "expanded": lambda x: x.expand(3, *x.shape).unsafe_split(2, 0)[0],
    "expanded by sizes": lambda x: x.expand(3, *x.shape).unsafe_split_with_sizes([2, 1], 0)[0],
    "expanded intermediate": lambda x: x.sin().expand(3, *x.shape).unsafe_split(2, 0)[0],
    "windows": lambda x: x.unfold(0, 3, 1).unsafe_split(2, 1)[0],
    "windows of an intermediate": lambda x: x.sin().unfold(0, 3, 1).unsafe_split(2, 1)[1],
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", SHARED_ADDRESSES)
def test_results_whose_elements_share_addresses(name: str, dynamic: bool) -> None:
    """Tangents of such results have a number for each element."""
    program = SHARED_ADDRESSES[name]
    compiled = saker.compile(program, dynamic=dynamic)
    for rows in (7, 9, 8):
        gradients = []
        x, tangents = torch.randn(rows, 5), []
        for fn in (program, compiled):
            leaf = x.clone().requires_grad_()
            result = fn(leaf)
            tangents = tangents or [
                torch.randn(result.shape),
                torch.ones(result.shape),
                torch.ones(()).expand_as(result),
            ]
            gradients.append([torch.autograd.grad(result, leaf, each, retain_graph=True)[0] for each in tangents])
        torch.testing.assert_close(gradients[1], gradients[0])
