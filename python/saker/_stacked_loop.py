"""``while_loop_stack_output``: a while loop that gives what each of its steps gave, one below the other.

In a graph it is a while loop with its history, and an operator that makes tensors of that. PyTorch has no derivative of
it, and no rule of ``vmap``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from saker import _C


def _operator() -> Any:
    return torch.ops.higher_order.while_loop_stack_output


def _is_followed(operands: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(leaf.requires_grad for leaf in operands if isinstance(leaf, torch.Tensor))


def is_recorded(operands: Sequence[Any]) -> bool:
    """Not where its results raise when they are differentiated. Without a step results have the layout of operands."""
    tensors = [leaf for leaf in operands if isinstance(leaf, torch.Tensor)]
    return not _is_followed(operands) and all(tensor.is_contiguous() for tensor in tensors)


def call(carried: Sequence[torch.Tensor], operands: list[torch.Tensor], bodies: _C.Bodies) -> list[torch.Tensor]:
    *last, history = _C.call_keeping(operands, bodies)
    return torch.ops.saker.loop_rows.default(history, list(carried), last)


def found_in_runs(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Do sizes differ of which one is known only when what gives it has run?"""
    return any(
        isinstance(size, torch.SymInt) and not size.node.has_hint() and str(one) != str(other)
        for one, other in zip(left, right, strict=True)
        for size in (one, other)
    )


def as_python(
    holds: Callable[[Any], bool], cond_fn: Callable, body_fn: Callable, carried: Any, additional: Sequence[Any] = ()
) -> Any:
    operands = (*carried, *additional)
    if torch._C._functorch.peek_interpreter_stack() is not None:
        from torch._functorch.pyfunctorch import dispatch_functorch

        return dispatch_functorch(_operator(), (cond_fn, body_fn, carried, additional), {})
    with torch.no_grad():
        results = _loop(holds, cond_fn, body_fn, tuple(carried), tuple(additional))
    if not _is_followed(operands):
        return results
    raises = torch._C._functions.DelayedError(f"Autograd not implemented for {_operator()}", 1)
    return pytree.tree_map_only(torch.Tensor, lambda tensor: raises(_followed(tensor)), results)


def _followed(tensor: torch.Tensor) -> torch.Tensor:
    follows = tensor.is_floating_point() or tensor.is_complex()
    return tensor.detach().requires_grad_() if follows else tensor


def _loop(
    holds: Callable[[Any], bool], cond_fn: Callable, body_fn: Callable, values: tuple, additional: tuple
) -> tuple[Any, ...]:
    columns: list[list[Any]] = [[] for _ in values]
    goes_on = holds(cond_fn(*values, *additional))
    if not goes_on:
        return tuple(each.unsqueeze(0).clone() if isinstance(each, torch.Tensor) else each for each in values)
    while goes_on:
        values = tuple(body_fn(*values, *additional))
        for column, value in zip(columns, values, strict=True):
            column.append(value)
        goes_on = holds(cond_fn(*values, *additional))
    return tuple(torch.stack(column) for column in columns)
