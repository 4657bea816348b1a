"""What parameters of bodies are called: as those of the functions that the program has given."""

from __future__ import annotations

import inspect
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch.utils import _pytree as pytree

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class _Noted(threading.local):
    operator = ""
    names: ClassVar[dict[str, list[str]]] = {}  # by what the operator calls the function


_noted = _Noted()


def of(function: Any, arguments: Sequence[Any]) -> list[str]:
    """A name for each tensor; none for a function that takes ``*args``. Tensors in a structure have numbers behind."""
    if isinstance(function, types.BuiltinFunctionType) and callable(function.__self__):
        function = function.__self__  # how a call that is watched passes on the program's function
    try:
        function = function.forward if isinstance(function, torch.nn.Module) else function
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError, AttributeError):
        return []
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return []
    names: list[str] = []
    positional = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
    for name, argument in zip(positional, arguments, strict=False):
        if isinstance(argument, torch.Tensor):
            names.append(name)
            continue
        count = sum(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(argument))
        names += [f"{name}_{i}" for i in range(count)]
    return names


def note(operator: str, **functions: tuple[Callable, Sequence[Any]]) -> None:
    """What the program gives an operator, whose functions PyTorch puts into others that take ``*args``."""
    _noted.operator = operator
    _noted.names = {name: of(function, arguments) for name, (function, arguments) in functions.items()}


def take(operator: str) -> dict[str, list[str]]:
    """What was noted for this operator just before."""
    names = _noted.names if _noted.operator == operator else {}
    _noted.operator, _noted.names = "", {}
    return names
