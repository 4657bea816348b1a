"""Operators replaced by what a decomposition table says, in graphs for back ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from saker import _C
from saker._capture import capture
from saker.errors import CaptureError

if TYPE_CHECKING:
    from saker._fx import Builder


class Inner(NamedTuple):
    """What a decomposition does, and what it is given by the graph around it."""

    program: _C.Program
    arguments: list[torch.fx.Node]  # for its parameters
    symbols: dict[str, Any]  # what its symbols are outside
    returned: list[int | None]  # for each result of the operator: which of those that it returns


class _Place:
    """Where a tensor stands among the arguments."""

    def __init__(self, index: int) -> None:
        self.index = index


class _Arguments:
    """The arguments of an operator: tensors to call the decomposition with, and the nodes that they stand for."""

    def __init__(self, op: torch._ops.OpOverload, described: dict[str, Any], builder: Builder) -> None:
        self.builder = builder
        self.tensors: list[torch.Tensor] = []
        self.nodes: list[torch.fx.Node] = []
        self.dynamic: dict[int, dict[int, str]] = {}
        self.symbols: dict[str, Any] = {}
        self._names: dict[str, str] = {}  # by the text of a size
        self.args: list[Any] = []
        self.kwargs: dict[str, Any] = {}
        for formal, arg in zip(op._schema.arguments, described["args"], strict=False):
            if formal.kwarg_only:
                self.kwargs[formal.name] = self._take(arg)
            else:
                self.args.append(self._take(arg))

    def _take(self, arg: Any) -> Any:
        if isinstance(arg, list):
            return [self._take(item) for item in arg]
        if not isinstance(arg, tuple):
            return arg
        if arg[0] != "value" or "sizes" not in self.builder.scope.types.get(arg[1], ()):
            raise LookupError  # a number that only the run knows, or an object
        self.tensors.append(self._example(self.builder.scope.types[arg[1]]))
        self.nodes.append(self.builder.values[arg[1]])
        return _Place(len(self.tensors) - 1)

    def _example(self, described: dict[str, Any]) -> torch.Tensor:
        place = len(self.tensors)
        sizes = [self._size(place, dim, size) for dim, size in enumerate(described["sizes"])]
        strides = [self._hint(stride) for stride in described["strides"]]
        return torch.empty_strided(sizes, strides, dtype=described["dtype"], device=described["device"])

    def _size(self, place: int, dim: int, size: Any) -> int:
        if isinstance(size, tuple):
            name = self._names.setdefault(size[2], f"d{len(self._names)}")
            self.symbols[name] = self.builder.argument(size)
            self.dynamic.setdefault(place, {})[dim] = name
        return self._hint(size)

    def _hint(self, number: Any) -> int:
        value = self.builder.number(number)
        if value is None:
            raise LookupError
        return value if isinstance(value, int) else value.node.hint

    def call(self, function: Callable, tensors: tuple[torch.Tensor, ...]) -> Any:
        args, kwargs = pytree.tree_map_only(_Place, lambda at: tensors[at.index], (self.args, self.kwargs))
        return function(*args, **kwargs)


def decompose(
    function: Callable, op: torch._ops.OpOverload, described: dict[str, Any], builder: Builder
) -> Inner | None:
    """What the function does for this call of the operator. None: nothing that could take its place."""
    try:
        given = _Arguments(op, described, builder)
    except LookupError:
        return None
    declined = False

    def run(*tensors: torch.Tensor) -> list[Any]:
        nonlocal declined
        result = given.call(function, tensors)
        declined = result is NotImplemented
        return [] if declined else pytree.tree_leaves(result, is_leaf=lambda leaf: leaf is None)

    try:
        with torch.no_grad():
            graph = capture(run, *given.tensors, dynamic=given.dynamic).functional()
    except CaptureError:
        return None
    returned = [output.index for output in graph._outputs[1]]
    if declined or len(returned) != len(described["results"]):
        return None
    return Inner(graph._program, given.nodes, given.symbols, returned)
