"""What control flow operators are given, checked where recordings meet them: errors are of PyTorch's classes.

The functions that programs call (``torch.cond``, ``while_loop``, ``scan``, ``map`` and ``associative_scan`` of
``torch._higher_order_ops``) are replaced by ones that check first. Outside of recordings they call PyTorch's at once.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from saker import _C, _body_names
from saker._torch_version import SCANS_TAKE_LENGTHS
from saker.errors import BodyAssertion, BodyError, BodyIndexError, BodyTypeError, BodyValueError


def _kind(value: Any) -> str:
    return type(value).__name__


def _callable(operator: str, name: str, function: Any, error: type[BodyError] = BodyError) -> None:
    if not callable(function):
        raise error(operator, f"{name} must be callable, and is of type {_kind(function)}")


def _tensors(operator: str, name: str, leaves: Sequence[Any], error: type[BodyError] = BodyError) -> None:
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            raise error(operator, f"{name} must be tensors, and number {i} of them is of type {_kind(leaf)}")


def check_cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> None:
    if not isinstance(pred, (bool, int, float, torch.SymBool, torch.Tensor)):
        raise BodyError("cond", f"pred must be a bool or a tensor, not a {_kind(pred)}")
    if isinstance(pred, torch.Tensor) and pred.numel() != 1:
        raise BodyError("cond", f"pred must have one element, and has {pred.numel()}")
    _callable("cond", "true_fn", true_fn)
    _callable("cond", "false_fn", false_fn)
    if not isinstance(operands, (tuple, list)):
        raise BodyError("cond", f"operands must be a tuple or a list, not a {_kind(operands)}")
    for leaf in pytree.tree_leaves(operands):
        if not isinstance(leaf, (torch.Tensor, torch.SymInt, int)):
            raise BodyError("cond", f"operands must be tensors and ints, and one is a {_kind(leaf)}")


def check_while_loop(
    cond_fn: Any, body_fn: Any, carried_inputs: Any, operator: str = "while_loop", additional_inputs: Any = ()
) -> None:
    error = BodyTypeError if operator != "while_loop" else BodyError  # Python calls them there
    _callable(operator, "cond_fn", cond_fn, error)
    _callable(operator, "body_fn", body_fn, error)
    if not isinstance(carried_inputs, (tuple, list)):
        raise BodyError(operator, f"carried_inputs must be a tuple or a list, and is of type {_kind(carried_inputs)}")
    if not isinstance(additional_inputs, (tuple, list)):
        found = _kind(additional_inputs)
        raise BodyError(operator, f"additional_inputs must be a tuple or a list, and is of type {found}")
    for i, leaf in enumerate(pytree.tree_leaves(carried_inputs)):
        if not isinstance(leaf, (torch.Tensor, int, torch.SymInt)):
            raise BodyAssertion(
                operator, f"carried_inputs must be tensors and ints, and number {i} is of type {_kind(leaf)}"
            )
    if operator == "while_loop":
        _body_names.note(operator, cond_fn=(cond_fn, carried_inputs), body_fn=(body_fn, carried_inputs))


def _dimension(operator: str, dim: Any, first: Any) -> int:
    if not isinstance(dim, int):
        raise BodyTypeError(operator, f"dim must be an int, and is of type {_kind(dim)}")
    count = first.dim() if isinstance(first, torch.Tensor) else 1
    if not -count <= dim < count:
        raise BodyIndexError(operator, f"dim is {dim}, and xs have {count} dimensions")
    return dim % count


def _lengths(operator: str, leaves: Sequence[torch.Tensor], dim: int, error: type[BodyError]) -> None:
    for i, leaf in enumerate(leaves):
        if leaf.dim() <= dim:
            raise error(operator, f"xs must have a dimension {dim}, and number {i} of them has {leaf.dim()} dimensions")
        if leaf.shape[dim] == 0 and not (SCANS_TAKE_LENGTHS and operator.endswith("scan")):
            raise error(operator, f"dimension {dim} of xs must not have the length 0, and number {i} of them has it")


def check_scan(combine_fn: Any, init: Any, xs: Any, dim: Any, reverse: Any, *, length: Any = None) -> None:
    starts, leaves = pytree.tree_leaves(init), pytree.tree_leaves(xs)
    if SCANS_TAKE_LENGTHS:
        if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 0):
            found = length if isinstance(length, int) else f"of type {_kind(length)}"
            raise BodyError("scan", f"length must be an int that is not negative, and is {found}")
        if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
            if not length:  # nothing is called
                return
            leaves = []
    _callable("scan", "combine_fn", combine_fn)
    if not isinstance(reverse, bool):
        raise BodyError("scan", f"reverse must be a bool, and is of type {_kind(reverse)}")
    if leaves:
        dim = _dimension("scan", dim, leaves[0])
    if not starts:
        raise BodyError("scan", "init must have a tensor at least, and has none")
    _tensors("scan", "init", starts)
    _tensors("scan", "xs", leaves)
    _lengths("scan", leaves, dim, BodyError)
    if SCANS_TAKE_LENGTHS:
        _one_length("scan", leaves, dim)
        if leaves and length is not None and leaves[0].shape[dim] != length:
            found = f"{length}, and dimension {dim} of xs has the length {leaves[0].shape[dim]}"
            raise BodyError("scan", f"length must be that of xs: it is {found}")
    _body_names.note("scan", combine_fn=(combine_fn, (init, xs)))


def _one_length(operator: str, leaves: Sequence[torch.Tensor], dim: int) -> None:
    for i, leaf in enumerate(leaves):
        if leaf.shape[dim] != leaves[0].shape[dim]:
            found = f"{leaves[0].shape[dim]} and {leaf.shape[dim]}"
            raise BodyError(operator, f"xs must be of one length, and numbers 0 and {i} have the lengths {found}")


def check_map(f: Any, xs: Any, args: Sequence[Any] = ()) -> None:
    _callable("map", "f", f)
    leaves = pytree.tree_leaves(xs)
    _tensors("map", "xs", leaves)
    for i, leaf in enumerate(leaves):
        if not leaf.dim():
            raise BodyIndexError("map", f"xs must have a dimension to go along, and number {i} of them has none")
    _one_length("map", leaves, 0)
    _lengths("map", leaves, 0, BodyError)
    _body_names.note("map", f=(f, (xs, *args)))


def check_associative_scan(combine_fn: Any, xs: Any, dim: Any, reverse: Any, combine_mode: Any) -> None:
    name = "associative_scan"
    leaves = pytree.tree_leaves(xs)
    if not leaves:
        raise BodyIndexError(name, "xs must have a tensor at least, and have none")
    dim = _dimension(name, dim, leaves[0])
    _callable(name, "combine_fn", combine_fn, BodyValueError)
    if not isinstance(reverse, bool):
        raise BodyError(name, f"reverse must be a bool, and is of type {_kind(reverse)}")
    if combine_mode not in ("pointwise", "generic"):
        raise BodyValueError(name, f"combine_mode must be 'pointwise' or 'generic', and is {combine_mode!r}")
    _tensors(name, "xs", leaves, BodyValueError)
    if (
        combine_mode == "pointwise"
        and not SCANS_TAKE_LENGTHS
        and any(leaf.device.type not in ("cuda", "xpu") for leaf in leaves)
    ):
        found = leaves[0].device
        raise BodyValueError(
            name, f"combine_mode 'pointwise' is for tensors of GPUs, and xs are on {found}; use 'generic'"
        )
    if any(leaf.is_sparse for leaf in leaves):
        raise BodyValueError(name, "xs must be dense, and one of them is sparse; use to_dense()")
    _lengths(name, leaves, dim, BodyValueError)


# Done unwatched, by the names that watched code calls them.
CHECKS: dict[str, Callable] = {
    "check while_loop": check_while_loop,
    "check scan": check_scan,
    "check map": check_map,
    "check associative_scan": check_associative_scan,
}


def records() -> bool:
    """Is a call recorded by us, and not traced by PyTorch's compiler?"""
    return not torch.compiler.is_dynamo_compiling() and _C.is_engaged()


