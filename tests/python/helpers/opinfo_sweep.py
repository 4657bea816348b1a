"""Inference against eager mode over PyTorch's own samples of its operators (OpInfo).

python tests/python/helpers/opinfo_sweep.py --aten '^aten::(sum|mean)'  # judge these operators, wherever called
python tests/python/helpers/opinfo_sweep.py --ops '^softmax$'             # run these OpInfo entries
python tests/python/helpers/opinfo_sweep.py --list-missing                # operators without an entry, by frequency
python tests/python/helpers/opinfo_sweep.py --core                        # PyTorch's core operators without an entry
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.testing._internal import common_methods_invocations as invocations
from torch.utils._pytree import tree_map

import saker
from judge import Findings, Judge, report, tensors_in, totals

# PyTorch's entries, and those of the operators on lists of tensors, which it keeps apart.
FOREACH = ("unary", "binary", "pointwise", "reduce", "other")
ENTRIES = [*invocations.op_db, *(op for kind in FOREACH for op in getattr(invocations, f"foreach_{kind}_op_db"))]

# The dtypes each entry is run with, where it supports them: all samples of the first, a few of one of each group.
MAIN_DTYPE = torch.float32
OTHER_DTYPES = [
    (torch.int64, torch.int32, torch.uint8),
    (torch.bool,),
    (torch.complex64,),
    (torch.bfloat16, torch.float16),
]

# Eager mode itself writes past the end of memory here (torch 2.13).
EAGER_CRASHES = {(name, "permuted out") for name in ("lu_unpack", "linalg.lu", "tril", "triu")}


@dataclass(frozen=True)
class Plan:
    """How much of the sweep is run."""

    device: str = "cpu"
    samples: int | None = None  # of the main dtype; None: all
    other_samples: int = 8  # of each other dtype
    dtypes: tuple[torch.dtype, ...] | None = None  # instead of the choice above
    strided: bool = True  # also with permuted strides and channels_last
    backward: bool = True
    variants: int = 8  # samples also run in place and with out=
    errors: bool = True


FULL = Plan()
FAST = Plan(samples=6, other_samples=2, variants=2)


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def permuted(t: torch.Tensor) -> torch.Tensor:
    """The same values with other strides."""
    if t.dim() < 2 or not (t.is_floating_point() or t.is_complex()) or t.layout != torch.strided:
        return t
    return t.detach().transpose(0, -1).contiguous().transpose(0, -1).requires_grad_(t.requires_grad)


def channels_last(t: torch.Tensor) -> torch.Tensor:
    memory_format = {4: torch.channels_last, 5: torch.channels_last_3d}.get(t.dim())
    if memory_format is None or not (t.is_floating_point() or t.is_complex()) or t.layout != torch.strided:
        return t
    return t.detach().contiguous(memory_format=memory_format).requires_grad_(t.requires_grad)


def relaid(call: tuple, change: Callable[[torch.Tensor], torch.Tensor]) -> tuple | None:
    """The call with its tensors in another layout, or None where nothing would change."""
    changed = tree_map(lambda x: change(x) if isinstance(x, torch.Tensor) else x, call)
    same = all(
        a.layout != torch.strided or a.stride() == b.stride()
        for a, b in zip(tensors_in(call), tensors_in(changed), strict=True)
    )
    return None if same else changed


def chosen(items: list, limit: int | None) -> list:
    """At most `limit` items, spread over all of them."""
    if limit is None or len(items) <= limit:
        return items
    return [items[i * len(items) // limit] for i in range(limit)]


def dtypes_of(op: Any, plan: Plan) -> Iterator[tuple[torch.dtype, int | None]]:
    supported = op.supported_dtypes(torch.device(plan.device).type)
    if plan.dtypes is not None:
        yield from ((dtype, plan.samples) for dtype in plan.dtypes if dtype in supported)
        return
    if MAIN_DTYPE in supported:
        yield MAIN_DTYPE, plan.samples
    for group in OTHER_DTYPES:
        dtype = next((d for d in group if d in supported), None)
        if dtype is not None:
            yield dtype, plan.other_samples


def differentiable(op: Any, dtype: torch.dtype, device: str) -> bool:
    return op.supports_autograd and dtype in op.supported_backward_dtypes(torch.device(device).type)


def run_backward(result: Any, inputs: list[torch.Tensor], expanded: bool) -> None:
    outputs = [t for t in tensors_in(result) if t.requires_grad and t.layout == torch.strided]
    leaves = [t for t in inputs if t.requires_grad]
    if not outputs or not leaves:
        return
    gradients = [
        torch.ones((), dtype=o.dtype, device=o.device).expand_as(o) if expanded else torch.ones_like(o) for o in outputs
    ]
    torch.autograd.grad(outputs, leaves, gradients, allow_unused=True)


class Sweep:
    def __init__(self, judge: Judge, plan: Plan) -> None:
        self.judge = judge
        self.plan = plan
        self.covered: dict[str, bool] = {}  # OpInfo entry -> every call has an entry in the table
        self.notes: list[str] = []

    def run(self, op: Any) -> list[str]:
        """Runs one OpInfo entry; the failures it showed."""
        self.judge.scope = set()
        self.judge.scope_failures = []
        torch.manual_seed(0)
        for dtype, limit in dtypes_of(op, self.plan):
            self._run_dtype(op, dtype, limit)
        if self.plan.errors and op.error_inputs_func is not None:
            self._run_errors(op)
        self.covered[name_of(op)] = all(self.judge.has_entry(name) for name in self.judge.scope)
        return list(dict.fromkeys(self.judge.scope_failures))

    def _run_dtype(self, op: Any, dtype: torch.dtype, limit: int | None) -> None:
        backward = self.plan.backward and differentiable(op, dtype, self.plan.device)
        try:
            samples = list(op.sample_inputs(self.plan.device, dtype, requires_grad=backward))
        except Exception as error:
            self.judge.unjudged["PyTorch's sample generator raises", f"{name_of(op)} {dtype}"] += 1
            self.notes.append(f"{name_of(op)}: no samples for {dtype}: {error}")
            return
        for number, sample in enumerate(chosen(samples, limit)):
            origin = f"{name_of(op)} {str(dtype).removeprefix('torch.')} #{number}"
            call = (sample.input, sample.args, sample.kwargs)
            self._run_call(op.op, call, f"{origin} as given", backward)
            if self.plan.strided:
                for what, change in (("permuted", permuted), ("channels_last", channels_last)):
                    other = relaid(call, change)
                    if other is not None:
                        self._run_call(op.op, other, f"{origin} {what}", backward, expanded=what == "permuted")
            if number < self.plan.variants:
                self._run_variants(op, sample, call, origin)

    def _run_call(self, function: Callable, call: tuple, origin: str, backward: bool, expanded: bool = False) -> Any:
        self.judge.origin = origin
        first, args, kwargs = call
        try:
            with self.judge:
                result = function(first, *args, **kwargs)
                if backward:
                    run_backward(result, list(tensors_in(call)), expanded)
            return result
        except Exception as error:  # eager's own; the judge has compared the call that raised
            self.notes.append(
                f"{origin}: {type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"
            )
            return None

    def _run_variants(self, op: Any, sample: Any, call: tuple, origin: str) -> None:
        plain = tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, call)
        first, args, kwargs = plain
        if op.inplace_variant is not None and not sample.broadcasts_input:
            copy = tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, first)
            self._run_call(op.inplace_variant, (copy, args, kwargs), f"{origin} in place", backward=False)
        if op.supports_out and not op.name.startswith("_foreach"):
            with contextlib.suppress(Exception):
                expected = op.op(first, *args, **kwargs)
                self._run_out(op, plain, expected, origin)

    def _run_out(self, op: Any, call: tuple, expected: Any, origin: str) -> None:
        first, args, kwargs = call
        outs = {
            "exact out": torch.empty_like,
            "permuted out": lambda t: permuted(torch.empty_like(t)),
            "empty out": lambda t: t.new_empty(0),
        }
        for what, make in outs.items():
            if (op.name, what) in EAGER_CRASHES:
                self.judge.unjudged["eager writes past the end of memory", f"{op.name} {what}"] += 1
                continue
            out = tree_map(make, tuple(expected)) if isinstance(expected, (tuple, list)) else make(expected)
            self._run_call(op.op, (first, args, {**kwargs, "out": out}), f"{origin} {what}", backward=False)

    def _run_errors(self, op: Any) -> None:
        try:
            errors = list(op.error_inputs(self.plan.device))
        except Exception as error:
            self.judge.unjudged["PyTorch's generator of error inputs raises", name_of(op)] += 1
            self.notes.append(f"{name_of(op)}: no error inputs: {error}")
            return
        for number, error in enumerate(errors):
            sample = error.sample_input
            call = (sample.input, sample.args, sample.kwargs)
            self._run_call(op.op, call, f"{name_of(op)} error #{number}", backward=False)


def core_operators() -> list[str]:
    """The operators of the installed torch that are tagged as core."""
    names = []
    for packet in dir(torch.ops.aten):
        overloads = getattr(torch.ops.aten, packet)
        if not isinstance(overloads, torch._ops.OpOverloadPacket):
            continue
        for overload in overloads.overloads():
            op = getattr(overloads, overload)
            if torch.Tag.core in op.tags:
                names.append(op.name())
    return sorted(names)


def entries(pattern: str | None) -> list[Any]:
    return [op for op in ENTRIES if pattern is None or re.search(pattern, name_of(op))]


INDEX = Path(__file__).parents[3] / ".cache" / f"opinfo_calls_{torch.__version__}.json"


def load_index() -> dict[str, list[str]]:
    """The operators that a cheap run of each entry calls: to choose the entries that exercise some operators."""
    if INDEX.exists():
        return json.loads(INDEX.read_text())
    print("building the index of calls, once, about a minute ...", file=sys.stderr)
    index = {}
    for op in ENTRIES:
        judge = Judge(only="^$")
        Sweep(judge, Plan(samples=4, other_samples=1, strided=False, errors=False, variants=1)).run(op)
        index[name_of(op)] = sorted(judge.seen)
    INDEX.parent.mkdir(exist_ok=True)
    INDEX.write_text(json.dumps(index))
    return index


def print_core() -> None:
    names = core_operators()
    missing = [name for name in names if not saker.ops.has_entry(name)]
    print(f"{len(names)} core operators, {len(missing)} without an entry")
    print("\n".join(f"    {name}" for name in missing))


class Shard(NamedTuple):
    """What a part of the entries showed."""

    findings: dict[str, Findings]
    fallback_findings: dict[str, Findings]
    seen: Counter[str]
    missing: Counter[str]  # of these, those without an entry
    covered: dict[str, bool]
    unjudged: Counter[tuple[str, str]]
    notes: list[str]

    def add(self, other: Shard) -> None:
        for mine, theirs in ((self.findings, other.findings), (self.fallback_findings, other.fallback_findings)):
            for name, found in theirs.items():
                mine.setdefault(name, Findings()).merge(found)
        self.seen.update(other.seen)
        self.missing.update(other.missing)
        self.covered.update(other.covered)
        self.unjudged.update(other.unjudged)
        self.notes.extend(other.notes)

    def summary(self) -> list[str]:
        count, full = len(self.covered), sum(self.covered.values())
        lines = ["not judged, calls by reason:"]
        reasons: dict[str, Counter[str]] = {}
        for (reason, name), calls in sorted(self.unjudged.items()):
            reasons.setdefault(reason, Counter())[name] += calls
        for reason, names in reasons.items():
            what = ", ".join(f"{name} {calls}" for name, calls in sorted(names.items()))
            lines.append(f"  {reason}: {names.total()} ({what})")
        lines.append(f"OpInfo entries run: {count}; by the table alone: {full}; with the fallback: {count - full}")
        lines.append(f"operators called: {len(self.seen)}, without an entry: {len(self.missing)}")
        lines.append(totals(self.findings))
        return lines


def nothing() -> Shard:
    return Shard({}, {}, Counter(), Counter(), {}, Counter(), [])


def shard_of(sweep: Sweep) -> Shard:
    judge = sweep.judge
    found, fallback = dict(judge.findings), dict(judge.fallback_findings)
    missing = Counter(dict(judge.missing()))
    return Shard(found, fallback, judge.seen, missing, sweep.covered, judge.unjudged, sweep.notes)


def run_shard(names: list[str], aten: str | None, fallback: bool, plan: Plan) -> Shard:
    warnings.simplefilter("ignore")
    judge = Judge(only=aten, judge_fallback=fallback)
    sweep = Sweep(judge, plan)
    for op in ENTRIES:
        if name_of(op) in names:
            sweep.run(op)
    return shard_of(sweep)


def run_all(names: list[str], aten: str | None, fallback: bool, plan: Plan, jobs: int) -> Shard:
    if jobs == 1:
        return run_shard(names, aten, fallback, plan)
    # Many small parts: entries differ a lot in what they take.
    parts = [names[i :: jobs * 4] for i in range(jobs * 4)]
    total = nothing()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for part in [pool.submit(run_shard, names, aten, fallback, plan) for names in parts]:
            total.add(part.result())
    return total


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", help="run OpInfo entries whose name matches this regular expression")
    parser.add_argument("--aten", help="judge only operators whose name matches this regular expression")
    parser.add_argument("--fast", action="store_true", help="few samples")
    parser.add_argument("--dtype", action="append", help="only these dtypes (float32, int64, ...)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--report", type=Path, help="write the report to this file too")
    parser.add_argument("--examples", type=int, default=1, help="examples of each kind of mismatch")
    parser.add_argument("--fallback", action="store_true", help="judge meta kernels of operators without an entry too")
    parser.add_argument("--list-missing", action="store_true", help="list operators that were called and have no entry")
    parser.add_argument("--core", action="store_true", help="only list the core operators without an entry")
    parser.add_argument("--notes", action="store_true", help="list what eager mode itself raised")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    if options.core:
        print_core()
        return 0
    dtypes = tuple(getattr(torch, name) for name in options.dtype) if options.dtype else None
    plan = replace(FAST if options.fast else FULL, device=options.device, dtypes=dtypes)
    start = time.perf_counter()
    names = [name_of(op) for op in entries(options.ops)]
    if options.aten:
        index, judge = load_index(), Judge(only=options.aten, judge_fallback=options.fallback)
        names = [name for name in names if any(judge.wanted(op) for op in index[name])]
    found = run_all(names, options.aten, options.fallback, plan, options.jobs)
    lines = [report(found.findings, options.examples)]
    if options.fallback:
        lines += ["meta kernels (not counted as failures):", report(found.fallback_findings, options.examples)]
        lines.append(f"meta kernels: {totals(found.fallback_findings)}")
    if options.list_missing:
        lines += [f"{calls:8d}  {name}" for name, calls in sorted(found.missing.items(), key=lambda m: (-m[1], m[0]))]
    if options.notes:
        lines += found.notes
    lines += [*found.summary(), f"{time.perf_counter() - start:.0f} s"]
    text = "\n".join(line for line in lines if line)
    print(text)
    if options.report:
        options.report.write_text(text + "\n")
    return 1 if any(f.failures for f in found.findings.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
