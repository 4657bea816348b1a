"""Operators of PyTorch that call one function under some state: inside of recordings what it calls is recorded.

PyTorch's own implementations load its compiler, to keep it out of the function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from saker import _C


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


def _with_hints(function: Callable, args: Any, kwargs: Any, hints: Any) -> Any:
    return function(*args, **kwargs)


RULES: dict[str, Callable] = {
    "wrap": _wrap,
    "wrap_with_set_grad_enabled": _with_grad,
    "wrap_with_autocast": _with_autocast,
    "dynamo_bypassing_wrapper": _bypassing,
    "strict_mode": _strict,
    "hints_wrapper": _with_hints,
}


def _open(operator: Any, rule: Callable) -> None:
    plain = type(operator).__call__

    @functools.wraps(plain)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return rule(*args, **kwargs) if _C.is_engaged() else plain(self, *args, **kwargs)

    type(operator).__call__ = call


def install() -> None:
    for name, rule in RULES.items():
        operator = getattr(torch.ops.higher_order, name, None)
        if operator is not None:
            _open(operator, rule)
