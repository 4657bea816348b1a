"""PyTorch's control flow (``cond``, ``while_loop``, ``scan``, ``map``) inside of recordings: one node with bodies each.

The functions of the program run once, on stand-ins; what they find elsewhere becomes an operand. PyTorch's own
implementations, which start its compiler, are not called. Arguments arrive here as the operators of
``torch.ops.higher_order`` take them, behind PyTorch's own checks.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from saker import _C, _body_names, _control_checks, _control_transforms, _stacked_loop, _wrappers
from saker import _flex_attention as _flex
from saker._body_kinds import DIFFER, check_carried, meta_of, text_of
from saker._doors import doors
from saker._stats import count
from saker._torch_version import SCANS_TAKE_LENGTHS
from saker.errors import BodyError


class _AsPython(BaseException):  # no handler of the program's is meant
    """The operator is to be run as the Python code that it stands for."""


class _AppliesFunction(_AsPython):
    """Its backward is the user's, and belongs to no graph."""


class _Unwatched(BaseException):
    """The call that is around runs eagerly since a body was begun: bodies are recorded for themselves."""


class _Constant(_AsPython):
    """A function of the program gives Python numbers, which are known when it is recorded."""

    def __init__(self, leaves: list[Any]) -> None:
        super().__init__("a function returns a number")
        self.leaves = leaves


def run_as_python(why: str) -> None:
    """Inside of a body: the outermost operator around is to run as Python code."""
    if _depth.bodies:
        raise _AsPython(why)


class _Depth(threading.local):
    bodies = 0  # that are being recorded on this thread
    forgotten = False  # what is recorded is not used: eager mode runs instead


_depth = _Depth()


class _Body:
    """A function of the program, recorded on stand-ins: the structure of what it gives."""

    def __init__(
        self,
        recorder: _C.BodyRecorder,
        where: tuple[str, str],
        function: Callable,
        given: _Given,
        names: dict[str, list[str]] | None = None,
    ) -> None:
        self.where = where
        known = (names or {}).get(where[1]) or _body_names.of(function, given.arguments)
        stand_ins = recorder.begin(given.tensors, given.sliced, known)
        _depth.bodies += 1
        before = _C.take_applied()
        try:
            results, self.spec = pytree.tree_flatten(function(*given.filled(stand_ins)))
        finally:
            _depth.bodies -= 1
            self.applies = _C.take_applied()  # a torch.autograd.Function, whose backward no graph has
            if before or self.applies:
                _C.note_applied()
        self.tensors = [i for i, leaf in enumerate(results) if isinstance(leaf, torch.Tensor)]
        self.constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in results]
        for leaf in self.constants:
            if leaf is not None and not isinstance(leaf, (bool, int)):
                raise self.error(f"returns a {type(leaf).__name__}; return tensors, ints and None")
        if any(leaf is not None for leaf in self.constants):
            raise _Constant(results)
        found = [results[i] for i in self.tensors]
        self.metas = [meta_of(tensor) for tensor in found]
        if recorder.end(found):
            self.applies = True
            _C.note_applied()

    def error(self, what: str) -> BodyError:
        operator, name = self.where
        return BodyError(operator, f"{name} {what}")

    def filled(self, tensors: Sequence[torch.Tensor]) -> Any:
        leaves = list(self.constants)
        for place, tensor in zip(self.tensors, tensors, strict=True):
            leaves[place] = tensor
        return pytree.tree_unflatten(leaves, self.spec)


