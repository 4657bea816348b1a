"""Tensor subclasses that are made of other tensors (``__tensor_flatten__``): graphs see the plain tensors inside.

Two functions of autograd lead from such a tensor to the ones inside and back. While capturing they connect stand-ins of
the plain tensors with the subclass that the program sees, and at a call the subclass that is given with the plain
tensors that the graph takes: gradients pass through them like values do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from saker import _C
from saker.errors import CaptureError


class _Form(NamedTuple):
    """How a tensor is made of others."""

    kind: type
    parts: list[tuple[str, _Form | None]]
    context: Any
    size: torch.Size
    stride: tuple[int, ...]
    plain: int  # tensors at the bottom

    def build(self, inner: Iterator[torch.Tensor]) -> torch.Tensor:
        parts = {name: form.build(inner) if form else next(inner) for name, form in self.parts}
        return self.kind.__tensor_unflatten__(parts, self.context, self.size, self.stride)


def _form_of(tensor: torch.Tensor) -> _Form | None:
    if not is_traceable_wrapper_subclass(tensor):
        return None
    names, context = tensor.__tensor_flatten__()
    parts = [(name, _form_of(getattr(tensor, name))) for name in names]
    plain = sum(form.plain if form else 1 for _, form in parts)
    return _Form(type(tensor), parts, context, tensor.size(), tensor.stride(), plain)


def _inner(tensor: torch.Tensor, form: _Form) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for name, part in form.parts:
        value = getattr(tensor, name)
        found += _inner(value, part) if part else [value]
    return found


class _SakerToInner(torch.autograd.Function):
    @staticmethod
    def forward(ctx, form: _Form, outer: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.form = form
        return tuple(inner.detach() for inner in _inner(outer, form))

    @staticmethod
    def backward(ctx, *gradients: torch.Tensor) -> tuple[Any, ...]:
        return None, _SakerToOuter.apply(ctx.form, *gradients)


class _SakerToOuter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, form: _Form, *inner: torch.Tensor) -> torch.Tensor:
        ctx.form = form
        return form.build(iter([tensor.detach() for tensor in inner]))

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[Any, ...]:
        form = _form_of(gradient)
        if form is None:
            raise RuntimeError(
                f"the gradient of a {ctx.form.kind.__name__} is a plain tensor; give one of the same class"
            )
        return None, *_SakerToInner.apply(form, gradient)


class _NotApart(CaptureError):
    """The function does to an argument what cannot be done to the tensors inside of it."""


def _geometry(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.size(), tensor.stride(), tensor.storage_offset()


class Wrapping:
    """Which of some tensors are made of others, and how to get to these and back."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self.forms = [_form_of(tensor) for tensor in tensors]
        self.any = any(form is not None for form in self.forms)

    def unwrap(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        if not self.any:
            return tensors
        plain: list[torch.Tensor] = []
        known: dict[int, Sequence[torch.Tensor]] = {}  # what is given twice has one inside
        for form, tensor in zip(self.forms, tensors, strict=True):
            if id(tensor) not in known:
                known[id(tensor)] = self._inside(form, tensor)
            plain += known[id(tensor)]
        return plain

    @staticmethod
    def _inside(form: _Form | None, tensor: torch.Tensor) -> Sequence[torch.Tensor]:
        if form is None:
            return [tensor]
        if type(tensor) is not form.kind:
            raise TypeError(f"the function was compiled for a {form.kind.__name__}, not a {type(tensor).__name__}")
        return _SakerToInner.apply(form, tensor) if tensor.requires_grad else _inner(tensor, form)

    def wrap(self, plain: list[torch.Tensor]) -> list[torch.Tensor]:
        if not self.any:
            return plain
        inner = iter(plain)
        tensors: list[torch.Tensor] = []
        known: dict[tuple[int, ...], torch.Tensor] = {}
        for form in self.forms:
            parts = [next(inner) for _ in range(form.plain if form else 1)]
            key = tuple(id(part) for part in parts)
            if form and key not in known:
                differentiable = any(part.requires_grad for part in parts)
                known[key] = _SakerToOuter.apply(form, *parts) if differentiable else form.build(iter(parts))
            tensors.append(known[key] if form else parts[0])
        return tensors


class _Apart:
    """A function of the plain tensors inside of its arguments, compiled for one structure of these."""

    def __init__(self, fn: Callable, compiler: Callable, leaves: list[Any], spec: pytree.TreeSpec) -> None:
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.inputs = Wrapping([leaves[i] for i in places])
        constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

        def flat(*plain: torch.Tensor) -> list[torch.Tensor]:
            given = list(constants)
            tensors = self.inputs.wrap(list(plain))
            for place, tensor in zip(places, tensors, strict=True):
                given[place] = tensor
            before = [_geometry(tensor) for tensor in tensors]
            args, kwargs = pytree.tree_unflatten(given, spec)
            results, self.spec = pytree.tree_flatten(fn(*args, **kwargs))
            if _C.trace_mode() == "capture" and before != [_geometry(tensor) for tensor in tensors]:
                raise _NotApart("Unsupported", "a tensor subclass is given other sizes or strides")
            self.results = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in results]
            self.tensors = [i for i, leaf in enumerate(results) if isinstance(leaf, torch.Tensor)]
            self.outputs = Wrapping([results[i] for i in self.tensors])
            return self.outputs.unwrap([results[i] for i in self.tensors])

        self.places = places
        self.call = compiler(flat)

    def __call__(self, leaves: list[Any]) -> Any:
        returned = self.call(*self.inputs.unwrap([leaves[i] for i in self.places]))
        results = list(self.results)
        for place, tensor in zip(self.tensors, self.outputs.wrap(returned), strict=True):
            results[place] = tensor
        return pytree.tree_unflatten(results, self.spec)


_UNKNOWN: Any = object()


def taken_apart(fn: Callable, compiler: Callable[[Callable], Callable]) -> Callable:
    """``fn``, compiled on the plain tensors where its arguments are subclasses made of such, and as it is elsewhere."""
    made: list[tuple[Any, _Apart | None]] = []  # None: the function as it is

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        forms = [_form_of(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        if not any(isinstance(form, _Form) for form in forms):
            return fn(*args, **kwargs)
        apart = next((apart for known, apart in made if known == (spec, forms)), _UNKNOWN)
        if apart is _UNKNOWN:
            apart = _Apart(fn, compiler, leaves, spec)
            made.append(((spec, forms), apart))
        try:
            return apart(leaves) if apart else fn(*args, **kwargs)
        except _NotApart:  # while capturing: nothing has been done yet
            made[:] = [(known, None if other is apart else other) for known, other in made]
            return fn(*args, **kwargs)

    return call
