"""torch.autograd.Function in a recording whose sizes are symbols, where operators do not run.

Where no gradient is asked for, a call consists of the operators of its forward. Whatever else it may do raises an
error, which ends the attempt: the call is then recorded with the sizes that it has.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import FunctionCtx, _is_setup_context_defined


class _NotOperators(RuntimeError):
    """What the call does is more than its operators."""


def apply(function: Any, *args: Any) -> Any:
    """Stands for the part of ``apply`` that is C code."""
    wanted = tuple(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args)
    if torch.is_grad_enabled() and any(wanted):
        raise _NotOperators("a torch.autograd.Function is differentiated")
    context = FunctionCtx()
    context.needs_input_grad = wanted
    with torch.no_grad():
        if _is_setup_context_defined(function.setup_context):
            made = function.forward(*args)
            function.setup_context(context, args, made)
        else:
            made = function.forward(context, *args)
        if hasattr(context, "dirty_tensors"):
            raise _NotOperators("a torch.autograd.Function writes to what it is given")
        if isinstance(made, tuple):
            return tuple(_own(each, args) for each in made)
        return _own(made, args)


def _own(value: Any, args: tuple[Any, ...]) -> Any:
    """A tensor that was given is not returned itself."""
    if not isinstance(value, torch.Tensor):
        return value
    if any(value is arg for arg in args):
        return value.detach() if value.requires_grad else value.view_as(value)
    if value.requires_grad:
        raise _NotOperators("a torch.autograd.Function gives a tensor from outside")
    return value
