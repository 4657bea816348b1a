"""Running a program eagerly and deferred, and comparing everything that can be seen of its results."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

import saker

torch.set_num_threads(1)


def shared_memory(tensors: list[torch.Tensor]) -> list[int]:
    """For each tensor the first one that has its storage."""
    seen: dict[int, int] = {}
    places = []
    for i, tensor in enumerate(tensors):
        strided = tensor.layout is torch.strided and not tensor.is_meta
        key = tensor.untyped_storage()._cdata if strided else -i - 1
        places.append(seen.setdefault(key, i))
    return places


def refusal(tensor: torch.Tensor) -> str | None:
    """Why autograd refuses to speak of it: some views must not be used after a write to their base."""
    try:
        tensor.grad_fn
    except RuntimeError as error:
        return str(error)
    return None


def visible(tensor: torch.Tensor) -> dict[str, Any]:
    """All but data."""
    if why := refusal(tensor):
        return {"shape": tuple(tensor.shape), "strides": tensor.stride(), "refusal": why}
    torch.ops.aten.is_same_size(tensor, tensor)  # an operator takes off what is left of a trace
    found: dict[str, Any] = {
        "class": type(tensor),
        "dtype": tensor.dtype,
        "shape": tuple(tensor.shape),
        "device": tensor.device,
        "layout": tensor.layout,
        "requires_grad": tensor.requires_grad,
        "is_leaf": tensor.is_leaf,
        "grad_fn": tensor.grad_fn and tensor.grad_fn.name(),
        "inference": tensor.is_inference(),
        "conj": tensor.is_conj(),
        "neg": tensor.is_neg(),
        "keys": str(torch._C._dispatch_keys(tensor)),
    }
    if not tensor.is_inference():
        found["version"] = tensor._version
        found["is_view"] = tensor._is_view()
        found["base"] = tensor._base is not None and tuple(tensor._base.shape)
    if tensor.layout is torch.strided:
        found["strides"] = tensor.stride()
        found["offset"] = tensor.storage_offset()
        found["bytes"] = tensor.untyped_storage().nbytes()
    return found


def same(got: Any, expected: Any) -> None:
    """Equal in every bit, and in everything that a program could ask."""
    got_leaves, got_spec = pytree.tree_flatten(got)
    expected_leaves, expected_spec = pytree.tree_flatten(expected)
    assert got_spec == expected_spec, f"{got_spec} is not {expected_spec}"
    got_tensors, expected_tensors = [], []
    for one, other in zip(got_leaves, expected_leaves, strict=True):
        if not isinstance(other, torch.Tensor):
            assert type(one) is type(other), f"{one!r} is not {other!r}"
            if isinstance(other, BaseException):
                assert str(one) == str(other), f"{one} is not {other}"
            else:
                both_nan = isinstance(other, float) and math.isnan(one) and math.isnan(other)
                assert one == other or both_nan, f"{one!r} is not {other!r}"
            continue
        seen, wanted = visible(one), visible(other)
        different = {key: (seen[key], wanted[key]) for key in wanted if seen.get(key) != wanted[key]}
        assert not different, f"(got, expected): {different}"
        if refusal(other):
            continue
        if not other.is_meta:
            torch.testing.assert_close(one.detach(), other.detach(), rtol=0, atol=0, equal_nan=True)
        if other.is_leaf and other.grad is not None:
            same(one.grad, other.grad)
        got_tensors.append(one)
        expected_tensors.append(other)
    assert shared_memory(got_tensors) == shared_memory(expected_tensors)


def assert_same(mine: Any, theirs: Any) -> None:
    if isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(mine, theirs)
    elif isinstance(theirs, (list, tuple)):
        assert len(mine) == len(theirs), (mine, theirs)
        for one, other in zip(mine, theirs, strict=True):
            assert_same(one, other)
    else:
        assert mine == theirs


class Halved(torch.autograd.Function):
    """Gives its argument, with half the gradient."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 0.5


def later_writes(tensors: list[torch.Tensor], look: Callable[[torch.Tensor], Any]) -> list[Any]:
    """What each of two writes to each tensor raises, and what all of them look like afterwards."""
    found: list[Any] = []
    for tensor in tensors:
        try:
            with torch.no_grad():
                tensor.add_(1)
            tensor.mul_(2)
        except RuntimeError as error:
            found.append(type(error))
        found.append([look(other) for other in tensors])
    return found


def dispatch_state() -> tuple[str, str]:
    return str(torch._C._dispatch_tls_local_include_set()), str(torch._C._dispatch_tls_local_exclude_set())


def run(program: Callable[..., Any], inputs: Callable[[], tuple], block: Callable[[], Any]) -> tuple[Any, Any]:
    torch.manual_seed(0)
    given = inputs()
    with block() as entered:
        result = program(*given)
    return (result, given, torch.get_rng_state()), entered


def matrices() -> tuple[torch.Tensor, torch.Tensor]:
    """What programs of two matrices are given."""
    return torch.randn(3, 4), torch.randn(4, 4, requires_grad=True)


def check(program: Callable[..., Any], inputs: Callable[[], tuple] = tuple) -> dict[str, int]:
    """The program's results, its inputs afterwards and the random state, deferred and eagerly; the block's counts."""
    before = dispatch_state()
    expected, _ = run(program, inputs, contextlib.nullcontext)
    got, block = run(program, inputs, saker.deferred)
    assert dispatch_state() == before
    assert block.pending == 0
    same(got, expected)
    counts = block.stats()
    assert counts["layout_mismatches"] == 0
    return counts


def error_of(fn: Callable[[], Any]) -> BaseException:
    try:
        fn()
    except Exception as error:
        # Frames of a traceback keep what they hold: printing a tensor holds a guard on the dispatch state.
        return error.with_traceback(None)
    raise AssertionError("no error")
