"""The layout of gradients that a compiled backward is given: that of the results, whatever they are given in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import saker
from torch_versions import captures_see_python


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
