"""torch.autograd.Function whose forward and backward are written down when they run, and are then a part of a program.

A Function is looked at in one call of a replay: its forward runs on a context that is made in Python, watched, and its
backward in the same way, when autograd first calls it. Where both do nothing but compute with tensors, programs take
their place (``opened``), and autograd goes through these ahead of time. PyTorch's own code makes the node in each case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd.function import FunctionCtx, _is_setup_context_defined, _SingleLevelFunction

from . import _C


class Context(FunctionCtx):
    """What a forward and a backward are given."""


class _Place:
    """Stands for a tensor."""


class NotOpened(RuntimeError):
    """What was written down does not fit here."""


def _forward(function: Any, split: bool, needs: tuple[bool, ...], *args: Any) -> Any:
    context = Context()
    context.needs_input_grad = needs
    if split:
        made = function.forward(*args)
        function.setup_context(context, args, made)
    else:
        made = function.forward(context, *args)
    return made, context.__dict__


def _backward(function: Any, context: Any, *gradients: Any) -> Any:
    return function.backward(context, *gradients)


def _settle(node: Any, made: Any, state: dict[str, Any]) -> Any:
    """Tells PyTorch what a forward has told its context."""
    state = {name: value for name, value in state.items() if name != "needs_input_grad"}
    if "to_save" in state:
        node.save_for_backward(*state.pop("to_save"))
    if "dirty_tensors" in state:
        node.mark_dirty(*state.pop("dirty_tensors"))
    if "non_differentiable" in state:
        node.mark_non_differentiable(*state.pop("non_differentiable"))
    if "materialize_grads" in state:
        node.set_materialize_grads(state.pop("materialize_grads"))
    node.__dict__.update(state)
    return made


def _context(node: Any) -> Context:
    """What a backward sees of its node."""
    context = Context()
    context.__dict__.update(node.__dict__)
    context.needs_input_grad = node.needs_input_grad
    context.saved_tensors = node.saved_tensors
    return context


class _Places:
    """Values with placeholders for tensors, and the tensors."""

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self.places: list[_Place] = []

    def of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            for tensor, place in zip(self.tensors, self.places, strict=True):
                if tensor is value:
                    return place
            self.tensors.append(value)
            self.places.append(_Place())
            return self.places[-1]
        if type(value) in (tuple, list):
            return self._unless_same(value, tuple(self.of(each) for each in value), value)
        if type(value) is dict:
            return self._unless_same(value, tuple(self.of(each) for each in value.values()), value.values())
        return value

    def _unless_same(self, container: Any, made: tuple[Any, ...], items: Iterable[Any]) -> Any:
        """What holds no tensors stands for itself, so that guards see what becomes of it."""
        if all(one is other for one, other in zip(made, items, strict=True)):
            return container
        if type(container) is not tuple:
            raise NotOpened("it is given a list or a dict of tensors, which may change")
        return made

    def of_context(self, context: Context) -> Context:
        made = Context()
        made.__dict__.update({name: self.of(value) for name, value in context.__dict__.items()})
        return made


def _same(one: Any, other: Any, places: tuple[list[_Place], list[_Place]]) -> bool:
    """Are these the same, with placeholders at the same places?"""
    if type(one) is not type(other):
        return False
    if type(one) is _Place:
        return one in places[0] and places[0].index(one) == places[1].index(other)
    if type(one) is Context:
        one, other = one.__dict__, other.__dict__
    if type(one) in (tuple, list, torch.Size):
        return len(one) == len(other) and all(_same(a, b, places) for a, b in zip(one, other, strict=True))
    if type(one) is dict:
        return list(one) == list(other) and all(_same(value, other[name], places) for name, value in one.items())
    return one is other or (type(one) in (bool, int, float, str, complex) and repr(one) == repr(other))


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if type(value) is dict:
        value = tuple(value.values())
    return [each for item in value for each in _tensors(item)] if type(value) in (tuple, list) else []


def _share_memory(value: Any, others: Any) -> bool:
    return any(_C.share_memory(one, other) for one in _tensors(value) for other in _tensors(others))


def _subclass(function: Any, forward: Any, backward: Any) -> Any:
    """The same Function with another forward and backward: errors and nodes are called as they would be.

    An ``apply`` of its own has run already, and has called that of all Functions.
    """
    names = {
        "apply": torch.autograd.Function.__dict__["apply"],
        "forward": staticmethod(forward),
        "backward": staticmethod(backward),
        "setup_context": staticmethod(_SingleLevelFunction.setup_context),
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
    }
    return type(function)(function.__name__, (function,), names)


def is_followed(args: tuple[Any, ...]) -> bool:
    """Does autograd follow a call with such arguments?"""
    return torch.is_grad_enabled() and any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args)


class Study:
    """One call of a Function in a program."""

    def __init__(self, function: Any, ahead: bool = False) -> None:
        self.function = function
        # What was written down is bound to placeholders when it is, and not when the Function is opened: then classes
        # of PyTorch may have other methods (saker._doors).
        self.ahead = ahead
        self._bindings: list[tuple[Any, list[_Place]]] = [((), []), ((), [])]  # of forward and backward
        self.split = _is_setup_context_defined(function.setup_context)
        self.why = ""  # it stays one operator
        self.recorded: tuple[Any, Any] = (None, None)  # forward and backward
        self.followed = False  # by autograd
        self.forward: Any = None  # bound to placeholders, as is the next one
        self.backward: Any = None
        names = ("studied", "opened", "again")
        made = [_subclass(function, *getattr(self, "_" + name)()) for name in names]
        self._classes = dict(zip(names, made, strict=True))

    def __str__(self) -> str:
        return f"it calls {self.function.__name__}.apply: {self.why}"

    # --- what the program asks ---

    def refused(self) -> bool:
        return bool(self.why)

    def known(self) -> bool:
        return all(self.recorded) or (self.recorded[0] is not None and not self.followed)

    def holds_ahead(self) -> bool:
        return all(recorded is None or recorded.holds(False) for recorded in self.recorded)

    def forward_holds(self) -> bool:
        return self.forward is not None and self.forward.holds(False)

    def backward_holds(self) -> bool:
        return self.backward is None or self.backward.holds(True)

    def studied(self, *args: Any) -> Any:
        self.followed = self.followed or is_followed(args)
        return self._classes["studied"].apply(*args)

    def opened(self, *args: Any) -> Any:
        self.forward = self.backward = None
        made = self._classes["opened"].apply(*args)
        if self.recorded[1] is not None:
            _C.note_opened(_tensors(made), self.recorded[1].looks_at("saved_tensors"))
        return made

    def again(self, *args: Any) -> Any:
        return self._classes["again"].apply(*args)

    # --- forward and backward of the three classes ---

    def _written(self, number: int, call: Any, args: tuple[Any, ...]) -> Any:
        made, recorded, why = _C.record_computation(call, args)
        self.why = self.why or why
        self.recorded = (recorded, None) if number == 0 else (self.recorded[0], recorded)
        return made

    def _bind_ahead(self, number: int, arguments: Callable[[_Places], tuple[Any, ...]]) -> None:
        recorded = self.recorded[number]
        if not self.ahead or recorded is None:
            return
        places = _Places()
        try:
            args = arguments(places)
            self._bindings[number] = (args, places.places)
            if recorded.bind(args, places.places) is None:
                raise NotOpened("it changes what it reads")
        except NotOpened as error:
            self.why = str(error)

    def _bound(self, number: int, args: tuple[Any, ...], places: _Places) -> Any:
        recorded = self.recorded[number]
        if self.ahead:
            known, placeholders = self._bindings[number]
            bound = recorded if _same(known, args, (placeholders, places.places)) else None
        else:
            bound = recorded.bind(args, places.places)
        if bound is None:
            raise NotOpened("something that it reads has changed")
        return bound

    def _studied(self) -> tuple[Any, Any]:
        def forward(node: Any, *args: Any) -> Any:
            made, state = self._written(0, _forward, (self.function, self.split, node.needs_input_grad, *args))
            self._bind_ahead(0, lambda places: (self.function, self.split, node.needs_input_grad, *places.of(args)))
            return _settle(node, made, state)

        def backward(node: Any, *gradients: Any) -> Any:
            if torch.is_grad_enabled() or self.refused() or self.known():
                return self.function.backward(node, *gradients)
            try:
                context = _context(node)
            except RuntimeError:  # what was saved was written to, or freed: the backward may not look at it
                return self.function.backward(node, *gradients)
            before = dict(context.__dict__)
            try:
                made = self._written(1, _backward, (self.function, context, *gradients))
                self._bind_ahead(1, lambda places: (self.function, places.of_context(context), *places.of(gradients)))
                return made
            finally:
                after = context.__dict__
                for name in before.keys() | after.keys():
                    if name not in after:
                        node.__dict__.pop(name, None)
                    elif name not in before or after[name] is not before[name]:
                        setattr(node, name, after[name])

        return forward, backward

    def _opened(self) -> tuple[Any, Any]:
        def forward(node: Any, *args: Any) -> Any:
            places = _Places()
            call = (self.function, self.split, node.needs_input_grad, *places.of(args))
            self.forward = self._bound(0, call, places)
            if self.forward.asks_flags() or not self.forward.fits(places.tensors, True):
                raise NotOpened("its forward was given other tensors")
            made, state = self.forward.run(places.tensors)
            dirty = state.get("dirty_tensors", ())
            if any(all(places.tensors[i] is not each for each in dirty) for i in self.forward.writes()):
                raise NotOpened("it writes to what it is given")
            kept = {name: value for name, value in state.items() if name not in _TOLD}
            if _share_memory(kept, (*args, made)):
                raise NotOpened("it keeps a tensor that others may write to")
            return _settle(node, made, state)

        def backward(node: Any, *gradients: Any) -> Any:
            places = _Places()
            context = places.of_context(_context(node))
            call = (self.function, context, *places.of(gradients))
            self.backward = self._bound(1, call, places)
            if self.backward.writes():
                raise NotOpened("its backward writes to what it is given")
            if self.backward.asks_strides() or not self.backward.fits(places.tensors, False):
                raise NotOpened("its backward was given other tensors")
            return self.backward.run(places.tensors)

        return forward, backward

    def _again(self) -> tuple[Any, Any]:
        def forward(node: Any, *args: Any) -> Any:
            places = _Places()
            places.of(args)
            return _settle(node, *self.forward.run(places.tensors))

        def backward(node: Any, *gradients: Any) -> Any:
            return self.function.backward(node, *gradients)  # as it is now

        return forward, backward


_TOLD = ("to_save", "dirty_tensors", "non_differentiable", "materialize_grads", "needs_input_grad")
