"""Differential testing of inference: every operator call that a program makes below autograd is inferred, then run, and
the two are compared."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import saker
from saker import _C
from symbolic_calls import compare_dynamic

# The tensors are small: threads would only wait for each other.
torch.set_num_threads(1)


# Why a call of an operator that has an entry is not judged.
NOT_STRIDED = "a tensor is sparse, nested, quantized or of oneDNN's layout"
SHARED_MEMORY = "eager raises because arguments share memory"
RAISED_ON_DATA = "eager raises, and the operator may raise on account of data"
RESULT_IS_DATA = "the result, or its size, is data"
UNSUPPORTED = "the table says that it does not know this case"


class Mismatch(NamedTuple):
    kind: str  # "refused", "accepted", "count", "kind", "dtype", "sizes", "strides", "degenerate strides", ...
    detail: str


@dataclass
class Findings:
    """What was found about one operator."""

    calls: int = 0
    cases: int = 0  # calls that differ from each other
    failures: dict[str, list[str]] = field(default_factory=dict)  # kind -> examples

    def merge(self, other: Findings) -> None:
        self.calls += other.calls
        self.cases += other.cases
        for kind, examples in other.failures.items():
            self.failures.setdefault(kind, []).extend(examples)


def tensors_in(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for element in tree:
            yield from tensors_in(element)
    elif isinstance(tree, dict):
        yield from tensors_in(list(tree.values()))


def flat_results(func: torch._ops.OpOverload, result: Any) -> list[Any]:
    """Results as inference lists them: Tensor[] flat, nothing for an operator without results."""
    if not func._schema.returns:
        return []
    flat: list[Any] = []
    for value in result if isinstance(result, tuple) and len(func._schema.returns) != 1 else [result]:
        flat.extend(value) if isinstance(value, (list, tuple)) else flat.append(value)
    return flat


NUMBERS = {"int": (int, torch.SymInt), "bool": (bool,), "float": (float,), "complex": (complex,), "string": (str,)}


def compare_tensor(position: int, inferred: tuple, real: torch.Tensor) -> list[Mismatch]:
    _, dtype, sizes, strides, offset, device, layout, conj, neg = inferred
    found: list[Mismatch] = []

    def check(kind: str, ours: Any, eager: Any) -> None:
        if ours != eager:
            found.append(Mismatch(kind, f"result {position}: {kind} {ours}, eager has {eager}"))

    # A size that only the operator knows (the workspace of a library) is what eager has.
    sizes = (
        tuple(
            eager if isinstance(ours, torch.SymInt) and not ours.node.has_hint() else ours
            for ours, eager in zip(sizes, real.shape, strict=True)
        )
        if len(sizes) == real.dim()
        else tuple(sizes)
    )
    check("dtype", dtype, real.dtype)
    check("sizes", tuple(sizes), tuple(real.shape))
    check("device", device, real.device)
    check("layout", layout, real.layout)
    if real.layout == torch.strided and layout == torch.strided and tuple(sizes) == tuple(real.shape):
        eager_strides = real.stride()
        if tuple(strides) != eager_strides:
            visible = real.numel() > 0 and any(
                s > 1 and a != b for s, a, b in zip(sizes, strides, eager_strides, strict=True)
            )
            kind = "strides" if visible else "degenerate strides"
            found.append(Mismatch(kind, f"result {position}: strides {tuple(strides)}, eager has {eager_strides}"))
        check("offset", offset, real.storage_offset())
    check("conj", conj, real.is_conj())
    check("neg", neg, real.is_neg())
    return found


def compare(func: torch._ops.OpOverload, inferred: list[tuple], result: Any) -> list[Mismatch]:
    real = flat_results(func, result)
    if len(real) != len(inferred):
        return [Mismatch("count", f"{len(inferred)} results, eager has {len(real)}")]
    found: list[Mismatch] = []
    for i, (ours, eager) in enumerate(zip(inferred, real, strict=True)):
        kind = ours[0]
        if isinstance(eager, torch.Tensor):
            if kind == "tensor":
                found += compare_tensor(i, ours, eager)
            else:
                found.append(Mismatch("kind", f"result {i}: {kind}, eager has a tensor"))
        elif eager is None:
            if kind != "none":
                found.append(Mismatch("kind", f"result {i}: {kind}, eager has None"))
        elif kind != "scalar" and not isinstance(eager, NUMBERS.get(kind, ())):
            found.append(Mismatch("kind", f"result {i}: {kind}, eager has {type(eager).__name__}"))
    return found


def assert_like_eager(op: torch._ops.OpOverload, *args: Any) -> None:
    """One call of an operator of the table, also one that PyTorch takes apart before a Judge would see it."""
    text, refusal, inferred = _C.call_text(op, args, {}), None, []
    try:
        source, inferred = _C.infer(op, args, {})
        assert source == "table", text
    except saker.Refusal as refused:
        refusal = refused
    try:
        result = op(*args)
    except Exception as error:
        assert refusal, f"{text}: accepted, eager raises {error}"
        return
    assert not refusal, f"{text}: refused ({refusal}), eager accepts"
    assert not compare(op, inferred, result), text


class Judge(TorchDispatchMode):
    """Judges each operator call under it. Equal calls (operator, argument types and constants) are judged once."""

    def __init__(self, only: str | None = None, judge_fallback: bool = False, symbolic: bool = False) -> None:
        super().__init__()
        self.symbolic = symbolic  # infer with symbols too, where the program's sizes are those of symbolic_calls
        self.guards: dict[str, Counter[str]] = defaultdict(Counter)  # operator -> guards that symbols left
        self.symbolic_cases = 0
        self.only = re.compile(only) if only else None
        self.judge_fallback = judge_fallback
        self.traits = {op.name: frozenset(op.traits) for op in saker.ops.operators()}
        self.findings: dict[str, Findings] = defaultdict(Findings)
        self.fallback_findings: dict[str, Findings] = defaultdict(Findings)
        self.seen: Counter[str] = Counter()
        self.unjudged: Counter[tuple[str, str]] = Counter()  # (reason, operator) -> calls that nothing was said about
        self.origin = ""  # who makes the calls, for the report
        self.scope: set[str] = set()  # names seen since the owner cleared it
        self.scope_failures: list[str] = []
        self._entries: dict[str, bool] = {}
        self._verdicts: dict[str, list[Mismatch]] = {}
        self._wanted: dict[str, bool] = {}

    def has_entry(self, name: str) -> bool:
        if name not in self._entries:
            self._entries[name] = _C.has_entry(name)
        return self._entries[name]

    def wanted(self, name: str) -> bool:
        if name not in self._wanted:
            chosen = self.only is None or bool(self.only.search(name))
            self._wanted[name] = chosen and (self.judge_fallback or self.has_entry(name))
        return self._wanted[name]

    def missing(self) -> list[tuple[str, int]]:
        """Operators that were called and have no entry, most frequent first."""
        counts = [(name, count) for name, count in self.seen.items() if not self.has_entry(name)]
        return sorted(counts, key=lambda item: (-item[1], item[0]))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload) or func.namespace == "profiler":
            return func(*args, **kwargs)
        name = func.name()
        self.seen[name] += 1
        self.scope.add(name)
        if not self.wanted(name):
            return func(*args, **kwargs)
        entry = self.has_entry(name)
        findings = (self.findings if entry else self.fallback_findings)[name]
        findings.calls += 1
        if any(t.layout != torch.strided or t.is_quantized for t in tensors_in((args, kwargs))):
            self.unjudged[NOT_STRIDED, name] += 1
            return func(*args, **kwargs)
        text = _C.call_text(func, args, kwargs)
        if text in self._verdicts:
            self._report(findings, entry, text, self._verdicts[text], repeated=True)
            return func(*args, **kwargs)
        findings.cases += 1
        inferred, refusal, symbolic = None, None, []
        try:
            _, inferred = _C.infer(func, args, kwargs)
            if self.symbolic and entry:
                symbolic = self._with_symbols(func, args, kwargs)
        except saker.Refusal as refused:
            refusal = refused
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            verdict = [] if refusal else self._eager_raised(name, error)
            self._report(findings, entry, text, verdict)
            raise
        verdict = self._refused(name, refusal) if refusal else compare(func, inferred, result) + symbolic
        self._report(findings, entry, text, verdict)
        return result

    def _eager_raised(self, name: str, error: Exception) -> list[Mismatch]:
        # Whether two arguments share memory is no matter of types: whoever records a call sees their storages.
        if any(text in str(error) for text in ("refer to a single memory location", "must not overlap")):
            self.unjudged[SHARED_MEMORY, name] += 1
            return []
        if "fails_on_data" in self.traits.get(name, ()):
            self.unjudged[RAISED_ON_DATA, name] += 1
            return []
        return [
            Mismatch("accepted", f"accepted, eager raises {type(error).__name__}: {str(error).splitlines()[0][:160]}")
        ]

    def _refused(self, name: str, refusal: saker.Refusal) -> list[Mismatch]:
        traits = self.traits.get(name, frozenset())
        if refusal.reason == "DataDependent" and traits & {"data_dependent", "dynamic_shape"}:
            self.unjudged[RESULT_IS_DATA, name] += 1
            return []
        if refusal.reason == "Unsupported":
            self.unjudged[f"{UNSUPPORTED}: {refusal.message}", name] += 1
            return []
        return [Mismatch("refused", f"refused ({refusal.reason}: {refusal.message}), eager accepts")]

    def _with_symbols(self, func: torch._ops.OpOverload, args: tuple, kwargs: dict) -> list[Mismatch]:
        try:
            found = compare_dynamic(func, args, kwargs)
        except saker.Refusal as refused:
            return [Mismatch("symbolic", f"refused with symbols ({refused.reason}: {refused.message})")]
        if found is None:
            return []
        self.symbolic_cases += 1
        self.guards[func.name()].update(found.guards)
        return [Mismatch("symbolic", found.difference)] if found.difference else []

    def _report(self, findings: Findings, entry: bool, text: str, verdict: list[Mismatch], repeated=False) -> None:
        self._verdicts[text] = verdict
        for mismatch in verdict:
            example = f"{text}: {mismatch.detail}  [{self.origin}]"
            if not repeated:
                findings.failures.setdefault(mismatch.kind, []).append(example)
            if entry:
                self.scope_failures.append(example)


def report(findings: dict[str, Findings], examples: int = 1) -> str:
    """Failures grouped by operator, with examples of each kind."""
    lines = []
    for name in sorted(findings):
        found = findings[name]
        if not found.failures:
            continue
        counts = ", ".join(f"{len(items)} {kind}" for kind, items in sorted(found.failures.items()))
        lines.append(f"{name}: {found.cases} cases, {counts}")
        for kind, items in sorted(found.failures.items()):
            lines.extend(f"    {kind}: {example}" for example in items[:examples])
    return "\n".join(lines)


def totals(findings: dict[str, Findings]) -> str:
    cases = sum(f.cases for f in findings.values())
    failing = {name for name, f in findings.items() if f.failures}
    failures = sum(len(items) for f in findings.values() for items in f.failures.values())
    return f"{len(findings)} operators, {cases} different calls; {failures} mismatches in {len(failing)} operators"
