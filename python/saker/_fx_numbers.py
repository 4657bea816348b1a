"""Expressions over sizes, computed by whoever can call a function: on numbers, or on nodes of a ``torch.fx.Graph``."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

# Operations that take two operands; those with more are folded.
_BINARY: dict[str, Callable] = {
    "mul": operator.mul,
    "add": operator.add,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": torch.sym_min,
    "max": torch.sym_max,
    "eq": operator.eq,
    "ne": operator.ne,
    "le": operator.le,
    "lt": operator.lt,
    "and": operator.and_,
    "or": operator.or_,
    "float Add": operator.add,
    "float Sub": operator.sub,
    "float Mul": operator.mul,
    "float Div": operator.truediv,
    "float IntDiv": operator.truediv,
    "float FloorDiv": operator.floordiv,
    "float Mod": operator.mod,
    "float Pow": operator.pow,
    "float Min": torch.sym_min,
    "float Max": torch.sym_max,
}
_UNARY: dict[str, Callable] = {
    "not": operator.not_,
    "float FromInt": float,
    "float Neg": operator.neg,
    "float Abs": operator.abs,
    "float Floor": math.floor,
    "float Ceil": math.ceil,
    "float Trunc": math.trunc,
    "float Round": round,
    **{
        f"float {name.capitalize()}": getattr(math, name)
        for name in ["sqrt", "exp", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"]
    },
}
# What symbolic integers can do and stay symbolic.
ON_INTEGERS = {_BINARY[name] for name in ("mul", "add", "floordiv", "mod", "min", "max", "eq", "ne", "le", "lt")}

Call = Callable[[Callable, tuple], Any]


def compute(tree: Any, symbol: Callable[[str], Any], call: Call) -> Any:
    """What an expression as ``describe_program`` gives it is, where ``symbol`` says what a symbol is."""
    if not isinstance(tree, tuple):
        return tree
    name, *operands = tree
    if name == "symbol":
        return symbol(operands[0])
    if name == "int":
        return call(_UNARY[operands[0]], (compute(operands[1], symbol, call),))
    made = [compute(operand, symbol, call) for operand in operands]
    if name in _UNARY:
        return call(_UNARY[name], (made[0],))
    neutral = {"mul": 1, "add": 0}.get(name)
    if neutral is not None and len(made) > 1 and isinstance(made[0], int) and made[0] == neutral:
        made = made[1:]
    result = made[0]
    for operand in made[1:]:
        result = call(_BINARY[name], (result, operand))
    return result
