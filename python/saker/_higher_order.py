"""Higher-order operators of PyTorch (``torch.ops.higher_order``) inside of recordings.

PyTorch dispatches them in Python, and finds no kernels of theirs on the keys that recordings use. They go on to their
next kernel from there: what it asks of PyTorch is recorded like everything else.
"""

from __future__ import annotations

from typing import Any

from torch._ops import HigherOrderOperator, _compute_keyset

from saker import _C
from saker.errors import CaptureError

# Operators that do something besides computing tensors, once in each call; a graph of their operators would not.
_EFFECTS = frozenset({"print"})


def _record(operator: HigherOrderOperator, *args: Any, **kwargs: Any) -> Any:
    if operator._name in _EFFECTS and _C.trace_mode() == "capture":
        name = f"torch.ops.higher_order.{operator._name}"
        if not _C.note_only_eager(f"{name} does something in each call"):
            raise CaptureError(
                "Unsupported",
                "it does something in each call, which a graph does not; call it outside of what is captured",
                name,
            )
        return None
    keys = _compute_keyset(args, kwargs, operator.non_fallthrough_keys) - _C.recording_keys
    return _dispatch(operator, keys.highestPriorityTypeId(), *args, **kwargs)


_dispatch = HigherOrderOperator.dispatch


def dispatch(self, /, dispatch_key, *args, **kwargs):
    if _C.recording_keys.has(dispatch_key):
        return _record(self, *args, **kwargs)
    return _dispatch(self, dispatch_key, *args, **kwargs)


def install() -> None:
    if HigherOrderOperator.dispatch is not dispatch:
        HigherOrderOperator.dispatch = dispatch
