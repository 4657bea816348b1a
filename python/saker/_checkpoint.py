"""torch.utils.checkpoint in functions that are compiled ahead of time.

Eager checkpoints save nothing and run their function again in the backward. Here the function runs once, what it
records is marked, and the cut between forward and backward computes it again; random operators draw the same numbers
again. While functions are compiled, the two ways that PyTorch's checkpoint takes are replaced, for the threads that
compile.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import checkpoint as module

from saker import _C
from saker._modes import Mode
from saker._torch_version import CHECKPOINT_GENERATOR, checkpoint_context, checkpoint_options

_state = threading.local()


class _Choices(Mode):
    """Asks a policy (create_selective_checkpoint_contexts) about each operator."""

    def __init__(self, policy: Callable, region: int) -> None:
        super().__init__()
        self.policy = policy
        self.region = region

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        before = _C.checkpoint_position()
        result = func(*args, **kwargs)
        if func in module.SAC_IGNORED_OPS:
            return result
        context = checkpoint_context(result)
        if saves(self.policy(context, func, *args, **kwargs)):
            _C.checkpoint_mark(before, self.region, "save")
        return result


def saves(choice: Any) -> bool:
    """What a policy said of an operator: is its result kept?"""
    return choice is True or choice in (module.CheckpointPolicy.MUST_SAVE, module.CheckpointPolicy.PREFER_SAVE)


def are_choices(contexts: Any) -> bool:
    """Are these the two contexts that PyTorch makes of a policy?"""
    wanted = (module._CachingTorchDispatchMode, module._CachedTorchDispatchMode)
    return type(contexts) is tuple and tuple(map(type, contexts)) == wanted


def choose(policy: Callable, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
    """Calls an operator that does not run, and asks the policy about it."""
    kwargs = kwargs or {}
    result = func(*args, **kwargs)
    if func not in module.SAC_IGNORED_OPS:
        policy(checkpoint_context(result), func, *args, **kwargs)
    return result


def call_in(context: Any, function: Callable, args: tuple, kwargs: dict[str, Any] | None) -> Any:
    with context:
        return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def _region(preserve_rng_state: bool, context_fn: Callable | None) -> Iterator[None]:
    region, before = _C.checkpoint_number(), _C.checkpoint_position()
    around = contextlib.nullcontext() if context_fn is None else context_fn()[0]
    if isinstance(around, module._CachingTorchDispatchMode):
        around = _Choices(around.policy_fn, region)
    with around:
        yield
    _C.checkpoint_mark(before, region, "recompute" if preserve_rng_state else "redraw")


def region(preserve_rng_state: bool, context_fn: Callable | None) -> contextlib.AbstractContextManager[None]:
    """Marks what is recorded inside, where a function is compiled ahead of time; elsewhere it does nothing."""
    compiling = getattr(_state, "depth", 0)
    return _region(preserve_rng_state, context_fn) if compiling else contextlib.nullcontext()


class _Reentrant(module.CheckpointFunction):
    """Stands for CheckpointFunction."""

    original = module.CheckpointFunction

    @classmethod
    def apply(cls, function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        if not getattr(_state, "depth", 0):
            return cls.original.apply(function, preserve_rng_state, *args)
        module.check_backward_validity(args)
        # Without a gradient for its arguments such a checkpoint has none for its parameters either.
        wanted = any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args)
        with torch.set_grad_enabled(wanted and torch.is_grad_enabled()), _region(preserve_rng_state, None):
            return function(*args)


_generator = getattr(module, CHECKPOINT_GENERATOR)


def _without_reentrant(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Stands for PyTorch's generator, which is advanced before and after the function."""
    if not getattr(_state, "depth", 0):
        yield from _generator(*args, **kwargs)
        return
    with _region(*checkpoint_options(args, kwargs)):
        yield


class _Checkpoints:
    """Counts the captures that are on, in all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0

    def __enter__(self) -> None:
        _state.depth = getattr(_state, "depth", 0) + 1
        with self._lock:
            self._open += 1
            module.CheckpointFunction = _Reentrant
            setattr(module, CHECKPOINT_GENERATOR, _without_reentrant)

    def __exit__(self, *_: object) -> None:
        _state.depth -= 1
        with self._lock:
            self._open -= 1
            if self._open == 0:
                module.CheckpointFunction = _Reentrant.original
                setattr(module, CHECKPOINT_GENERATOR, _generator)


checkpoints = _Checkpoints()
