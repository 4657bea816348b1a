"""Higher-order operators of PyTorch (``torch.ops.higher_order``) inside of recordings.

PyTorch dispatches them in Python, and finds no kernels of theirs on the keys that recordings use. They go on to their
next kernel from there: what it asks of PyTorch is recorded like everything else.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from typing import Any

import torch
from torch._higher_order_ops import utils as torch_utils
from torch._ops import HigherOrderOperator, _compute_keyset, _higher_order_ops

from saker import _C, _checkpoint_call, _control_flow, _flex_attention, _forward_mode, _postponed, _printed, _wrappers
from saker._lines import here
from saker.errors import CaptureError

# Operators that do something besides computing tensors, once in each call; a graph of their operators would not.
_EFFECTS = frozenset({"print", "call_torchbind"})
_WITHOUT_RESULT = frozenset({"print"})


def _only_now(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    full = f"torch.ops.higher_order.{name}"
    if name in _WITHOUT_RESULT and _C.note_only_eager(f"{full} does something in each call"):
        return
    if name == "print" and _printed.record(*args, **kwargs):
        return
    _control_flow.run_as_python(f"{full} does something in each call")
    message = "it does something in each call, which a graph does not; call it outside of what is captured"
    raise CaptureError("Unsupported", message, full, *here())


def _record(operator: HigherOrderOperator, *args: Any, **kwargs: Any) -> Any:
    if _control_flow.knows(operator._name) and not _control_flow.is_pythons((args, kwargs)):
        return _control_flow.call(operator._name, *args, **kwargs)
    if operator._name in _EFFECTS and _C.trace_mode() == "capture":
        return _only_now(operator._name, args, kwargs)
    keys = _compute_keyset(args, kwargs, operator.non_fallthrough_keys) - _C.recording_keys
    return _dispatch(operator, keys.highestPriorityTypeId(), *args, **kwargs)


_dispatch = HigherOrderOperator.dispatch


def dispatch(self, /, dispatch_key, *args, **kwargs):
    if _C.recording_keys.has(dispatch_key):
        return _record(self, *args, **kwargs)
    if _control_flow.runs_plainly(self._name, args):
        return _control_flow.run_plainly(self._name, args)
    if _control_flow.knows(self._name) and _C.is_engaged() and not _control_flow.is_pythons((args, kwargs)):
        return _control_flow.call(self._name, *args, **kwargs)
    return _dispatch(self, dispatch_key, *args, **kwargs)


_compile_and_call = getattr(torch_utils, "_hop_compile_and_call", None)


# What PyTorch gives its compiler, and the operator that this calls: operands may be nested there, and not here.
_WRAPPERS = {"_cond_op_wrapper": "cond", "_while_loop_op_wrapper": "while_loop"}


def compile_and_call(fn, args, kwargs=None):
    """Inside of recordings the operator is called as it is; elsewhere PyTorch compiles it."""
    if _C.is_engaged():
        operator = _WRAPPERS.get(getattr(fn, "__name__", ""))
        if operator is not None:
            return _control_flow.call(operator, *args, **(kwargs or {}))
        return fn(*args, **(kwargs or {}))
    return _compile_and_call(fn, args, kwargs)


class _CompiledAutograd:
    """Stands for ``torch._dynamo.compiled_autograd``: what is not loaded needs not be turned off."""

    _disable = contextlib.nullcontext

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("torch._dynamo.compiled_autograd"), name)


class _Dynamo:
    """Stands for ``torch._dynamo`` until something imports that: control flow, checkpoints and ``torch.func`` only ask
    it questions."""

    compiled_autograd = _CompiledAutograd()

    @staticmethod
    def is_dynamo_supported() -> bool:
        if _C.is_engaged():
            return True
        return importlib.import_module("torch._dynamo").is_dynamo_supported()

    def __getattr__(self, name: str) -> Any:
        if name in _checkpoint_call.ANSWERS and _checkpoint_call.asks():
            return _checkpoint_call.ANSWERS[name]
        return getattr(importlib.import_module("torch._dynamo"), name)


def install() -> None:
    if "torch._dynamo" not in sys.modules:
        torch._dynamo = _Dynamo()  # an import puts the module in its place
    for name in list(_higher_order_ops):  # the namespace keeps what was looked up, which is no change by a program
        getattr(torch.ops.higher_order, name)
    if HigherOrderOperator.dispatch is not dispatch:
        _flex_attention.install()
        _wrappers.install()
        _checkpoint_call.install()
        _forward_mode.install()
        _postponed.install()
        HigherOrderOperator.dispatch = dispatch
        if _compile_and_call is not None:
            torch_utils._hop_compile_and_call = functools.wraps(_compile_and_call)(compile_and_call)
