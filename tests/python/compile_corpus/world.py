"""What a program of the corpus is: a function with all that it can see, made twice, so that a compiled one and an eager
one live through the same calls and changes side by side."""

from __future__ import annotations

import contextlib
import linecache
import textwrap
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class World:
    fn: Callable
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    # Changes to what the function reads; after each, it is called again.
    changes: list[Callable[[], Any]] = field(default_factory=list)
    # What the function may have changed, compared after every call.
    state: Callable[[], Any] = lambda: None
    # What surrounds each call.
    around: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext


def world(fn: Callable, *args: Any, changes: Any = (), state: Any = None, **kwargs: Any) -> World:
    """`state`: a function that gives it, or the object itself."""
    asked = isinstance(state, (types.FunctionType, types.BuiltinMethodType))
    return World(fn, args, kwargs, list(changes), state if asked else lambda: state)


def surrounded(made: World, around: Callable[[], contextlib.AbstractContextManager], *changes: Any) -> World:
    """Every call is made below a context of its own."""
    made.around = around
    made.changes += changes
    return made


def changed(made: World, changes: list[Callable[[], Any]]) -> World:
    """For changes that need the world itself: other arguments."""
    made.changes = changes
    return made


def vec(*shape: int, seed: int = 0, grad: bool = False) -> torch.Tensor:
    """A tensor with numbers that follow from its shape: the same in both worlds."""
    shape = shape or (3,)
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).requires_grad_(grad)


def source(name: str, text: str, **given: Any) -> dict[str, Any]:
    """A module's globals, made from its text."""
    text = textwrap.dedent(text)
    filename = f"<corpus {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scope: dict[str, Any] = {"torch": torch, "__name__": name, **given}
    exec(compile(text, filename, "exec"), scope)
    return scope
