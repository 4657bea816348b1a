"""``torch.utils.checkpoint.checkpoint`` without PyTorch's compiler.

PyTorch keeps its compiler out of checkpoints, and loads it for this at the first call. As long as it is not there,
nothing needs to be kept out: functions are called as they are.
"""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

from torch.utils import checkpoint as module

from saker import _C

_KEPT = "__dynamo_disable"  # where PyTorch keeps what it calls instead of a function
_NAMES = ("checkpoint", "_run_fn_with_dynamo_disabled")
_MODES = ("_CachingTorchDispatchMode", "_CachedTorchDispatchMode")  # of selective checkpoints


class _Inside:
    """A function that is checkpointed inside of a compiled one which runs eagerly, or in a ``saker.deferred`` block:
    called again by a backward, it does what it did, and control flow is a node with bodies both times."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _C.call_inside(self.function, *args, **kwargs)


def _open(outer: Any) -> None:
    function = getattr(outer, "__wrapped__", None)
    if function is None or hasattr(function, _KEPT):
        return

    def inside(args: tuple) -> tuple:
        checkpoints = function.__name__ == "checkpoint" and args
        if checkpoints and (_C.is_inside() or _C.trace_mode() == "deferred"):
            return (_Inside(args[0]), *args[1:])
        return args

    def behind(kept: Any) -> Any:
        return lambda *args, **kwargs: kept(*inside(args), **kwargs)

    def call(*args: Any, **kwargs: Any) -> Any:
        args = inside(args)
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if getattr(function, _KEPT, None) is not call:
            return outer(*args, **kwargs)
        delattr(function, _KEPT)  # PyTorch finds out anew what to call
        importlib.import_module("torch._dynamo")
        try:
            return outer(*args, **kwargs)
        finally:
            kept = getattr(function, _KEPT, None)
            if kept is not None:
                setattr(function, _KEPT, behind(kept))

    setattr(function, _KEPT, call)


# What checkpoints ask PyTorch's compiler for while it is not loaded: what it would say, having traced nothing.
ANSWERS: dict[str, Any] = {
    "config": SimpleNamespace(error_on_nested_fx_trace=True),
    "disable": lambda function: function,
}


def asks() -> bool:
    """Is it the code of checkpoints that asks, two frames up?"""
    return sys._getframe(2).f_globals.get("__name__") == module.__name__


def install() -> None:
    for name in _NAMES:
        _open(getattr(module, name, None))
    for name in _MODES:
        _open(getattr(getattr(module, name, None), "__torch_dispatch__", None))
