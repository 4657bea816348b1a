"""torch.autograd.Function where its forward is all that a call of it does.

That is so where no gradient is asked for: in a recording whose sizes are symbols, where operators do not run
(``apply``; whatever else a call may do raises an error, which ends the attempt, and the call is recorded with the sizes
that it has), and inside of the forward or backward of another Function (``inside``), which autograd does not follow.
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


def inside(function: Any, *args: Any) -> Any:
    """The same where autograd is off, and operators run: what is written is written."""
    context = FunctionCtx()
    context.needs_input_grad = tuple(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args)
    if _is_setup_context_defined(function.setup_context):
        made = function.forward(*args)
        function.setup_context(context, args, made)
    else:
        made = function.forward(context, *args)
    written = getattr(context, "dirty_tensors", ())
    if isinstance(made, tuple):
        return tuple(_given_back(each, args, written) for each in made)
    return _given_back(made, args, written)


def _given_back(value: Any, args: tuple[Any, ...], written: tuple[Any, ...]) -> Any:
    """As autograd gives back results that it does not follow; a view made without it may say that it requires grad."""
    if not isinstance(value, torch.Tensor) or any(value is tensor for tensor in written):
        return value
    if any(value is arg for arg in args):
        return value.detach() if value.requires_grad else value.view_as(value)
    if value.requires_grad and not value._is_view():
        value.detach_()
    return value


def _own(value: Any, args: tuple[Any, ...]) -> Any:
    """A tensor that was given is not returned itself."""
    if not isinstance(value, torch.Tensor):
        return value
    if any(value is arg for arg in args):
        return value.detach() if value.requires_grad else value.view_as(value)
    if value.requires_grad:
        raise _NotOperators("a torch.autograd.Function gives a tensor from outside")
    return value
