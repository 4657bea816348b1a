"""Partitioners that are not Saker's: the joint graph as they are called with it, and the halves that they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from saker._backends import Compiler, Executable, Graphs
from saker.errors import BackendError

if TYPE_CHECKING:
    from saker import _C


def _placeholders(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _outputs(module: torch.fx.GraphModule) -> list[Any]:
    end = next(iter(reversed(module.graph.nodes)))
    return list(end.args[0]) if isinstance(end.args[0], (list, tuple)) else [end.args[0]]


def _is_number(value: Any) -> bool:
    """Is this output of a graph a size?"""
    example = value.meta.get("val") if isinstance(value, torch.fx.Node) else value
    return isinstance(example, (int, float, torch.SymInt, torch.SymFloat, torch.SymBool))


class Halves:
    """The forward and backward that a partitioner has made of a joint graph.

    The forward gives the results, then what is saved: tensors and sizes. The backward takes the sizes, the tensors,
    then the tangents, which is PyTorch's order. Between the two, sizes travel as tensors.
    """

    def __init__(self, partition_fn: Callable, native: _C.CompiledFunction, graphs: Graphs) -> None:
        joint = graphs.joint
        inputs = [node.meta.get("val") for node in _placeholders(joint)]
        primals = len(native.forward_program().sources)
        made = partition_fn(joint, (inputs[:primals], inputs[primals:]), num_fwd_outputs=native.results)
        if not (isinstance(made, (list, tuple)) and len(made) == 2):
            raise BackendError(f"partition_fn must give two graph modules, not a {type(made).__name__}")
        for half in made:
            if not isinstance(half, torch.fx.GraphModule):
                raise BackendError(f"partition_fn must give two graph modules; one is a {type(half).__name__}")
        self.forward, self.backward = made
        self._check(primals, len(inputs) - primals, native.results, len(_outputs(joint)) - native.results)
        saved = _outputs(self.forward)[native.results :]
        self._results = native.results
        self._numbers = [i for i, value in enumerate(saved) if _is_number(value)]
        self.saved = len(saved)

    def _check(self, primals: int, tangents: int, results: int, gradients: int) -> None:
        found = (len(_placeholders(self.forward)), len(_outputs(self.forward)))
        if found[0] != primals or found[1] < results:
            raise BackendError(
                f"the forward of partition_fn takes {found[0]} inputs and gives {found[1]} results; it must take the "
                f"{primals} primals and give the {results} results of the joint graph, then what is saved"
            )
        saved = found[1] - results
        found = (len(_placeholders(self.backward)), len(_outputs(self.backward)))
        if found != (saved + tangents, gradients):
            raise BackendError(
                f"the backward of partition_fn takes {found[0]} inputs and gives {found[1]} results; it must take the "
                f"{saved} saved values and {tangents} tangents and give the {gradients} gradients of the joint graph"
            )

    def run_forward(self, run: Callable) -> Callable:
        def call(*primals: Any) -> Any:
            returned = run(*primals)
            if not self._numbers or not isinstance(returned, (list, tuple)):
                return returned
            given = list(returned)
            for place in self._numbers:
                number = given[self._results + place]
                given[self._results + place] = torch.tensor(number) if isinstance(number, (int, float)) else number
            return given

        return call

    def run_backward(self, run: Callable) -> Callable:
        def call(*given: Any) -> Any:
            saved, tangents = given[: self.saved], given[self.saved :]
            numbers = [saved[i].item() for i in self._numbers]
            tensors = [value for i, value in enumerate(saved) if i not in self._numbers]
            return run(*numbers, *tensors, *tangents)

        return call


class _Half:
    """One half, run by what a compiler makes of it, or as it is."""

    def __init__(self, maker: str, run: Callable) -> None:
        self.maker = maker
        self._run = run

    def __call__(self, *inputs: Any) -> Any:
        return self._run(*inputs)


def use_partitioner(
    partition_fn: Callable,
    native: _C.CompiledFunction,
    graphs: Graphs,
    forward: Compiler | None,
    backward: Compiler | None,
) -> None:
    """Has the halves that ``partition_fn`` makes run in the place of Saker's own."""
    halves = Halves(partition_fn, native, graphs)
    first: Callable = halves.forward
    second: Callable = halves.backward
    if forward is not None:
        first = Executable(forward, lambda: halves.forward, "fw_compiler")
        first.compile()
    if backward is not None:
        second = Executable(backward, lambda: halves.backward, "bw_compiler")
    native.set_halves(
        halves.saved,
        _Half("fw_compiler" if forward else "partition_fn", halves.run_forward(first)),
        _Half("bw_compiler" if backward else "partition_fn", halves.run_backward(second)),
    )
