"""Graphs for compilers that are not Saker's: what they are called with, and how what they give is called."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch

from saker import _C

# A graph module and example inputs to a callable.
Compiler = Callable[["torch.fx.GraphModule", list[Any]], Callable]


class Executable:
    """What a compiler makes of a graph, when the graph is first run or ``compile`` is called."""

    def __init__(self, compiler: Compiler, graph: Callable[[], torch.fx.GraphModule]) -> None:
        self._compiler = compiler
        self._graph = graph
        self._compiled: Callable | None = None
        self._lock = threading.RLock()

    def compile(self) -> Callable:
        with self._lock:
            if self._compiled is None:
                compiled = _C.in_plain_state(self._make)
                if not callable(compiled):
                    raise TypeError(f"a compiler must give something to call, not {type(compiled).__name__}")
                self._compiled = compiled
            return self._compiled

    def _make(self) -> Callable:
        module = self._graph()
        examples = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
        return self._compiler(module, examples)

    def __call__(self, *inputs: Any) -> list[Any]:
        compiled = self._compiled or self.compile()
        returned = compiled(list(inputs)) if getattr(compiled, "_boxed_call", False) else compiled(*inputs)
        return [returned] if isinstance(returned, torch.Tensor) else list(returned)


class Graphs:
    """The forward and backward graphs of a compiled function, as ``torch.fx.GraphModule``s for compilers."""

    def __init__(self, native: _C.CompiledFunction, decompositions: dict | None, mode: Any = None) -> None:
        self._native = native
        self._table = decompositions or {}
        self._mode = mode

    @functools.cached_property
    def _examples(self) -> Any:
        from saker._fx_examples import Examples

        return Examples(_C.describe_program(self._native.forward_program())["symbols"], self._mode)

    @functools.cached_property
    def forward(self) -> torch.fx.GraphModule:
        program = self._native.forward_program()
        training = self._native.training
        names = [f"primals_{i + 1}" if training else f"arg{i}_1" for i in range(len(program.sources))]
        return self._build(program, names)

    @functools.cached_property
    def backward(self) -> torch.fx.GraphModule:
        return self._build(self._native.backward_program(), self._backward_names())

    def other_backward(self, program: _C.Program) -> torch.fx.GraphModule:
        """The backward for tangents of which some are not given."""
        return self._build(program, self._backward_names())

    def _backward_names(self) -> list[str]:
        """What was saved is called as in the forward, whose last results it is; tangents come behind."""
        end = next(iter(reversed(self.forward.graph.nodes)))
        saved = len(end.args[0]) - self._native.results
        names = [getattr(value, "name", "saved") for value in end.args[0][len(end.args[0]) - saved :]]
        tangents = len(self._native.backward_program().sources) - saved
        return [*names, *(f"tangents_{i + 1}" for i in range(tangents))]

    def _build(self, program: _C.Program, names: list[str]) -> torch.fx.GraphModule:
        from saker._fx import Builder, Form

        return Builder(program, self._examples, Form(names, decompositions=self._table)).build()


def strategy_of(partition_fn: Callable | str) -> str:
    """What to cut the joint graph by. Functions of PyTorch's are known by their names."""
    if isinstance(partition_fn, functools.partial):
        return strategy_of(partition_fn.func)
    name = partition_fn if isinstance(partition_fn, str) else getattr(partition_fn, "__name__", "")
    for known in ("min_cut", "default"):
        if known in name:
            return known
    if isinstance(partition_fn, str):
        raise ValueError(f'partition_fn must be "min_cut" or "default", not {partition_fn!r}')
    message = f"Saker cuts the graph itself and does not call {partition_fn!r}; it saves what min_cut finds best"
    warnings.warn(message, stacklevel=4)
    return "min_cut"
