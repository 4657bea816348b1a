"""``saker.Graph``: a captured program that prints, runs, and converts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from saker import _C
from saker._kernels import Kernels, kernels_of
from saker._stats import count
from saker.errors import RunError


class Output(NamedTuple):
    """A leaf of the results: the number of a value that the program returns, or a constant."""

    index: int | None
    constant: Any


class _Leaf:
    def __repr__(self) -> str:
        return "_"


def _shape_of_call(spec: pytree.TreeSpec) -> str:
    """A call as one would write it, with ``_`` for each tensor or constant."""
    try:
        args, kwargs = pytree.tree_unflatten([_Leaf() for _ in range(spec.num_leaves)], spec)
    except Exception:  # a class of the user's that is made of tensors only
        return str(spec)
    return f"({', '.join([*map(repr, args), *(f'{name}={value!r}' for name, value in kwargs.items())])})"


def _in_dual_level() -> bool:
    return torch.autograd.forward_ad._current_level >= 0


class Graph:
    """What a function did, as a graph of operators. Made by ``saker.capture``.

    >>> graph = saker.capture(model, x)
    >>> print(graph)
    >>> graph(x), graph.to_fx(), graph.to_dot()

    It is copied and pickled with the tensors that it closes over.
    """

    def __init__(
        self,
        program: _C.Program,
        inputs: tuple[pytree.TreeSpec, list[int], list[Any]],
        outputs: tuple[pytree.TreeSpec, list[Output]],
        stats: dict[str, int],
        function: Callable | None = None,
    ) -> None:
        self._program = program
        self._inputs = inputs
        self._outputs = outputs
        self.stats = stats
        self._function = function  # called where gradients pass code of the user, which no graph has

    @property
    def ir(self) -> _C.Graph:
        """The graph itself: passes run on it, and it can be verified."""
        return self._program.graph

    @property
    def text(self) -> str:
        """The graph as text."""
        return self._program.graph.text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<saker.Graph with {len(self)} operators>"

    def __len__(self) -> int:
        """The number of operators."""
        return len(self._program.graph) - 1  # `return` is a node

    @property
    def guards(self) -> list[str]:
        """What must hold of dynamic sizes for the graph to be right."""
        return self._program.guards

    def functional(self) -> Graph:
        """The same program without writes: what was written is a value, copied into arguments at the end."""
        return Graph(self._program.functional(), self._inputs, self._outputs, self.stats, self._function)

    def kernels(self, *, compiled: bool = True) -> Kernels:
        """The kernels that ``backend="native"`` makes of it: which operators each has, what it reads and writes.

        >>> print(saker.capture(model, x).kernels())

        With ``compiled=False`` no machine code is made of them.
        """
        return kernels_of(self.functional().ir, simplified=False, compiled=compiled)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph: results, and everything else that the function would do to its arguments."""
        tensors = self._tensors(args, kwargs)
        if self._function is not None and (self._program.needs_function(tensors) or _in_dual_level()):
            count("fallbacks")
            return self._function(*args, **kwargs)
        returned = self._program.run(tensors)
        spec, outputs = self._outputs
        leaves = [output.constant if output.index is None else returned[output.index] for output in outputs]
        return pytree.tree_unflatten(leaves, spec)

    def _tensors(self, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
        leaves, given = pytree.tree_flatten((args, kwargs))
        spec, places, constants = self._inputs
        if given != spec:
            wanted, found = _shape_of_call(spec), _shape_of_call(given)
            raise RunError(f"the graph takes arguments of the structure {wanted}, and was given {found}")
        of_tensors = set(places)
        for i, (leaf, constant) in enumerate(zip(leaves, constants, strict=True)):
            if i in of_tensors:
                if not isinstance(leaf, torch.Tensor):
                    raise RunError(f"argument {i} must be a tensor, not {type(leaf).__name__}")
            elif leaf is not constant and leaf != constant:
                raise RunError(f"argument {i} was {constant!r} when the function was captured, and is {leaf!r}")
        return [leaves[i] for i in places]

    def to_fx(self) -> torch.fx.GraphModule:
        """An equivalent ``torch.fx.GraphModule``. It takes the tensors of the arguments in order, and gives a list."""
        from saker._fx import to_fx

        if self._function is not None:
            warnings.warn(
                "this function has a torch.autograd.Function or a hook, which a torch.fx graph does not have: it is "
                "differentiated as the operators it consists of",
                stacklevel=2,
            )
        return to_fx(self._program)

    def to_dot(self) -> str:
        """The graph in Graphviz' language."""
        from saker._draw import to_dot

        return to_dot(self.ir)

    def _repr_html_(self) -> str:
        from saker._draw import to_html

        return to_html(self.ir)
