"""torch.autograd.Function inside ``torch.vmap``, where no gradient is asked for.

PyTorch leads such a call through its dispatcher for higher-order operators: Python code that computes with dispatch
keys and makes a class for each call. A recording takes a shorter way. A function whose batching rule is generated
consists of the operators of its forward, and these have batching rules themselves.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch._functorch.autograd_function import custom_function_call, has_overridden_vmap_rule
from torch._ops import HigherOrderOperator
from torch.autograd import forward_ad
from torch.autograd.function import FunctionCtx, _is_setup_context_defined


def only_vmaps() -> bool:
    """Is ``vmap`` the only transform around, on one level or several?"""
    stack = torch._C._functorch.get_interpreter_stack() or ()
    vmap = torch._C._functorch.TransformType.Vmap
    return bool(stack) and all(each.key() == vmap for each in stack) and forward_ad._current_level < 0


def may_apply(function: Any) -> bool:
    """The same, and the function can be called inside of transforms at all."""
    return only_vmaps() and _is_setup_context_defined(function.setup_context)


def _wants_gradient(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not torch.is_grad_enabled():
        return False
    while torch._C._functorch.is_functorch_wrapped_tensor(value):
        value = torch._C._functorch.get_unwrapped(value)
    return value.requires_grad


def apply(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Stands for the function's ``apply`` while ``may_apply`` says yes, where that is C code."""
    given = inspect.signature(function.forward).bind(*args, **kwargs)
    given.apply_defaults()
    return call(function, *given.args, **given.kwargs)


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Stands for PyTorch's ``custom_function_call`` while ``only_vmaps`` says yes."""
    generated = function.generate_vmap_rule and not has_overridden_vmap_rule(function)
    if not generated or kwargs or any(_wants_gradient(arg) for arg in args):
        return HigherOrderOperator.__call__(custom_function_call, function, *args, **kwargs)
    context = FunctionCtx()
    context.needs_input_grad = (False,) * len(args)
    with torch.no_grad():
        made = function.forward(*args)
        result = made if isinstance(made, torch.Tensor) else tuple(made)
        function.setup_context(context, args, result)
        if isinstance(result, torch.Tensor):
            return _own(result, args)
        return tuple(_own(each, args) for each in result)


def _own(value: Any, args: tuple[Any, ...]) -> Any:
    """A tensor that was given is not returned itself."""
    given = isinstance(value, torch.Tensor) and any(value is arg for arg in args)
    return value.view_as(value) if given else value
