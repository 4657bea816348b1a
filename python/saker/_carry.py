"""How compiled functions are copied and pickled: what they were compiled of and with. They are recorded again where
they are loaded."""

from __future__ import annotations

import copy
import sys
import types
from typing import Any

from saker import _C


def settings_of(compiled: Any) -> dict[str, Any]:
    """The arguments of ``saker.compile`` that made it."""
    return getattr(compiled, "__dict__", {}).get("_settings", {})


def compiled_again(function: Any, settings: dict[str, Any]) -> Any:
    """What a pickle of a compiled function or module calls."""
    from saker._compile import compile

    return compile(function, **settings)


def _found_by_name(compiled: Any) -> bool:
    """Whether its module has it under its name, as a decorator leaves it: pickles then name it, as for functions."""
    name = getattr(compiled, "__qualname__", None)
    found: Any = sys.modules.get(getattr(compiled, "__module__", None) or "")
    for part in name.split(".") if isinstance(name, str) else ():
        found = getattr(found, part, None)
    return found is compiled


def reduced(compiled: Any) -> Any:
    """``__reduce__`` of a compiled function."""
    if _found_by_name(compiled):
        return compiled.__qualname__
    return compiled_again, (_C.compiled_function(compiled), settings_of(compiled))


def deepcopied(compiled: Any, memo: dict[int, Any]) -> Any:
    """``__deepcopy__`` of a compiled function: like functions, it is its own copy; an object or a bound method is
    copied."""
    function = _C.compiled_function(compiled)
    if isinstance(function, (types.FunctionType, types.BuiltinFunctionType, type)):
        return compiled
    return compiled_again(copy.deepcopy(function, memo), settings_of(compiled))
