"""Operators of PyTorch that call one function under some state: inside of recordings what it calls is recorded.

PyTorch's own implementations load its compiler, to keep it out of the function.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._higher_order_ops

from saker import _C, _auto_functionalized, _called_operators, _checkpoint, _control_checks
from saker.errors import BodyAssertion, BodyError, BodyTypeError


def _wrap(function: Callable, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _with_grad(enabled: bool, function: Callable, *args: Any, **kwargs: Any) -> Any:
    with torch.set_grad_enabled(enabled):
        return function(*args, **kwargs)


def _with_autocast(device: str, dtype: Any, enabled: bool, cache: Any, /, *rest: Any, **kwargs: Any) -> Any:
    function, *args = rest
    with torch.autocast(device, dtype, enabled, cache):
        return function(*args, **kwargs)


def _bypassing(wrapper: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    around = function.meta[wrapper] if isinstance(wrapper, str) else wrapper
    return around(function)(*args, **kwargs)


def _strict(function: Callable, operands: Any) -> Any:
    return function(*operands)


def hints_wrapper(function: Callable, args: Any, kwargs: Any, hints: Any) -> Any:
    if not isinstance(args, (tuple, list)):
        raise BodyTypeError("hints_wrapper", f"args must be a tuple or a list, not a {type(args).__name__}")
    if not isinstance(kwargs, dict):
        raise BodyError("hints_wrapper", f"kwargs must be a dict, not a {type(kwargs).__name__}")
    return function(*args, **kwargs)


def _shared(function: Callable, identifier: Any, *operands: Any) -> Any:
    """``invoke_subgraph``: the identifier says which calls share a body, which graphs find out by themselves."""
    if identifier is not None and not isinstance(identifier, str):
        raise BodyAssertion("invoke_subgraph", f"identifier must be a str or None, not a {type(identifier).__name__}")
    for i, operand in enumerate(operands):
        if operand is not None and not isinstance(operand, (torch.Tensor, int, torch.SymInt, torch.Generator)):
            raise BodyAssertion(
                "invoke_subgraph", f"operands must be tensors and ints, and operand {i} is a {type(operand).__name__}"
            )
    return _region(function, *operands)


def _region(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Calls a function whose operators are one call of a region: equal ones are differentiated once."""
    returned = False
    _C.begin_region()
    try:
        result = function(*args, **kwargs)
        returned = True
        return result
    finally:
        _C.end_region(returned)


def _open_regions() -> None:
    """``nested_compile_region`` calls the function itself, and a placeholder for PyTorch's compiler before that."""
    module = sys.modules.get("torch._higher_order_ops.invoke_subgraph")
    plain = getattr(module, "invoke_subgraph_placeholder", None)
    if not inspect.isfunction(plain):
        return

    @functools.wraps(plain)
    def invoke_subgraph_placeholder(func: Callable, *args: Any, **kwargs: Any) -> Any:
        if _control_checks.records():
            return _region(func, *args, **kwargs)
        return plain(func, *args, **kwargs)

    module.invoke_subgraph_placeholder = invoke_subgraph_placeholder


def _with_options(function: Callable, *operands: Any, **_options: Any) -> Any:
    """Operators whose keywords are for a back end: ``invoke_quant``, ``foreach_map``."""
    return function(*operands)


def _constant(function: Callable, args: Any) -> Any:
    return function(*args)


def _checkpointed(function: Callable, *args: Any, **kwargs: Any) -> Any:
    names = inspect.signature(_checkpoint.module.checkpoint).parameters
    own = {name: kwargs.pop(name) for name in tuple(kwargs) if name in names or name == "preserve_rng_state"}
    with _checkpoint.region(own.get("preserve_rng_state", True), own.get("context_fn")):
        return function(*args, **kwargs)


def _associative_scan(function: Callable, xs: Any, additional_inputs: Any = ()) -> Any:
    if not isinstance(additional_inputs, (tuple, list)):
        found = type(additional_inputs).__name__
        raise BodyAssertion("associative_scan", f"additional_inputs must be a tuple or a list, not a {found}")
    from torch._higher_order_ops.associative_scan import generic_associative_scan

    return generic_associative_scan(function, xs, additional_inputs=tuple(additional_inputs))


def _scan_by_loops(function: Callable, leaves: Any) -> Any:
    from saker import _associative_scan

    return _associative_scan.scan(function, leaves)


RULES: dict[str, Callable] = {
    "wrap": _wrap,
    "wrap_with_set_grad_enabled": _with_grad,
    "wrap_with_autocast": _with_autocast,
    "dynamo_bypassing_wrapper": _bypassing,
    "strict_mode": _strict,
    "hints_wrapper": hints_wrapper,
    "invoke_subgraph": _shared,
    "invoke_quant": _with_options,
    "invoke_quant_packed": _with_options,
    "foreach_map": _with_options,
    "run_const_graph": _constant,
    "tag_activation_checkpoint": _checkpointed,
    "wrap_activation_checkpoint": _checkpointed,
    "associative_scan": _associative_scan,
    "associative_scan by loops": _scan_by_loops,
    "auto_functionalized": _auto_functionalized.first,
    "auto_functionalized_v2": _auto_functionalized.second,
    # What rules of _called_operators leave to be done unwatched.
    "out_dtype of": _called_operators.compute_out_dtype,
    "with_effects of": _called_operators.check_effects,
    **_control_checks.CHECKS,
}


def _each(function: Callable, operands: tuple[Any, ...]) -> Any:
    """``function`` of the first item of each list, of the second one and so on; what is no list is given to all."""
    lists = [operand for operand in operands if isinstance(operand, (list, tuple))]
    if not lists:
        return function(*operands)
    made = []
    for i in range(min([len(items) for items in lists])):
        made.append(function(*[items[i] if isinstance(items, (list, tuple)) else items for items in operands]))
    return made


def _open_foreach_map() -> None:
    """Its Python function takes a function from PyTorch's compiler before it calls the operator."""
    plain = getattr(torch._higher_order_ops, "foreach_map", None)
    module = sys.modules.get("torch._higher_order_ops.foreach_map")
    if not inspect.isfunction(plain) or module is None:
        return

    @functools.wraps(plain)
    def foreach_map(op: Callable, *operands: Any, **kwargs: Any) -> Any:
        if _control_checks.records():
            return _each(op, operands)
        return plain(op, *operands, **kwargs)

    torch._higher_order_ops.foreach_map = module.foreach_map = foreach_map


def install() -> None:
    _open_foreach_map()
    _open_regions()
    _called_operators.install()
    _control_checks.install()
    for name, rule in RULES.items():
        operator = getattr(torch.ops.higher_order, name, None)
        if operator is not None:
            _called_operators.open_door(operator, rule)