class _Given:
    """What bodies are called with: structures whose tensors are operands."""

    def __init__(self, arguments: Sequence[Any], sliced: Sequence[Any] = (), others: Sequence[Any] = ()) -> None:
        self.arguments = (*arguments, *sliced, *others)
        leaves, self.spec = pytree.tree_flatten((tuple(arguments), tuple(sliced), tuple(others)))
        counts = [len(pytree.tree_leaves(part)) for part in (tuple(arguments), tuple(sliced), tuple(others))]
        kinds = [kind for kind, count in zip((False, True, False), counts, strict=True) for _ in range(count)]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.tensors = [leaves[i] for i in self.places]
        self.sliced = [kinds[i] for i in self.places]

    def filled(self, tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        leaves = list(self.constants)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        arguments, sliced, others = pytree.tree_unflatten(leaves, self.spec)
        return (*arguments, *sliced, *others)


def _opened(recorder: _C.BodyRecorder) -> contextlib.AbstractContextManager[None]:
    """Doors to data, which a recording that is around has opened already."""
    return doors if recorder.alone else contextlib.nullcontext()


def _close(recorder: _C.BodyRecorder, carried: int = 0, sliced: int = 0) -> tuple[_C.Bodies, list[torch.Tensor]]:
    if recorder.left:
        raise _Unwatched
    if recorder.alone:  # what is around runs eagerly
        count("graphs")
    closed = recorder.close(carried, sliced, False)
    if closed is None:
        raise _AsPython("a body does what a graph of its own does not")
    return closed


def _call(bodies: _C.Bodies, operands: list[torch.Tensor], *recorded: _Body) -> list[torch.Tensor]:
    if torch.is_grad_enabled() and any(operand.requires_grad for operand in operands):
        if bodies.is_random:
            raise _AsPython("a body draws random numbers")
        if any(body.applies for body in recorded) and not _depth.forgotten:
            raise _AppliesFunction("a body calls a torch.autograd.Function, and is differentiated")
    return _C.call_bodies(operands, bodies)


def _same(left: _Body, right: _Body) -> None:
    if left.spec != right.spec or left.tensors != right.tensors:
        found = f"{left.where[1]} returns {left.spec}, and {right.where[1]} {right.spec}"
        raise BodyError(left.where[0], f"both branches must return the same structure of tensors; {found}")
    for i, (one, other) in enumerate(zip(left.metas, right.metas, strict=True)):
        alike = one[:2] == other[:2] and len(one[2]) == len(other[2])
        if alike and _stacked_loop.found_in_runs(one[2], other[2]):
            raise _AsPython("a branch gives a size that data tells")
        if not alike or any(a != b for a, b in zip(one[2], other[2], strict=False)):
            found = DIFFER.format(i, left.where[1], text_of(one), right.where[1], text_of(other))
            raise BodyError(left.where[0], found)


def _cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Sequence[Any] = ()) -> Any:
    _control_checks.check_cond(pred, true_fn, false_fn, operands)
    if not isinstance(pred, torch.Tensor):
        return (true_fn if pred else false_fn)(*operands)
    given = _Given(operands)
    with _C.BodyRecorder("if") as recorder, _opened(recorder):
        left = _Body(recorder, ("cond", "true_fn"), true_fn, given)
        right = _Body(recorder, ("cond", "false_fn"), false_fn, given)
        _same(left, right)
        bodies, closed = _close(recorder)
    condition = (pred if pred.dtype is torch.bool else pred != 0).reshape(())
    return left.filled(_call(bodies, [condition, *given.tensors, *closed], left, right))


def _cond_as_python(pred: Any, true_fn: Callable, false_fn: Callable, operands: Sequence[Any] = ()) -> Any:
    if not _is_batched(pred):
        return (true_fn if _any(pred) else false_fn)(*operands)
    # Each of a batch goes its own way: both are gone.
    left, spec = pytree.tree_flatten(true_fn(*operands))
    right, other = pytree.tree_flatten(false_fn(*operands))
    if spec != other:
        raise BodyError("cond", "both branches must return the same structure of tensors")
    for i, (one, two) in enumerate(zip(left, right, strict=True)):
        if isinstance(one, torch.Tensor) and meta_of(one) != meta_of(two):
            found = DIFFER.format(i, "true_fn", text_of(meta_of(one)), "false_fn", text_of(meta_of(two)))
            raise BodyError("cond", found)
    condition = pred if pred.dtype is torch.bool else pred != 0
    chosen = [
        torch.where(condition.reshape(()), one, two) if isinstance(one, torch.Tensor) else one
        for one, two in zip(left, right, strict=True)
    ]
    return pytree.tree_unflatten(chosen, spec)


