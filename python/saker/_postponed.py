"""What PyTorch tells its compiler before that is loaded: of these functions it is told when it is.

PyTorch's formulas in Python, which derivatives of higher order use, and `torch.func.linearize` load TorchDynamo only to
have it leave them alone.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

_COMPILER = "torch._dynamo"
_FORMULAS = ("torch._refs", "torch._prims_common", "torch._decomp")
_TOLD = "__dynamo_disable"  # where PyTorch keeps what a function is once its compiler knows


def _loaded() -> Any:
    return sys.modules.get(_COMPILER)


def _until_loaded(function: Callable) -> Callable:
    """``function``; from the time on when the compiler is loaded, what that makes of it."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        compiler = _loaded()
        if compiler is None:
            return function(*args, **kwargs)
        setattr(function, _TOLD, compiler.disable(function, True, wrapping=False))
        return getattr(function, _TOLD)(*args, **kwargs)

    return call


def _values() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and name.startswith(_FORMULAS):
            yield from vars(module).values()
    for table in torch._decomp.global_decomposition_table.values():
        yield from table.values()


def _postpone_formulas() -> None:
    marked = torch._disable_dynamo(lambda: None).__code__
    if "fn" not in marked.co_freevars:
        return
    place = marked.co_freevars.index("fn")
    for function in _values():
        while isinstance(function, types.FunctionType):
            if function.__code__ is marked:
                inner = function.__closure__[place].cell_contents
                if not hasattr(inner, _TOLD):
                    setattr(inner, _TOLD, _until_loaded(inner))
            function = getattr(function, "__wrapped__", None)


def _postpone_linearize() -> None:
    transforms = torch._functorch.eager_transforms
    plain = getattr(transforms, "lazy_dynamo_disallow", None)
    if plain is None:
        return

    @functools.wraps(plain)
    def disallow(function: Callable) -> Callable:
        return function if _loaded() is None else plain(function)

    transforms.lazy_dynamo_disallow = disallow


def install() -> None:
    if _loaded() is None:
        _postpone_formulas()
        _postpone_linearize()
