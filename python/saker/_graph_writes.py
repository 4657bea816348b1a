"""Graphs for inference that write to their inputs themselves (``keep_inference_input_mutations``)."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from saker import _C
from saker._backends import Compiler, Executable, Graphs


class _WritingExecutable(Executable):
    """Runs a graph that writes to inputs; what it wrote takes the place of results that it does not give."""

    def __init__(
        self, compiler: Compiler, graph: torch.fx.GraphModule, maker: str, instead: dict[int, int], results: int
    ) -> None:
        super().__init__(compiler, lambda: graph, maker)
        self._instead = instead
        self._results = results

    def __call__(self, *inputs: Any) -> Any:
        returned = super().__call__(*inputs)
        given = [returned] if isinstance(returned, torch.Tensor) else returned
        if not isinstance(given, (list, tuple)) or len(given) != self._results - len(self._instead):
            return returned  # the caller counts, and says what is wrong
        left = iter(given)
        return [inputs[self._instead[i]] if i in self._instead else next(left) for i in range(self._results)]


def with_writes(native: _C.CompiledFunction, graphs: Graphs, compiler: Compiler, maker: str) -> Executable | None:
    """The forward with its writes as ``copy_`` at the end. None: there are none, or one that a graph cannot do so."""
    writes = native.writes_for_graph()
    if not writes or None in writes:
        return None
    module = graphs.forward
    graph = module.graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    end = next(iter(reversed(graph.nodes)))
    results = list(end.args[0])
    for primal, result, _ in writes:
        if not _same_layout(inputs[primal], results[result]):
            return None
    with graph.inserting_before(end):
        for primal, result, _ in writes:
            made = graph.call_function(torch.ops.aten.copy_.default, (inputs[primal], results[result]))
            made.meta["val"] = inputs[primal].meta.get("val")
    instead = {result: primal for primal, result, needed in writes if not needed}
    end.args = (tuple(value for i, value in enumerate(results) if i not in instead),)
    if isinstance(end.meta.get("val"), tuple):
        end.meta["val"] = tuple(value for i, value in enumerate(end.meta["val"]) if i not in instead)
    module.recompile()
    native.leave_writes_to_graph()
    return _WritingExecutable(compiler, module, maker, instead, len(results))


def _same_layout(target: Any, contents: Any) -> bool:
    if not isinstance(contents, torch.fx.Node) or contents.op == "placeholder":
        return False
    a, b = target.meta.get("val"), contents.meta.get("val")
    return a is not None and b is not None and a.dtype == b.dtype and a.shape == b.shape