def _call(*args: Any, **kwargs: Any) -> Any:
    from saker import _control_flow

    return _control_flow.call(*args, **kwargs)


def _cond(plain: Callable) -> Callable:
    def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Any = ()) -> Any:
        if records():
            return _call("cond", pred, true_fn, false_fn, operands)
        return plain(pred, true_fn, false_fn, operands)

    return cond


def _while_loop(plain: Callable) -> Callable:
    def while_loop(cond_fn: Any, body_fn: Any, carried_inputs: Any) -> Any:
        if records():
            _call("check while_loop", cond_fn, body_fn, carried_inputs)
        return plain(cond_fn, body_fn, carried_inputs)

    return while_loop


def _scan(plain: Callable) -> Callable:
    def call(combine_fn: Any, init: Any, xs: Any, dim: int, reverse: bool, **length: int | None) -> Any:
        if not records():
            return plain(combine_fn, init, xs, dim=dim, reverse=reverse, **length)
        _call("check scan", combine_fn, init, xs, dim, reverse, **length)

        def step(carry: Any, x: Any) -> Any:
            made = combine_fn(carry, x)
            if not isinstance(made, (tuple, list)) or len(made) != 2:
                found = f"a {type(made).__name__}"
                raise BodyError("scan", f"combine_fn must return 2 values, what is carried and a result, not {found}")
            wanted, given = len(pytree.tree_leaves(init)), len(pytree.tree_leaves(made[0]))
            if wanted != given:
                raise BodyError(
                    "scan", f"combine_fn must return what is carried, {wanted} tensors, and returns {given}"
                )
            return made

        if length.get("length") == 0 and not any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(xs)):
            # PyTorch's would start its compiler.
            return plain(lambda carry, _: step(carry, None), init, torch.zeros(0, dtype=torch.int64), reverse=reverse)
        return plain(step, init, xs, dim=dim, reverse=reverse, **length)

    def scan(combine_fn: Any, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
        return call(combine_fn, init, xs, dim, reverse)

    def scan_of_length(
        combine_fn: Any, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False, length: int | None = None
    ) -> Any:
        return call(combine_fn, init, xs, dim, reverse, length=length)

    return scan_of_length if SCANS_TAKE_LENGTHS else scan


def _map(plain: Callable) -> Callable:
    def map(f: Any, xs: Any, *args: Any) -> Any:
        if records():
            _call("check map", f, xs, args)
        return plain(f, xs, *args)

    return map


def _associative_scan(plain: Callable) -> Callable:
    def associative_scan(
        combine_fn: Any, xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
    ) -> Any:
        if records():
            _call("check associative_scan", combine_fn, xs, dim, reverse, combine_mode)
        return plain(combine_fn, xs, dim, reverse, combine_mode)

    return associative_scan


def _open_stacked() -> None:
    """The operator that gives what each step of a loop has carried; no function of PyTorch's stands before it."""
    operator = getattr(torch._higher_order_ops, "while_loop_stack_output", None)
    if operator is None:
        return
    plain = type(operator).__call__

    @functools.wraps(plain)
    def call(self: Any, cond_fn: Any, body_fn: Any, carried_inputs: Any, additional_inputs: Any) -> Any:
        if records():
            name = "while_loop_stack_output"
            _call("check while_loop", cond_fn, body_fn, carried_inputs, name, additional_inputs)
        return plain(self, cond_fn, body_fn, carried_inputs, additional_inputs)

    type(operator).__call__ = call


_CHECKED: dict[str, Callable[[Callable], Callable]] = {
    "while_loop": _while_loop,
    "scan": _scan,
    "map": _map,
    "associative_scan": _associative_scan,
}


def _instead(plain: Callable, make: Callable[[Callable], Callable]) -> Callable | None:
    """Nothing, where PyTorch's function takes other arguments than ours."""
    made = make(plain)
    same = list(inspect.signature(plain).parameters) == list(inspect.signature(made).parameters)
    return functools.wraps(plain)(made) if same else None


def _replace(name: str, plain: Callable, made: Callable) -> None:
    """Modules that have imported the function by its name get the new one too."""
    for module in list(sys.modules.values()):
        if isinstance(module, types.ModuleType) and vars(module).get(name) is plain:
            setattr(module, name, made)


def install() -> None:
    package = torch._higher_order_ops
    checked = _instead(torch.cond, _cond)
    if checked is not None:  # the module keeps PyTorch's own, which recordings know by where it is
        torch.cond = package.cond = checked
    _open_stacked()
    for name, make in _CHECKED.items():
        module = sys.modules.get(f"torch._higher_order_ops.{name}")
        plain = getattr(module, name, None)
        made = _instead(plain, make) if plain is not None else None
        if made is not None:
            _replace(name, plain, made)
    plain = getattr(sys.modules.get("torch._higher_order_ops.associative_scan"), "generic_associative_scan", None)
    if plain is not None:
        _replace("generic_associative_scan", plain, functools.wraps(plain)(_scanned(plain)))


def _scanned(plain: Callable) -> Callable:
    def generic_associative_scan(operator: Any, leaves: Any, dim: int = 0, additional_inputs: Any = ()) -> Any:
        made = None
        if dim == 0 and not additional_inputs and records():
            made = _call("associative_scan by loops", operator, tuple(leaves))
        return plain(operator, leaves, dim, additional_inputs) if made is None else made

    return generic_associative_scan
