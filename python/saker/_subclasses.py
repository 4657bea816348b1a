"""Tensor subclasses that are made of other tensors (``__tensor_flatten__``): graphs see the plain tensors inside.

Two functions of autograd lead from such a tensor to the ones inside and back. While capturing they connect stand-ins of
the plain tensors with the subclass that the program sees, and at a call the subclass that is given with the plain
tensors that the graph takes: gradients pass through them like values do.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from saker import _C
from saker._subclass_arguments import Arguments
from saker._trees import Leaves, flatten
from saker.errors import CaptureError


class _Form(NamedTuple):
    """How a tensor is made of others."""

    kind: type
    parts: list[tuple[str, _Form | None]]
    objects: list[tuple[str, Any]]  # what is no tensor among the parts: the mesh of a DTensor
    context: Any
    size: torch.Size
    stride: tuple[int, ...]
    plain: int  # tensors at the bottom

    def build(self, inner: Iterator[torch.Tensor]) -> torch.Tensor:
        parts = {name: form.build(inner) if form else next(inner) for name, form in self.parts}
        parts.update(self.objects)
        return self.kind.__tensor_unflatten__(parts, self.context, self.size, self.stride)


def _form_of(tensor: torch.Tensor) -> _Form | None:
    if not is_traceable_wrapper_subclass(tensor):
        return None
    names, context = tensor.__tensor_flatten__()
    found = [(name, getattr(tensor, name)) for name in names]
    parts = [(name, _form_of(part)) for name, part in found if isinstance(part, torch.Tensor)]
    objects = [(name, part) for name, part in found if not isinstance(part, torch.Tensor)]
    plain = sum(form.plain if form else 1 for _, form in parts)
    return _Form(type(tensor), parts, objects, context, tensor.size(), tensor.stride(), plain)


def _inner(tensor: torch.Tensor, form: _Form) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for name, part in form.parts:
        value = getattr(tensor, name)
        found += _inner(value, part) if part else [value]
    return found


def _raise_wrong_guess(expected: str, found: str) -> NoReturn:
    raise RuntimeError(
        f"the backward was compiled for a gradient that is {expected}, and is given {found}. Give one of the same "
        "kind, or a gradient that turns into one (__coerce_same_metadata_as_tangent__)."
    )


def _kind(form: _Form | None) -> str:
    if form is None:
        return "a plain tensor"
    inside = ", ".join(_kind(part) for _, part in form.parts if part)
    return f"a {form.kind.__name__}" + (f" of {inside}" if inside else "")


def _as_guessed(gradient: torch.Tensor, form: _Form | None) -> torch.Tensor:
    """The gradient as a tensor of this form; most are."""
    found = _form_of(gradient)
    if _same_kind(found, form):
        return gradient
    coerce = getattr(gradient, "__coerce_same_metadata_as_tangent__", None)
    kind, context = (form.kind, form.context) if form else (torch.Tensor, None)
    coerced = coerce(context, kind) if coerce else None
    if coerced is None or not _same_kind(_form_of(coerced), form):
        _raise_wrong_guess(_kind(form), _kind(found))
    return coerced


def _same_kind(left: _Form | None, right: _Form | None) -> bool:
    if left is None or right is None:
        return left is right
    return (
        left.kind is right.kind
        and left.context == right.context
        and left.objects == right.objects
        and [name for name, _ in left.parts] == [name for name, _ in right.parts]
        and all(_same_kind(a, b) for (_, a), (_, b) in zip(left.parts, right.parts, strict=True))
    )


class _SakerToInner(torch.autograd.Function):
    @staticmethod
    def forward(ctx, form: _Form, outer: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.form = form
        return tuple(inner.detach() for inner in _inner(outer, form))

    @staticmethod
    def backward(ctx, *gradients: torch.Tensor) -> tuple[Any, ...]:
        return None, _SakerToOuter.apply(ctx.form, *[_as_guessed(gradient, None) for gradient in gradients])


class _SakerToOuter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, form: _Form, *inner: torch.Tensor) -> torch.Tensor:
        ctx.form = form
        return form.build(iter([tensor.detach() for tensor in inner]))

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[Any, ...]:
        gradient = _as_guessed(gradient, ctx.form)
        return None, *_SakerToInner.apply(_form_of(gradient), gradient)


class _SakerResult(_SakerToOuter):
    """A result of a call, which tells by the number of the backward that it was given a gradient."""

    @staticmethod
    def forward(ctx, form: _Form, given: set[int], *inner: torch.Tensor) -> torch.Tensor:
        ctx.given = given
        return _SakerToOuter.forward(ctx, form, *inner)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[Any, ...]:
        ctx.given.add(torch._C._current_graph_task_id())
        return None, *_SakerToOuter.backward(ctx, gradient)


class _SakerSplit(torch.autograd.Function):
    """A plain tensor whose gradient is made of several: itself, and something for each of the others to go to.

    Where no result of a class has a gradient, that of the plain tensor is a plain one.
    """

    @staticmethod
    def forward(ctx, form: _Form, given: set[int], joined: deque[int], plain: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.form, ctx.given, ctx.joined = form, given, joined
        return plain.detach(), *(plain.new_zeros(()).expand_as(plain) for _ in range(form.plain - 1))

    @staticmethod
    def backward(ctx, *gradients: torch.Tensor) -> tuple[Any, ...]:
        parts = [_as_guessed(gradient, None) for gradient in gradients]
        task = torch._C._current_graph_task_id()
        if task not in ctx.given and task not in ctx.joined:
            return None, None, None, parts[0]
        return None, None, None, _SakerToOuter.apply(ctx.form, *parts)


class _SakerJoin(torch.autograd.Function):
    """The plain tensor again, while capturing, or where the function is called again for a backward."""

    @staticmethod
    def forward(ctx, joined: deque[int], plain: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        ctx.count, ctx.joined = 1 + len(others), joined
        return plain.detach()

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[Any, ...]:
        form = _form_of(gradient)
        if form is None and _C.trace_mode() is None:
            return None, gradient, *(None for _ in range(ctx.count - 1))
        if form is None or form.plain != ctx.count:
            raise _NotApart("Unsupported", "the gradient of a plain tensor is of another class than before")
        ctx.joined.append(torch._C._current_graph_task_id())
        if _C.trace_mode() is None:
            return None, *_SakerToInner.apply(form, gradient)
        return None, *_inner(gradient, form)


class _Eagerly(Exception):
    """This call is to be made in eager mode."""


class _NotApart(CaptureError):
    """The function does to an argument what cannot be done to the tensors inside of it."""


def _geometry(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.size(), tensor.stride(), tensor.storage_offset()


class Wrapping:
    """Which of some tensors are made of others, and how to get to these and back."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self.forms = [_form_of(tensor) for tensor in tensors]
        self.any = any(form is not None for form in self.forms)
        self.plain = sum(form.plain if form else 1 for form in self.forms)  # tensors at the bottom

    def unwrap(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return [plain for part in self._parts(tensors) for plain in part] if self.any else tensors

    def _parts(self, tensors: list[torch.Tensor]) -> list[Sequence[torch.Tensor]]:
        known: dict[int, Sequence[torch.Tensor]] = {}  # what is given twice has one inside
        parts = []
        for form, tensor in zip(self.forms, tensors, strict=True):
            if id(tensor) not in known:
                known[id(tensor)] = self._inside(form, tensor)
            parts.append(known[id(tensor)])
        return parts

    @staticmethod
    def _inside(form: _Form | None, tensor: torch.Tensor) -> Sequence[torch.Tensor]:
        if form is None:
            return [tensor]
        if type(tensor) is not form.kind:
            raise TypeError(f"the function was compiled for a {form.kind.__name__}, not a {type(tensor).__name__}")
        return _SakerToInner.apply(form, tensor) if tensor.requires_grad else _inner(tensor, form)

    def wrap(self, plain: list[torch.Tensor], given: set[int] | None = None) -> list[torch.Tensor]:
        """With ``given``, as results of a call: numbers of backwards that give one of them a gradient."""
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
                if not differentiable:
                    known[key] = form.build(iter(parts))
                elif given is None:
                    known[key] = _SakerToOuter.apply(form, *parts)
                else:
                    known[key] = _SakerResult.apply(form, given, *parts)
            tensors.append(known[key] if form else parts[0])
        return tensors


class _SakerNote(torch.autograd.Function):
    """The same tensor, while capturing; tells what its gradient is."""

    @staticmethod
    def forward(ctx, told: Callable[[_Form], None], plain: torch.Tensor) -> torch.Tensor:
        ctx.told = told
        return plain.detach()

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[Any, ...]:
        form = _form_of(gradient)
        if form is None:
            return None, gradient
        ctx.told(form)
        return None, _inner(gradient, form)[0]  # this capture is not used


class _Inputs(Wrapping):
    """Arguments; beside subclasses, plain tensors may get gradients that are such."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__(tensors)
        self.gradients: dict[int, _Form] = {}  # by plain argument, where they are known to be of a class
        self.joined: deque[int] = deque(maxlen=64)  # backwards that lead through a call made again, of late
        self.settled = not any(form is None and t.requires_grad for form, t in zip(self.forms, tensors, strict=True))

    def told(self, place: int, form: _Form) -> None:
        if self.settled:
            raise _NotApart("Unsupported", "the gradient of a plain tensor is of another class than before")
        self.gradients[place] = form

    def unwrap(self, tensors: list[torch.Tensor], given: set[int] | None = None) -> list[torch.Tensor]:
        plain: list[torch.Tensor] = []
        for place, (part, tensor) in enumerate(zip(self._parts(tensors), tensors, strict=True)):
            form = self.gradients.get(place)
            if form is None:
                plain += part
            elif tensor.requires_grad:
                plain += _SakerSplit.apply(form, given, self.joined, tensor)
            else:
                plain += [tensor, *(tensor.new_zeros(()).expand_as(tensor) for _ in range(form.plain - 1))]
        return plain

    def wrap(self, plain: list[torch.Tensor]) -> list[torch.Tensor]:
        given, taken = iter(plain), []
        for place, form in enumerate(self.forms):
            count = self.gradients[place].plain if place in self.gradients else 1
            parts = [next(given) for _ in range(form.plain if form else count)]
            if form is None and parts[0].requires_grad:
                if place in self.gradients:
                    parts = [_SakerJoin.apply(self.joined, *parts)]
                elif _C.trace_mode() == "capture" and not self.settled:
                    parts = [_SakerNote.apply(functools.partial(self.told, place), parts[0])]
            taken += parts if form else parts[:1]
        return super().wrap(taken)


class _Apart:
    """A function of the plain tensors inside of its arguments, compiled for one structure of these."""

    def __init__(self, fn: Callable, compiler: Callable, leaves: list[Any], spec: pytree.TreeSpec) -> None:
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.inputs = _Inputs([leaves[i] for i in places])
        constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

        # Leaves whose writing autograd refuses.
        kept = [i for i, place in enumerate(places) if leaves[place].requires_grad and leaves[place].is_leaf]
        views = [i for i, place in enumerate(places) if leaves[place]._is_view()]

        def called(plain: Sequence[torch.Tensor]) -> tuple[list[Any], pytree.TreeSpec, Arguments]:
            given = list(constants)
            tensors = self.inputs.wrap(list(plain))
            for place, tensor in zip(places, tensors, strict=True):
                given[place] = tensor
            before = [_geometry(tensor) for tensor in tensors]
            watched = [i for i, form in enumerate(self.inputs.forms) if form or i in self.inputs.gradients]
            arguments = Arguments(tensors, watched)
            args, kwargs = pytree.tree_unflatten(given, spec)
            results, result_spec = flatten(fn(*args, **kwargs))
            if _C.trace_mode() == "capture" and before != [_geometry(tensor) for tensor in tensors]:
                raise _NotApart("Unsupported", "a tensor subclass is given other sizes or strides")
            if _C.trace_mode() == "capture":
                self._check_gradients(
                    [leaf for leaf in results if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
                )
            return results, result_spec, arguments

        def flat(*plain: torch.Tensor) -> list[Any]:
            if _C.trace_mode() != "capture":
                raise _Eagerly
            results, self.spec, arguments = called(plain)
            self.redone, needed = arguments.ended(results)
            if set(self.redone.contents) & {*kept, *views}:
                raise _NotApart("Unsupported", "autograd may not let an argument be written")
            for place in self.redone.views:
                results[place] = None
            self.results = Leaves(results)
            found = [*(results[i] for i in self.results.tensors), *needed]
            self.outputs = Wrapping(found)
            return [*self.results.numbers_of(results), *self.outputs.unwrap(found)]

        def again(*plain: torch.Tensor) -> list[Any]:
            results, _, arguments = called(plain)
            redone, needed = arguments.ended(results)
            found = [leaf for i, leaf in enumerate(results) if isinstance(leaf, torch.Tensor) and i not in redone.views]
            return Wrapping([*found, *needed]).unwrap([*found, *needed])

        flat.again = again
        self.places = places
        self.flat, self.compiler = flat, compiler
        self.call = compiler(flat)

    def _check_gradients(self, results: list[torch.Tensor]) -> None:
        """Which results are given gradients must tell of what class those of plain arguments are."""
        of_classes = sum(is_traceable_wrapper_subclass(result) for result in results)
        if self.inputs.gradients and of_classes > 1 and of_classes < len(results):
            raise _NotApart("Unsupported", "the class of a plain tensor's gradient depends on the gradients of results")

    def _settle(self, tensors: list[torch.Tensor]) -> None:
        """Compiles; and again, where that shows a gradient of a plain tensor to be made of several."""
        self.call.prepare(*self.inputs.unwrap(tensors))
        self.inputs.settled = True
        self.call = self.compiler(self.flat)  # nothing is noted any more

    def __call__(self, leaves: list[Any]) -> Any:
        tensors = [leaves[i] for i in self.places]
        if not self.inputs.settled:
            self._settle(tensors)
        given: set[int] = set()
        versions = [tensor._version for tensor in tensors]
        returned = self.call(*self.inputs.unwrap(tensors, given))
        numbers = len(returned) - self.outputs.plain
        outputs = self.outputs.wrap(returned[numbers:], given)
        results = len(outputs) - self.redone.needed
        views = self.redone.run(tensors, versions, outputs[results:])
        found = self.results.filled(outputs[:results], returned[:numbers])
        for place, view in views.items():
            found[place] = view
        return pytree.tree_unflatten(found, self.spec)


def _state(leaves: list[Any]) -> Any:
    """What decides, beside their structure, what a function does to its arguments in the eyes of autograd."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    first = {id(tensor): i for i, tensor in reversed(list(enumerate(tensors)))}
    known = [(tensor.requires_grad, tensor.is_leaf, tensor._is_view(), first[id(tensor)]) for tensor in tensors]
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), known


_UNKNOWN: Any = object()


def taken_apart(fn: Callable, compiler: Callable[[Callable], Callable]) -> Callable:
    """``fn``, compiled on the plain tensors where its arguments are subclasses made of such, and as it is elsewhere."""
    made: list[tuple[Any, _Apart | None]] = []  # None: the function as it is

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = flatten((args, kwargs))
        forms = [_form_of(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        # A ragged size of a nested tensor belongs to its tensor of offsets: made of stand-ins it would be another one.
        nested = any(isinstance(leaf, torch.Tensor) and leaf.is_nested for leaf in leaves)
        if nested or not any(isinstance(form, _Form) for form in forms):
            return fn(*args, **kwargs)
        key = spec, forms, _state(leaves)
        apart = next((apart for known, apart in made if known == key), _UNKNOWN)
        if apart is _UNKNOWN:
            apart = _Apart(fn, compiler, leaves, spec)
            made.append((key, apart))
        try:
            return apart(leaves) if apart else fn(*args, **kwargs)
        except _Eagerly:
            return fn(*args, **kwargs)
        except _NotApart:  # while capturing: nothing has been done yet
            made[:] = [(known, None if other is apart else other) for known, other in made]
            return fn(*args, **kwargs)

    return call
