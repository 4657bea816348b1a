"""Saved tensors that lie otherwise than the graph of the backward tells, where operators of groups are views: a tensor that
the function gives another layout, or that is written, is copied for the backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import saker
from generated_code import needs_code

pytestmark = needs_code
Tensor = torch.Tensor


@pytest.fixture(autouse=True)
def fused(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SAKER_COMPILE", "sync")
    saker.set_stages("fuse")
    yield
    saker.set_stages("")


CHANGES: dict[str, Callable[[Tensor], Any]] = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, -1),
    "unsqueeze_": lambda x: x.unsqueeze_(1),
    "mul_": lambda x: x.mul_(2),
    "nothing": lambda x: x,
}
READS: dict[str, Callable[[Tensor], Any]] = {
    "reshaped": lambda x: x.reshape(-1).sin(),
    "transposed": lambda x: x.mT.exp() * x.mT,
    "a row": lambda x: x[0].tanh() * x[0],
    "softmax": lambda x: (x.transpose(0, -1) * x.transpose(0, -1)).softmax(0),
    "cut": lambda x: x[..., 1:].square().sum(0).sqrt(),
    "branch": lambda x: x.mT.cos() * x.mT,  # the reference runs without torch.cond
}
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "corner": lambda x: x[:2, :3],
    "transposed corner": lambda x: x.t()[:3, 1:4],
    "steps": lambda x: x[::2, ::2],
    "expanded": lambda x: x[0].expand(3, 6),
    "rows": lambda x: x[1:3],
}


def _gradient(fn: Callable[[Tensor], Tensor], layout: str) -> tuple[Tensor, Tensor]:
    leaf = (torch.arange(24.0).reshape(4, 6) / 7 + 0.3).requires_grad_()
    x = LAYOUTS[layout](leaf * 1.5)
    result = fn(x)
    (found,) = torch.autograd.grad(result, [leaf], torch.arange(float(result.numel())).view_as(result) + 1)
    return result.detach(), found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("change", CHANGES)
def test_gradients(change: str, read: str, layout: str) -> None:
    if change == "mul_" and layout == "expanded":
        pytest.skip("eager mode refuses to write where elements share memory")

    def reference(x: Tensor) -> Tensor:
        CHANGES[change](x)
        return READS[read](x)

    def program(x: Tensor) -> Tensor:
        if read != "branch":
            return reference(x)
        CHANGES[change](x)
        return torch.cond(x.sum() > 0, READS[read], lambda x: x.mT.sin(), (x,))

    expected = _gradient(reference, layout)
    for partition in ("default", "min_cut"):
        compiled = saker.aot_function(program, partition_fn=partition)
        for _ in range(2):
            for one, other in zip(_gradient(compiled, layout), expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def _by_place(x: Tensor) -> Tensor:
    y = torch.slice_scatter(x, x[:1] * 2 + 1, 0, 1, 2)
    return y.as_strided([2, 2], [2, 1], 0) * 3


def _by_place_of_a_view(x: Tensor) -> Tensor:
    y = torch.select_scatter(x * 1, x[0] * 2 + 1, 0, 1)
    return y[1:].as_strided([2, 2], [2, 1], 1) * 3


@pytest.mark.parametrize("program", [_by_place, _by_place_of_a_view])
def test_memory_that_is_read_by_place(program: Callable[[Tensor], Tensor]) -> None:
    """What lies around the elements of a tensor is copied with them, and read."""
    x = torch.arange(40.0).reshape(10, 4)[2:6, :3]
    compiled = saker.compile(program)
    for _ in range(3):
        assert torch.equal(compiled(x), program(x))
    functional = saker.capture(program, x).functional()
    assert torch.equal(functional(x), program(x))
