"""Hooks on the backward of modules and tensors in recorded programs: the steps that set them, made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.hooks import BackwardHook


def _fresh(before: Any, after: Any) -> list[torch.Tensor]:
    """The tensors that took the place of others."""
    if not isinstance(before, tuple):
        before, after = (before,), (after,)
    return [new for old, new in zip(before, after, strict=True) if new is not old]


def enter(module: torch.nn.Module, hooks: list, pre_hooks: list, args: tuple) -> list[torch.Tensor]:
    """What ``module`` is called with instead of tensors of ``args``; before it, a tensor that remembers the hooks."""
    token = torch.empty(0)
    token.hook = BackwardHook(module, hooks, pre_hooks)
    return [token, *_fresh(args, token.hook.setup_input_hook(args))]


def leave(token: torch.Tensor, result: Any) -> list[torch.Tensor]:
    """What the call gives instead of tensors of ``result``."""
    return _fresh(result, token.hook.setup_output_hook(result))


def awaited(_gradient: torch.Tensor) -> None:
    """Stands for a hook until the call is over that makes it."""


def register(tensor: torch.Tensor, method: Callable, hook: Callable) -> Any:
    """Registers ``hook`` by one of the methods of tensors; gives the handle that removes it."""
    return method(tensor, hook)


def put(handle: Any, hook: Callable) -> None:
    """Puts ``hook`` where ``awaited`` has been, if it has not been removed."""
    hooks = handle.hooks_dict_ref()
    if hooks is not None and handle.id in hooks:
        hooks[handle.id] = hook
