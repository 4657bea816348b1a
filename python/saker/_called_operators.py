"""Operators of PyTorch that call another operator (``out_dtype``, ``run_with_rng_state``): that one is recorded.

These functions take the place of the operators' ``__call__`` and are recorded like functions of the program. PyTorch
has no derivatives of most of these operators: their results have a gradient function that refuses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import elementwise_dtypes
from torch.utils import _pytree as pytree

from saker import _C
from saker.errors import BodyAssertion, BodyError, BodyValueError


class _NoDerivative(torch.autograd.Function):
    """Gives results back; has no gradient to give for the operands."""

    @staticmethod
    def forward(ctx: Any, name: str, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.name = name
        return tuple([tensor.view_as(tensor) for tensor in tensors[:count]])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise BodyError(ctx.name, "has no derivative, in eager mode as little as here; detach what it is given")


def _without_derivative(name: str, operands: Any, results: list[Any]) -> list[Any]:
    """``results``, which no gradient goes through; those that could have one refuse when it is asked for."""
    if not torch.is_grad_enabled():
        return results
    needing = []
    for operand in operands:
        if isinstance(operand, torch.Tensor) and operand.requires_grad:
            needing.append(operand)
    if not needing:
        return results
    places = []
    for i, result in enumerate(results):
        if isinstance(result, torch.Tensor) and (result.is_floating_point() or result.is_complex()):
            places.append(i)
    if not places:
        return results
    made = _NoDerivative.apply(name, len(places), *[results[i] for i in places], *needing)
    results = list(results)
    for i, place in enumerate(places):
        results[place] = made[i]
    return results


def _check_out_dtype(op: Any) -> None:
    from torch._higher_order_ops.out_dtype import ALLOWABLE_OPS

    op = original(op)
    if not isinstance(op, torch._ops.OpOverload):
        raise BodyValueError("out_dtype", f"op must be an operator like torch.ops.aten.mm.default, not a {_kind(op)}")
    if op._schema.is_mutable:
        raise BodyValueError("out_dtype", f"op must write to nothing, and {op} writes to an argument")
    if len(op._schema.returns) != 1 or not isinstance(op._schema.returns[0].type, torch.TensorType):
        raise BodyValueError("out_dtype", f"op must return one tensor, and {op} does not")
    if op not in ALLOWABLE_OPS:
        known = ", ".join(str(each) for each in ALLOWABLE_OPS)
        raise BodyValueError("out_dtype", f"op must be one of {known}, and is {op}")


def compute_out_dtype(op: Any, dtype: torch.dtype, *args: Any) -> torch.Tensor:
    _check_out_dtype(op)
    leaves = [*pytree.tree_leaves(args), torch.empty(1, dtype=dtype, device="meta")]
    wide = elementwise_dtypes(*leaves, type_promotion_kind=torch._prims_common.ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
    with torch.no_grad():
        given = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(wide[0]), args)
        return op(*given).to(dtype)


def original(function: Any) -> Any:
    """What a program gave an operator: in a call that is watched it comes wrapped."""
    is_wrapped = type(function) is type(len) and function.__name__ == "body"
    return function.__self__ if is_wrapped else function


def _kind(value: Any) -> str:
    return type(value).__name__


def out_dtype(op: Any, dtype: torch.dtype, *args: Any) -> torch.Tensor:
    from saker import _control_flow

    return _without_derivative("out_dtype", args, [_control_flow.call("out_dtype of", op, dtype, *args)])[0]


def _tracepoint(*args: Any, **_where: Any) -> Any:
    return tuple(_without_derivative("_export_tracepoint", args, [_detached(arg) for arg in args]))


def _detached(arg: Any) -> Any:
    return arg.detach() if isinstance(arg, torch.Tensor) and arg.requires_grad and torch.is_grad_enabled() else arg


def _on_cpu(args: Any, kwargs: Any) -> bool:
    """Is it the generator of the CPU that is drawn from?"""
    device = kwargs.get("device")
    if device is not None:
        return torch.device(device).type == "cpu"
    for arg in args:
        if isinstance(arg, torch.Tensor):
            return arg.device.type == "cpu"
    return False


# The functions of ``torch.random`` of these names, where operators are recorded and do not run. The operators are
# looked up here: PyTorch makes objects for them, which would be a part of the program where it happened in a call.
_rng_state = torch.ops.saker.rng_state
_set_rng_state = torch.ops.saker.set_rng_state
_manual_seed = torch.ops.saker.manual_seed


def get_rng_state() -> torch.Tensor:
    return _rng_state()


def set_rng_state(new_state: torch.Tensor) -> None:
    _set_rng_state(new_state)


def manual_seed(seed: Any) -> torch.Generator:
    _manual_seed(int(seed))
    return torch.default_generator


def _save_state(op: Any, *args: Any, **kwargs: Any) -> Any:
    state = torch.get_rng_state()
    with torch.no_grad():
        result = op(*args, **kwargs)
    return state, _of_operator("run_and_save_rng_state", args, result)


def _with_state(state: torch.Tensor, op: Any, *args: Any, **kwargs: Any) -> Any:
    before = torch.get_rng_state()
    torch.set_rng_state(state)
    with torch.no_grad():
        result = op(*args, **kwargs)
    torch.set_rng_state(before)
    return _of_operator("run_with_rng_state", args, result)


def _of_operator(name: str, args: Any, result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return tuple(_without_derivative(name, args, list(result)))
    return _without_derivative(name, args, [result])[0]


def _effects(token: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    from saker import _control_flow

    _control_flow.call("with_effects of", op)
    result = op(*args, **kwargs)
    return (torch.empty(0), *result) if isinstance(result, tuple) else (torch.empty(0), result)


def check_effects(op: Any) -> None:
    op = original(op)
    if not isinstance(op, (torch._ops.HigherOrderOperator, torch._ops.OpOverload)):
        raise BodyAssertion("with_effects", f"op must be an operator, not a {_kind(op)}")
    if isinstance(op, torch._ops.OpOverload):
        parts = [*op._schema.arguments, *op._schema.returns]
        if any(part.alias_info is not None for part in parts):
            raise BodyAssertion(
                "with_effects", f"op must not write to arguments nor return views of them, as {op} does"
            )


def _print(format_str: str, *args: Any, **kwargs: Any) -> None:
    _C.print_text(format_str, *args, **kwargs)


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str, torch.Tensor)


def _prints_plainly(args: Any, kwargs: Any) -> bool:
    """Is it a text of numbers, strings and tensors? It is printed as by Python's own function, in order with others."""
    if _C.trace_mode() is not None or torch._C._are_functorch_transforms_active() or not isinstance(args[0], str):
        return False
    return all(_is_plain(each) for each in (*args, *kwargs.values()))


# What is called instead, and whether arguments allow it.
_RULES: dict[str, tuple[Callable, Callable | None]] = {
    "out_dtype": (out_dtype, None),
    "_export_tracepoint": (_tracepoint, None),
    "run_and_save_rng_state": (_save_state, _on_cpu),
    "run_with_rng_state": (_with_state, lambda args, kwargs: _on_cpu(args[1:], kwargs)),
    "with_effects": (_effects, None),
    "print": (_print, _prints_plainly),
}


def open_door(operator: Any, rule: Callable, allowed: Callable | None = None) -> None:
    """Inside of recordings ``rule`` is called in the operator's place, where ``allowed`` says that it may."""
    plain = type(operator).__call__

    @functools.wraps(plain)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if _C.is_engaged() and (allowed is None or allowed(args, kwargs)):
            return rule(*args, **kwargs)
        return plain(self, *args, **kwargs)

    type(operator).__call__ = call


def install() -> None:
    for name, (rule, allowed) in _RULES.items():
        operator = torch._ops._higher_order_ops.get(name)
        if operator is not None:
            open_door(operator, rule, allowed)
