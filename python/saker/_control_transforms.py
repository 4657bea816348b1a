"""Control flow under transforms of PyTorch: each is taken off the operands, and put around the functions.

Below a ``vmap`` the operator is called on tensors with one dimension more, and its functions run under a ``vmap`` of
the same level, so that what they close over is batched in them as it was around them. Functionalization goes the same
way. Gradients of ``torch.func`` see the operators that the functions call instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C import _functorch as functorch
from torch.utils import _pytree as pytree

Call = Callable[..., Any]


class _Batch:
    """A level of ``vmap`` that is around: its number, how many there are, and how they draw random numbers."""

    def __init__(self, interpreter: Any, call: Call) -> None:
        self.interpreter, self.call = interpreter, call
        self.level, self.size = interpreter.level(), interpreter.batch_size()
        self.randomness = interpreter.randomness()

    def has(self, value: Any) -> bool:
        return (
            isinstance(value, torch.Tensor)
            and functorch.is_batchedtensor(value)
            and functorch.maybe_get_level(value) == self.level
        )

    def without(self, tensor: torch.Tensor, dim: int) -> torch.Tensor:
        """What is inside of a batched tensor, with the batch at ``dim``."""
        return functorch.get_unwrapped(tensor).movedim(functorch.maybe_get_bdim(tensor), dim)

    def all_without(self, tensors: Sequence[Any], dim: int = 0) -> list[Any]:
        return [self.without(tensor, dim) if self.has(tensor) else tensor for tensor in tensors]

    def spread(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The same, of all of them: what is not batched is repeated."""
        return [
            self.without(tensor, 0) if self.has(tensor) else tensor.unsqueeze(0).expand(self.size, *tensor.shape)
            for tensor in tensors
        ]

    def put(self, results: Any, dim: int = 0) -> Any:
        """Results of the operator as batched tensors of this level."""
        return pytree.tree_map_only(
            torch.Tensor, lambda tensor: functorch._add_batch_dim(tensor, dim, self.level), results
        )

    def inside(self, function: Call, batched: Sequence[bool]) -> Call:
        """``function`` for tensors whose first dimension is the batch, where ``batched`` says so; so are results."""

        def call(*args: Any) -> Any:
            level = functorch._vmap_increment_nesting(self.size, self.randomness)
            try:
                leaves, spec = pytree.tree_flatten(args)
                given = [
                    functorch._add_batch_dim(leaf, 0, level) if has else leaf
                    for leaf, has in zip(leaves, batched, strict=True)
                ]
                results = function(*pytree.tree_unflatten(given, spec))
                return pytree.tree_map_only(
                    torch.Tensor,
                    lambda tensor: functorch._remove_batch_dim(tensor, level, self.size, 0),
                    results,
                )
            finally:
                functorch._vmap_decrement_nesting()

        return call


def _marks(batch: _Batch, values: Any) -> list[bool]:
    return [batch.has(leaf) for leaf in pytree.tree_leaves(values)]


def _cond(batch: _Batch, pred: Any, true_fn: Call, false_fn: Call, operands: Sequence[Any] = ()) -> Any:
    leaves, spec = pytree.tree_flatten(tuple(operands))
    marks = _marks(batch, leaves)
    with batch.interpreter.lower():
        given = pytree.tree_unflatten(batch.all_without(leaves), spec)
        results = batch.call("cond", pred, batch.inside(true_fn, marks), batch.inside(false_fn, marks), given)
    return batch.put(results)


def _while_loop(
    batch: _Batch, cond_fn: Call, body_fn: Call, carried: Sequence[Any], additional: Sequence[Any] = ()
) -> Any:
    marks = [True] * len(carried) + _marks(batch, additional)

    def goes_on(*args: Any) -> Any:  # for one of a batch at least
        return batch.inside(cond_fn, marks)(*args).any()

    def step(*values: Any) -> Any:  # those that have ended stay as they are
        made = body_fn(*values)
        going = cond_fn(*values)
        if not isinstance(going, torch.Tensor) or not functorch.is_batchedtensor(going):
            return made
        return tuple(torch.where(going.reshape(()), new, old) for new, old in zip(made, values, strict=False))

    with batch.interpreter.lower():
        rows, others = batch.spread(carried), batch.all_without(additional)
        results = batch.call("while_loop", goes_on, batch.inside(step, marks), tuple(rows), tuple(others))
    return batch.put(results)


def _scan(
    batch: _Batch, combine_fn: Call, init: Sequence[Any], xs: Sequence[Any], additional: Sequence[Any] = ()
) -> Any:
    marks = [True] * len(init) + _marks(batch, xs) + _marks(batch, additional)
    with batch.interpreter.lower():
        rows, others = batch.spread(init), batch.all_without(additional)
        results = batch.call("scan", batch.inside(combine_fn, marks), rows, batch.all_without(xs, dim=1), tuple(others))
    leaves, spec = pytree.tree_flatten(results)  # what is carried comes first, whatever structure the function gives
    leaves = [*batch.put(leaves[: len(init)]), *batch.put(leaves[len(init) :], dim=1)]
    return pytree.tree_unflatten(leaves, spec)


def _map(batch: _Batch, function: Call, xs: Sequence[Any], args: Sequence[Any] = ()) -> Any:
    marks = _marks(batch, xs) + _marks(batch, args)
    with batch.interpreter.lower():
        rows, others = batch.all_without(xs, dim=1), batch.all_without(args)
        results = batch.call("map_impl", batch.inside(function, marks), rows, tuple(others))
    return batch.put(results, dim=1)


_BATCHED = {"cond": _cond, "while_loop": _while_loop, "scan": _scan, "map_impl": _map}


def _functionalized(call: Call, api: Any, name: str, args: Sequence[Any]) -> Any:
    unwrapped = api.unwrap_tensors(tuple(args))
    with api.redispatch_to_next():
        given = [
            api.functionalize(arg) if callable(arg) and not isinstance(arg, torch.Tensor) else arg for arg in unwrapped
        ]
        results = call(name, *given)
    return api.wrap_tensors(results)


def is_functional(args: Sequence[Any]) -> bool:
    """Is functionalization on, by other means than a transform?"""
    return any(
        isinstance(leaf, torch.Tensor) and torch._is_functional_tensor(leaf) for leaf in pytree.tree_leaves(args)
    )


def under_transform(call: Call, name: str, args: Sequence[Any]) -> tuple[Any] | None:
    """The operator below the innermost transform that is around; None: it has to see what the functions call."""
    if name not in _BATCHED:
        return None
    from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter

    interpreter = retrieve_current_functorch_interpreter()
    if interpreter.key() == functorch.TransformType.Functionalize:
        from torch._subclasses.functional_tensor import FunctorchFunctionalizeAPI

        return (_functionalized(call, FunctorchFunctionalizeAPI(interpreter), name, args),)
    if interpreter.key() != functorch.TransformType.Vmap:
        return None
    batch = _Batch(interpreter, call)
    if name == "cond" and batch.has(args[0]):
        return None
    return (_BATCHED[name](batch, *args),)


def under_functionalization(call: Call, name: str, args: Sequence[Any]) -> Any:
    from torch._subclasses.functional_tensor import CppFunctionalizeAPI

    return _functionalized(call, CppFunctionalizeAPI(), name, args)
