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
from saker._body_kinds import Meta, meta_of, text_of
from saker.errors import BodyAssertion, BodyError, BodyIndexError

_NAME = "while_loop_stack_output"


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


def error_of(spec: pytree.TreeSpec, metas: Sequence[Meta], wanted: int) -> type[BodyError]:
    """What eager mode raises for a step that gives something else than ``wanted`` values: it takes what there is."""
    given = metas[0][2][0] if spec.is_leaf() and metas and metas[0][2] else len(metas)
    return BodyIndexError if given > wanted else BodyAssertion


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


def _checked(condition: Any) -> Any:
    if isinstance(condition, bool):
        return condition
    if isinstance(condition, torch.Tensor) and condition.dim() == 0 and condition.dtype is torch.bool:
        return condition
    found = text_of(meta_of(condition)) if isinstance(condition, torch.Tensor) else f"a {type(condition).__name__}"
    raise BodyError(_NAME, f"cond_fn must return a bool, or a bool tensor without dimensions, and returns {found}")


def _loop(
    holds: Callable[[Any], bool], cond_fn: Callable, body_fn: Callable, values: tuple, additional: tuple
) -> tuple[Any, ...]:
    columns: list[list[Any]] = [[] for _ in values]

    def asks() -> bool:
        return holds(_checked(cond_fn(*values, *additional)))

    goes_on = asks()
    if not goes_on:
        return tuple(each.unsqueeze(0).clone() if isinstance(each, torch.Tensor) else each for each in values)
    while goes_on:
        made = body_fn(*values, *additional)
        if not isinstance(made, tuple) or len(made) != len(values):
            found = len(made) if isinstance(made, tuple) else f"a {type(made).__name__}"
            what = f"body_fn must return a tuple of {len(values)} tensors, as many as are carried, and returns {found}"
            raise (BodyIndexError if len(made) > len(values) else BodyAssertion)(_NAME, what)
        values = made
        for column, value in zip(columns, values, strict=True):
            column.append(value)
        goes_on = asks()
    return tuple(torch.stack(column) for column in columns)
