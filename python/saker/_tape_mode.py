"""Operators on tensors that are made of others, seen before the class of these answers them."""

from __future__ import annotations

from typing import Any

import torch

from saker import _C
from saker._modes import Mode


class _Sees(Mode):
    pass


def _see(self: _Sees, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    if not types or not isinstance(func, torch._ops.OpOverload):
        return func(*args, **(kwargs or {}))
    schema = func._schema
    return _C.call_wrapped(schema.name, schema.overload_name, args, kwargs or {})


_Sees.__torch_dispatch__ = _see  # as it is: in a class body PyTorch would put something of its own around it


def enter() -> _Sees | None:
    """On, unless a mode of the program is: who leaves that one would leave this one."""
    if torch._C._len_torch_dispatch_stack() != 0:
        return None
    mode = _Sees()
    torch._C._push_on_torch_dispatch_stack(mode)
    return mode


def leave(mode: _Sees) -> None:
    top = torch._C._len_torch_dispatch_stack() - 1
    if top >= 0 and torch._C._get_dispatch_stack_at(top) is mode:
        torch._C._pop_torch_dispatch_stack(None)