def _is_batched(value: Any) -> bool:
    while isinstance(value, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(value):
        if torch._C._functorch.is_batchedtensor(value):
            return True
        value = torch._C._functorch.get_unwrapped(value)
    return False


def _any(value: Any) -> bool:
    """Does a condition hold, for one of a batch at least?"""
    if isinstance(value, torch.Tensor):  # a stand-in, in a body
        run_as_python("a choice inside of a transform depends on data")
    while isinstance(value, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(value):
        value = torch._C._functorch.get_unwrapped(value)
    return bool(value.any() if isinstance(value, torch.Tensor) else value)


def is_pythons(arguments: Any) -> bool:
    """Does a mode or a class written in Python answer operators? PyTorch's operators know what to do for them."""
    if torch._C._len_torch_dispatch_stack():
        return True
    return any(
        type(leaf).__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl
        for leaf in pytree.tree_leaves(arguments)
        if isinstance(leaf, torch.Tensor)
    )


def _is_transformed() -> bool:
    """Is a transform of ``torch.func`` around? It sees the operators of bodies, not the bodies."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def _while_loop(
    cond_fn: Callable, body_fn: Callable, carried: Sequence[Any], additional: Sequence[Any] = (), **options: Any
) -> Any:
    operator = options.get("stacked", "while_loop")
    if any(not isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(tuple(carried))):
        raise _AsPython("a number is carried")
    names = _body_names.take("while_loop")
    rows = [tensor.contiguous() for tensor in carried]
    given = _Given(rows, others=additional)
    with _C.BodyRecorder("while") as recorder, _opened(recorder):
        try:
            asked = _Body(recorder, (operator, "cond_fn"), cond_fn, given, names)
        except _Constant as constant:
            if constant.leaves == [True]:
                raise BodyError(operator, "cond_fn returns True whatever is carried: the loop has no end") from None
            raise
        if len(asked.metas) != 1 or asked.metas[0][0] is not torch.bool or asked.metas[0][2]:
            found = ", ".join(text_of(meta) for meta in asked.metas) or "nothing"
            raise asked.error(f"must return a bool, or a bool tensor without dimensions, and returns {found}")
        body = _Body(recorder, (operator, "body_fn"), body_fn, given, names)
        if body.spec.is_leaf() or len(body.metas) != len(rows):
            found = "no tuple" if body.spec.is_leaf() else f"{len(body.metas)}"
            what = f"body_fn must return a tuple of {len(rows)} tensors, as many as are carried, and returns {found}"
            error = _stacked_loop.error_of(body.spec, body.metas, len(rows)) if "stacked" in options else BodyError
            raise error(operator, what)
        check_carried(body, rows)
        bodies, closed = _close(recorder, len(rows))
    if "stacked" in options:
        return body.filled(_stacked_loop.call(rows, [*given.tensors, *closed], bodies))
    return body.filled(_call(bodies, [*given.tensors, *closed], body))


def _stacked(cond_fn: Callable, body_fn: Callable, carried: Sequence[Any], additional: Sequence[Any] = ()) -> Any:
    _control_checks.check_while_loop(cond_fn, body_fn, carried, "while_loop_stack_output", additional)
    if not _stacked_loop.is_recorded((*carried, *additional)):
        raise _AsPython("PyTorch has no derivative of it")
    try:
        with torch.no_grad():
            return _while_loop(cond_fn, body_fn, carried, additional, stacked="while_loop_stack_output")
    except BodyError:  # eager mode accepts steps that change what is carried, and finds errors when it takes one
        if _C.trace_mode() == "capture":
            raise
        raise _AsPython("the body is no step of a loop") from None


def _stacked_as_python(*args: Any) -> Any:
    return _stacked_loop.as_python(_any, *args)


def _while_loop_as_python(
    cond_fn: Callable, body_fn: Callable, carried: Sequence[Any], additional: Sequence[Any] = (), **_options: Any
) -> Any:
    values, spec = tuple(carried), None
    goes_on = cond_fn(*values, *additional)
    while _any(goes_on):
        made, spec = pytree.tree_flatten(body_fn(*values, *additional))
        if _is_batched(goes_on):  # those of a batch that have ended stay as they are
            made = [torch.where(goes_on, new, old) for new, old in zip(made, values, strict=True)]
        values = tuple(made)
        again = cond_fn(*values, *additional)
        goes_on = goes_on & again if _is_batched(goes_on) else again
    results = tuple(
        value.clone() if isinstance(value, torch.Tensor) and any(value is given for given in carried) else value
        for value in values
    )
    return results if spec is None else pytree.tree_unflatten(results, spec)


def _scan(
    combine_fn: Callable, init: Sequence[Any], xs: Sequence[Any], additional_inputs: Sequence[Any] = (), **_options: Any
) -> Any:
    names = _body_names.take("scan")
    rows = [tensor.contiguous() for tensor in init]
    given = _Given(rows, xs, additional_inputs)
    with _C.BodyRecorder("scan") as recorder, _opened(recorder):
        body = _Body(recorder, ("scan", "combine_fn"), combine_fn, given, names)
        check_carried(body, rows)
        bodies, closed = _close(recorder, len(rows), len(xs))
    return body.filled(_call(bodies, [*given.tensors, *closed], body))


def _scan_as_python(
    combine_fn: Callable, init: Sequence[Any], xs: Sequence[Any], additional_inputs: Sequence[Any] = (), **_options: Any
) -> Any:
    if not xs[0].shape[0]:  # what a step would give is not asked of the program's own tensors
        start = [value.clone() for value in init]
        given = (*(value.clone() for value in init), *(x.new_empty(x.shape[1:]) for x in xs), *additional_inputs)
        leaves, spec = pytree.tree_flatten(combine_fn(*given))
        return pytree.tree_unflatten([*start, *(row.new_empty((0, *row.shape)) for row in leaves[len(start) :])], spec)
    carry, rows, spec = list(init), [], None
    for i in range(xs[0].shape[0]):
        leaves, spec = pytree.tree_flatten(combine_fn(*carry, *(x.select(0, i) for x in xs), *additional_inputs))
        carry = leaves[: len(carry)]
        rows.append(leaves[len(carry) :])
    return pytree.tree_unflatten([*carry, *(torch.stack(row) for row in zip(*rows, strict=True))], spec)


def _map(
    function: Callable, xs: Sequence[Any], args: Sequence[Any] = (), sums: float = math.inf, **_options: Any
) -> Any:
    """``sums``: as many numbers may be added up in each step backward."""
    names = _body_names.take("map")
    given = _Given((), xs, args)
    with _C.BodyRecorder("scan") as recorder, _opened(recorder):
        body = _Body(recorder, ("map", "f"), function, given, names)
        bodies, closed = _close(recorder, 0, sum(given.sliced))
    if sum(tensor.numel() for tensor in closed if tensor.requires_grad) > sums:
        raise _AsPython("gradients that are too large are added up")
    return body.filled(_call(bodies, [*given.tensors, *closed], body))


def _map_as_python(function: Callable, xs: Sequence[Any], args: Sequence[Any] = (), **_options: Any) -> Any:
    flat = [pytree.tree_flatten(function(*(x.select(0, i) for x in xs), *args)) for i in range(xs[0].shape[0])]
    return pytree.tree_unflatten(
        [torch.stack(row) for row in zip(*(leaves for leaves, _ in flat), strict=False)], flat[0][1]
    )


def _recorded(name: str, *args: Any, **options: Any) -> Any:
    return _OPERATORS[name][0](*args, **options)


def _flex_attention(*arguments: Any) -> Any:
    try:
        return _flex.attend(call, _recorded, *arguments)
    except _AsPython:  # branches would ask for data, or all columns are less work
        return _flex.attend(call, None, *arguments)


def _flex_attention_as_python(*arguments: Any) -> Any:
    return _flex.attend(call, None, *arguments)


_OPERATORS: dict[str, tuple[Callable, Callable]] = {
    "cond": (_cond, _cond_as_python),
    "while_loop": (_while_loop, _while_loop_as_python),
    "while_loop_stack_output": (_stacked, _stacked_as_python),
    "scan": (_scan, _scan_as_python),
    "map_impl": (_map, _map_as_python),
    "flex_attention": (_flex_attention, _flex_attention_as_python),
}


_DECIDING = ("cond", "while_loop", "while_loop_stack_output")


def knows(name: str) -> bool:
    return name in _OPERATORS or name in _wrappers.RULES


def may_change(name: str) -> bool:
    """May the functions of the operator change what is around them? What they do is then recorded as it is."""
    return name in _wrappers.RULES


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """An operator of ``torch.ops.higher_order``, recorded where something is recorded."""
    if name in _wrappers.RULES:
        return _wrappers.RULES[name](*args, **kwargs)
    record, as_python = _OPERATORS[name]
    args = _positional(record, args, kwargs)
    if is_pythons(args):
        return _call_pytorchs(name, args)
    if _is_transformed():
        found = _control_transforms.under_transform(call, name, args)
        return as_python(*args) if found is None else found[0]
    if _control_transforms.is_functional(args):
        return _control_transforms.under_functionalization(call, name, args)
    if forward_ad._current_level >= 0:  # nodes know no tangents
        return as_python(*args)
    try:
        return _recorded_watched(record, args)
    except _AsPython as stop:
        if _depth.bodies and name in _DECIDING:  # which need data: the outermost one is run as Python code
            raise
        if isinstance(stop, _AppliesFunction) and _C.note_only_eager(str(stop)):
            return _recorded_in_vain(record, args)
        return as_python(*args)
    except RuntimeError as error:
        if type(error) is not RuntimeError or not str(error).startswith(_WRITES):
            raise
        if not _depth.bodies and may_write(name):
            return as_python(*args)
        message = "a function that it was given writes to a tensor that is not its own; write to a clone of it"
        raise BodyError(_SHOWN.get(name, name), message) from error


def _recorded_watched(record: Callable, args: tuple[Any, ...]) -> Any:
    try:
        return record(*args)
    except _Unwatched:
        return record(*args)


def _recorded_in_vain(record: Callable, args: tuple[Any, ...]) -> Any:
    """The rest of what is captured needs something to go on with."""
    _depth.forgotten = True
    try:
        return record(*args)
    finally:
        _depth.forgotten = False


_WRITES = "a body writes to a tensor that is not its own"


def may_write(name: str) -> bool:
    """Does eager mode run functions that write to tensors that are not their own, and can it be done here?"""
    if name in _DECIDING:  # they need data
        return _C.trace_mode() != "capture"
    return SCANS_TAKE_LENGTHS and name in ("scan", "map_impl")


_SHOWN = {"map_impl": "map"}  # the names that programs know


BODY_MARK = "saker_body"  # in the ``meta`` of graph modules that are bodies of ``Graph.to_fx()``


def runs_plainly(name: str, args: tuple[Any, ...]) -> bool:
    """Is this a call in a graph module of Saker's, outside of recordings and with no mode around?

    PyTorch would trace the bodies to differentiate them, and not all of its operators know all transforms.
    """
    if (name not in _OPERATORS and name not in _PLAIN) or not any(
        isinstance(arg, torch.nn.Module) and BODY_MARK in getattr(arg, "meta", ()) for arg in args
    ):
        return False
    return not is_pythons(args) and not _control_transforms.is_functional(args)


def run_plainly(name: str, args: tuple[Any, ...]) -> Any:
    """Operator by operator, which autograd follows."""
    return (_PLAIN.get(name) or _OPERATORS[name][1])(*args)


def _invoke(function: Callable, _identifier: Any, *operands: Any) -> Any:
    return function(*operands)


_PLAIN: dict[str, Callable] = {"invoke_subgraph": _invoke}  # of wrappers that ``Graph.to_fx()`` makes


def _call_pytorchs(name: str, args: tuple[Any, ...]) -> Any:
    """PyTorch's operator, whose functions give their results in a row."""
    if name not in ("while_loop", "map_impl"):
        return getattr(torch.ops.higher_order, name)(*args)
    position, spec = 1 if name == "while_loop" else 0, None

    def flat(*values: Any) -> Any:
        nonlocal spec
        leaves, spec = pytree.tree_flatten(args[position](*values))
        return tuple(leaves)

    results = getattr(torch.ops.higher_order, name)(*args[:position], flat, *args[position + 1 :])
    return results if spec is None else pytree.tree_unflatten(list(results), spec)


def _positional(record: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    if not kwargs:
        return tuple(args)
    bound = inspect.signature(record).bind(*args, **kwargs)
    return bound.args
