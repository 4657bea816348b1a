"""Tracing for export: one graph without writes, and what the function did to its arguments."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from saker import _C
from saker._aot import raise_if_fake
from saker._capture import capture
from saker._fakes import without_fakes
from saker._stats import count
from saker.errors import CaptureError


def refuse(message: str) -> NoReturn:
    raise CaptureError("Unsupported", message)


@dataclasses.dataclass
class Traced:
    """A graph module with the parts of its output, as nodes or constants."""

    module: torch.fx.GraphModule
    inputs: list[torch.fx.Node]  # one for each leaf of the arguments
    written: dict[int, Any]  # by leaf: the new contents
    results: list[Any]
    gradients: list[Any]
    out_spec: pytree.TreeSpec
    aliases: str = ""  # how a result shares memory with an argument or another result, if one does


@dataclasses.dataclass
class Request:
    """What to trace."""

    fn: Callable[..., Any]  # gives (result, new contents of leaves by number)
    leaves: list[Any]
    decompositions: dict | None
    dynamic: list[bool]  # by leaf: may its sizes change?
    # From the results' leaves and the leaves of the arguments to what is differentiated, and by what.
    differentiate: Callable[[list[Any]], list[torch.Tensor]] | None = None
    tangents: bool = False
    refusals: list[str] = dataclasses.field(default_factory=list)  # told by `fn` and `differentiate`


class _Tracing:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.leaves = without_fakes(request.leaves)
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.given = [self.leaves[i] for i in self.places]
        _refuse_subclasses(self.given)
        self.replaced: dict[int, Any] = {}
        self.aliases = ""
        self.refusals: list[str] = []  # what the capture has shown that no exported graph can do

    def run(self) -> Traced:
        tensors = _each_in_memory_of_its_own(self.given)
        try:
            recorded = capture(self._call, *tensors, dynamic=self._dynamic_sizes())
        except AssertionError as error:
            raise_if_fake(error)
            raise
        count("graphs")
        count("operators", len(recorded))
        self._refuse_functional_random()
        for message in [*self.refusals, *self.request.refusals]:
            refuse(message)
        return self._build(recorded.functional())

    def _dynamic_sizes(self) -> dict[int, dict[int, str]]:
        """Sizes that are equal now are taken to stay equal, as PyTorch does."""
        sizes: dict[int, dict[int, str]] = {}
        for number, (place, tensor) in enumerate(zip(self.places, self.given, strict=True)):
            if self.request.dynamic[place]:
                named = {dim: f"s{size}" for dim, size in enumerate(tensor.shape) if size >= 2}
                sizes.update({number: named} if named else {})
        return sizes

    @staticmethod
    def _refuse_functional_random() -> None:
        config = sys.modules.get("torch._functorch.config")
        if config is not None and config.functionalize_rng_ops:
            refuse("random numbers are drawn by operators of the graph: switch functionalize_rng_ops off")

    # --- inside of the capture ---

    def _call(self, *stand_ins: torch.Tensor) -> list[Any]:
        before = [(t.size(), t.stride(), t.storage_offset(), t.detach()) for t in stand_ins]
        leaves = list(self.leaves)
        for place, stand_in in zip(self.places, stand_ins, strict=True):
            leaves[place] = stand_in
        result, replaced = self.request.fn(leaves)
        self.results, self.out_spec = pytree.tree_flatten(result)
        self.leaf_results = [leaf for leaf in self.results if isinstance(leaf, torch.Tensor)]
        self._check_writes(stand_ins, before)
        self._note_aliases(stand_ins)
        tangents: list[torch.Tensor] = []
        self.gradients: list[Any] = []
        if self.request.differentiate and not self.refusals and not self.request.refusals:
            roots = self.request.differentiate(self.results)
            tangents = [_like(root) for root in roots] if self.request.tangents else []
            self._differentiate(roots, tangents, leaves)
        self.counts = [len(replaced), len(tangents)]
        self.replaced_leaves = list(replaced)
        return [*replaced.values(), *tangents, self.results, self.gradients]

    def _differentiate(self, roots: list[torch.Tensor], tangents: list[torch.Tensor], leaves: list[Any]) -> None:
        wanted = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        unique = list({id(leaf): leaf for leaf in wanted}.values())
        found: dict[int, Any] = {}
        if roots and unique:
            made = torch.autograd.grad(roots, unique, tangents or None, allow_unused=True)
            found = {id(leaf): gradient for leaf, gradient in zip(unique, made, strict=True)}
        self.gradients = [found.get(id(leaf)) if isinstance(leaf, torch.Tensor) else None for leaf in leaves]

    def _check_writes(self, stand_ins: tuple[torch.Tensor, ...], before: list[tuple]) -> None:
        for number, (stand_in, (*geometry, memory)) in enumerate(zip(stand_ins, before, strict=True)):
            name = f"argument {self.places[number]}"
            now = [stand_in.size(), stand_in.stride(), stand_in.storage_offset()]
            if now != geometry or not _C.share_memory(stand_in, memory):
                self.refusals.append(
                    f"{name} comes to have other sizes, strides or memory; an exported graph gives new contents only"
                )
                continue
            if stand_in._version == 0:
                continue
            if self.given[number].requires_grad:
                self.refusals.append(
                    f"{name} requires grad and is written: write to a copy of it, or detach it outside"
                )
            self._refuse_written_aliases(number, name)

    def _refuse_written_aliases(self, number: int, name: str) -> None:
        tensor = self.given[number]
        for other, given in enumerate(self.given):
            if other == number:
                continue
            if given is tensor:
                self.refusals.append(f"{name} is written, and it is argument {self.places[other]} too; pass a copy")
            elif _C.share_memory(given, tensor):
                self.refusals.append(
                    f"{name} is written, and it shares memory with argument {self.places[other]}; pass a copy"
                )

    def _note_aliases(self, stand_ins: tuple[torch.Tensor, ...]) -> None:
        for i, result in enumerate(self.leaf_results):
            for number, stand_in in enumerate(stand_ins):
                if _C.share_memory(result, stand_in):
                    self.aliases = f"result {i} shares memory with argument {self.places[number]}"
            for other in range(i):
                if _C.share_memory(result, self.leaf_results[other]):
                    self.aliases = f"result {i} shares memory with result {other}"

    # --- the graph ---

    def _build(self, graph: Any) -> Traced:
        from saker._fx import Builder, Form

        replaced, tangents = self.counts
        described = _C.describe_program(graph._program)["returns"]
        outputs = [output.index for output in graph._outputs[1]]
        inputs = {}
        for i, output in enumerate(outputs[replaced : replaced + tangents]):
            inputs[described[output][1]] = f"tangents_{i + 1}"
        prefix = "primals_{}" if self.request.tangents else "arg{}_1"
        first = 1 if self.request.tangents else 0
        names = [prefix.format(i + first) for i in range(len(self.leaves))]
        form = Form(names, self.places, inputs, self.request.decompositions or {}, returns_writes=True)
        builder = Builder(graph._program, form=form)
        returned = builder.add_program()
        values = [o.constant if o.index is None else returned[o.index] for o in graph._outputs[1]]
        results = values[replaced + tangents : replaced + tangents + len(self.results)]
        gradients = values[replaced + tangents + len(self.results) :]
        placeholders = [node for node in builder.graph.nodes if node.op == "placeholder"]
        if not builder.written.keys() <= set(placeholders):
            refuse("the function writes to a tensor that is no argument; make it a buffer, or an argument")
        written = {
            place: builder.written[placeholders[place]]
            for place in self.places
            if placeholders[place] in builder.written
        }
        written.update(zip(self.replaced_leaves, values[:replaced], strict=True))
        written = dict(sorted(written.items()))
        kept = [g for g in gradients if g is not None] if not self.request.tangents else gradients
        module = builder.finish([*written.values(), *results, *kept])
        return Traced(module, placeholders[: len(names)], written, results, gradients, self.out_spec, self.aliases)


def _refuse_subclasses(tensors: list[torch.Tensor]) -> None:
    for tensor in tensors:
        if is_traceable_wrapper_subclass(tensor):
            refuse(f"a tensor subclass among the arguments cannot be exported: {type(tensor).__name__}")


def _each_in_memory_of_its_own(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Arguments that share memory would be traced as views of one. Nothing runs, so that copies need no data."""
    out: list[torch.Tensor] = []
    for i, tensor in enumerate(tensors):
        shares = any(other is not tensor and _C.share_memory(other, tensor) for other in tensors[:i])
        out.append(_like(tensor).requires_grad_(tensor.requires_grad) if shares else tensor)
    return out


def _like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def trace(request: Request) -> Traced:
    return _Tracing(request).run()
