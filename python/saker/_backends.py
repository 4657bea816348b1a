"""Graphs for compilers that are not Saker's: what they are called with, and how what they give is called."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from saker import _C
from saker.errors import BackendError, OptionError

# A graph module and example inputs to a callable.
Compiler = Callable[["torch.fx.GraphModule", list[Any]], Callable]


class Executable:
    """What a compiler makes of a graph, when the graph is first run or ``compile`` is called.

    ``maker`` is the compiler's name in errors about what its callable gives, which are raised where that is used.
    """

    def __init__(self, compiler: Compiler, graph: Callable[[], torch.fx.GraphModule], maker: str) -> None:
        self.maker = maker
        self._compiler = compiler
        self._graph = graph
        self._compiled: Callable | None = None
        self._lock = threading.RLock()

    def compile(self) -> Callable:
        with self._lock:
            if self._compiled is None:
                compiled = _C.in_plain_state(self._make)
                if not callable(compiled):
                    raise BackendError(f"the {self.maker} must give something to call, not a {type(compiled).__name__}")
                self._compiled = compiled
            return self._compiled

    def _make(self) -> Callable:
        module = self._graph()
        examples = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
        return self._compiler(module, examples)

    def __call__(self, *inputs: Any) -> Any:
        compiled = self._compiled or self.compile()
        return compiled(list(inputs)) if getattr(compiled, "_boxed_call", False) else compiled(*inputs)


class Graphs:
    """The forward and backward graphs of a compiled function, as ``torch.fx.GraphModule``s for compilers."""

    def __init__(self, native: _C.CompiledFunction, decompositions: dict | None, mode: Any = None) -> None:
        self._native = native
        self._table = decompositions or {}
        self._mode = mode

    @functools.cached_property
    def _examples(self) -> Any:
        from saker._fx_examples import Examples

        return Examples(_C.describe_program(self._native.forward_program()), self._mode)

    @functools.cached_property
    def forward(self) -> torch.fx.GraphModule:
        program = self._native.forward_program()
        training = self._native.training
        names = [f"primals_{i + 1}" if training else f"arg{i}_1" for i in range(len(program.sources))]
        return self._build(program, names)

    @functools.cached_property
    def joint(self) -> torch.fx.GraphModule:
        """Forward and backward in one: primals and tangents to results and gradients."""
        program = self._native.joint_program()
        primals = len(self._native.forward_program().sources)
        tangents = len(program.sources) - primals
        names = [f"primals_{i + 1}" for i in range(primals)] + [f"tangents_{i + 1}" for i in range(tangents)]
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


# PyTorch's own partitioners, by name; Saker cuts as they do.
_OF_TORCH = {"min_cut_rematerialization_partition": "min_cut", "default_partition": "default"}


def strategy_of(partition_fn: Callable | str) -> str | None:
    """How Saker cuts the joint graph; None: ``partition_fn`` is the user's own, and is called."""
    if isinstance(partition_fn, functools.partial):
        return strategy_of(partition_fn.func)
    if isinstance(partition_fn, str):
        if partition_fn not in ("min_cut", "default"):
            raise OptionError(f'partition_fn must be "min_cut", "default" or a function, not {partition_fn!r}')
        return partition_fn
    if not callable(partition_fn):
        raise TypeError(f'partition_fn must be "min_cut", "default" or a function, not a {type(partition_fn).__name__}')
    if str(getattr(partition_fn, "__module__", "")).startswith(("torch._functorch.", "functorch.")):
        return _OF_TORCH.get(getattr(partition_fn, "__name__", ""))
    return None
