"""Generated code (``backend="native"``) against eager mode over PyTorch's own samples of its operators (OpInfo).

Each sample becomes a program that negates the operator's results, so that there are at least two operators to put
together; its first call and two replays, one of them on other data, are compared with eager mode: values, strides,
gradients, what becomes of the arguments, and the random stream. Numbers that are no floats must be equal. Floats may
differ by what ``torch.testing`` allows for their dtype, or by the rounding of the largest of them (sums in another
order); where terms cancel, they must not be farther from what float64 gives than twice eager mode's, but for the rounding
of the largest result. What is not equal to the last bit is counted by entry. With ``--bits``, which asks for
``precision="eager"``, nothing may differ but the signs of zeros and of nan.

    python tests/python/helpers/native_opinfo.py --ops '^softmax$'     # these entries, all samples
    python tests/python/helpers/native_opinfo.py --limit 2 --dtype float32
    python tests/python/helpers/native_opinfo.py --part 0 8 --report out.txt
    python tests/python/helpers/native_opinfo.py --bits --limit 3
    python tests/python/helpers/native_opinfo.py --limit 1 --guard behind
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.testing._internal.common_utils import noncontiguous_like
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

import saker
from aot_opinfo import UNDEFINED, chosen, same_kind, short, values_differ
from opinfo_sweep import ENTRIES, name_of, permuted, relaid
from replay_opinfo import disturb, fresh, nearly, others, run, samples_of
from saker import _C
from torch_versions import READ_ELSEWHERE_WHEN_PERMUTED

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64)


class Case(NamedTuple):
    entry: str
    dtype: str
    number: int
    layout: str  # "given", "permuted" or "stepped"
    gradients: bool

    def __str__(self) -> str:
        return f"{self.entry} {self.dtype} #{self.number} {self.layout}{' with gradients' if self.gradients else ''}"


@dataclass
class Outcome:
    """What some cases showed."""

    launched: int = 0  # kernels ran, and everything was equal
    called: int = 0  # replayed and equal, but all operators were called
    exact: int = 0  # of those with kernels, equal to the last bit
    eager: int = 0  # not replayed
    eager_raises: int = 0
    rounded: Counter[str] = field(default_factory=Counter)  # entry and dtype: cases that differ in their last bits
    cancelled: Counter[str] = field(default_factory=Counter)  # calls that are no farther from float64 than eager mode
    failed: dict[Case, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, other: Outcome) -> None:
        for name in ("launched", "called", "exact", "eager", "eager_raises"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.rounded.update(other.rounded)
        self.cancelled.update(other.cancelled)
        self.failed.update(other.failed)
        self.seconds.update(other.seconds)


def stepped(t: torch.Tensor) -> torch.Tensor:
    """The same values with a gap behind each."""
    return noncontiguous_like(t) if t.layout == torch.strided and not t.is_quantized else t


def negated(leaf: Any) -> Any:
    """A tensor that is computed of this one by one more operator, without rounding."""
    if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or leaf.is_quantized:
        return leaf
    return leaf.logical_not() if leaf.dtype == torch.bool else leaf.neg()


def difference(got: dict[str, Any], expected: dict[str, Any], undefined: bool) -> tuple[str | None, bool]:
    """The first difference that is none of rounding, and whether there is no difference at all."""
    exact = True
    for part, value in expected.items():
        if part not in got:
            return f"{part}: there are none", False
        if part == "values" and (why := same_kind(got[part], value)):
            return f"{part}: {why}", False
        if undefined or not values_differ(got[part], value, rtol=0, atol=0):
            continue
        exact = False
        one, other = tree_leaves(got[part]), tree_leaves(value)
        tensors = all(x is None or isinstance(x, torch.Tensor) for x in other)
        if (why := values_differ(got[part], value)) and not (tensors and nearly(one, other)):
            return f"{part}: {why}", False
    return None, exact


def first_bits(got: dict[str, Any], expected: dict[str, Any]) -> str:
    for part, value in expected.items():
        if why := values_differ(got[part], value, rtol=0, atol=0):
            return f"{part}: {why}"
    return ""


def in_float64(call: tuple) -> tuple:
    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        return leaf.detach().double().requires_grad_(leaf.requires_grad)

    return tree_map(convert, call)


def no_farther(got: dict[str, Any], expected: dict[str, Any], exact: dict[str, Any]) -> bool:
    """Where terms cancel, what is left is rounding: then generated code must not be farther off than twice eager mode,
    measured by what float64 gives, and the rounding of the largest result."""
    for part in ("values", "gradients"):
        floats = [each for each in tree_leaves(exact.get(part)) if isinstance(each, torch.Tensor) and each.numel()]
        largest = max((float(each.abs().max()) for each in floats if each.is_floating_point()), default=0.0)
        for one, other, best in zip(*(tree_leaves(state.get(part)) for state in (got, expected, exact)), strict=True):
            if not isinstance(one, torch.Tensor) or not values_differ(one, other):
                continue
            if not one.is_floating_point() or best.shape != one.shape or not best.isfinite().all():
                return False
            allowed = 2 * (other.double() - best).abs().max() + torch.finfo(one.dtype).eps * largest
            if not (one.double() - best).abs().max() <= allowed:
                return False
    return True


def run_case(
    op: Any, case: Case, call: tuple, reseeded: tuple | None, outcome: Outcome, bits: bool = False
) -> None:
    function = op.op

    def program(first, args, kwargs):
        return [negated(leaf) for leaf in tree_flatten(function(first, *args, **kwargs))[0]]

    second = None
    with torch.set_grad_enabled(case.gradients):
        try:
            expected = run(program, fresh(call, case.gradients), case.gradients)
        except Exception:
            outcome.eager_raises += 1
            return
        for candidate in others(call, reseeded):
            try:
                expected_second = run(program, fresh(candidate, case.gradients), case.gradients)
            except Exception:  # this data is none that the operator takes
                continue
            second = candidate
            break
        if second is None:
            second, expected_second = call, expected
        precision = {"precision": "eager"} if bits else {}
        compiled = saker.compile(program, backend="native", options=precision)
        try:
            got = run(compiled, fresh(call, case.gradients), case.gradients)
            disturb([expected_second["values"]])
            before, kernels = saker.stats()["replays"], _C.kernels_launched()
            again = run(compiled, fresh(second, case.gradients), case.gradients)
            third = run(compiled, fresh(call, case.gradients), case.gradients)
            replays, kernels = saker.stats()["replays"] - before, _C.kernels_launched() - kernels
        except Exception as error:
            outcome.failed[case] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
            return
    calls = (("first call", got, expected), ("replay", again, expected_second), ("second replay", third, expected))
    equal = True
    for name, mine, theirs in calls:
        why, exact = difference(mine, theirs, op.name in UNDEFINED)
        equal = equal and exact
        if bits and not exact:
            outcome.failed[case] = f"{name}: {why or 'not to the bit: ' + first_bits(mine, theirs)}"[:200]
            return
        if why and case.dtype != "float64":
            with contextlib.suppress(Exception), torch.set_grad_enabled(case.gradients):
                best = run(program, in_float64(second if name == "replay" else call), case.gradients)
                if no_farther(mine, theirs, best):
                    outcome.cancelled[f"{case.entry} {case.dtype}"] += 1
                    continue
        if why:
            outcome.failed[case] = f"{name}: {why}"[:200]
            return
    if not equal:
        outcome.rounded[f"{case.entry} {case.dtype}"] += 1
    if replays == 0:
        outcome.eager += 1
    elif kernels == 0:
        outcome.called += 1
    else:
        outcome.launched += 1
        outcome.exact += equal


def cases_of(op: Any, dtype: torch.dtype, limit: int | None, every: bool) -> Iterator[tuple[Case, tuple, tuple | None]]:
    backward = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    samples, reseeded = samples_of(op, dtype, 0, backward), samples_of(op, dtype, 1, backward)
    for number in chosen(len(samples), limit):
        call = samples[number]
        other = reseeded[number] if number < len(reseeded) else None
        layouts = [("given", call, other)]
        if name_of(op) not in READ_ELSEWHERE_WHEN_PERMUTED:
            for layout, change in (("permuted", permuted), ("stepped", stepped)):
                if (relayed := relaid(call, change)) is not None:
                    layouts.append((layout, relayed, other and relaid(other, change)))
        for layout, one, two in layouts if every else layouts[:1]:
            # A call with gradients computes the forward too, but other values leave it.
            for gradients in (False, True) if backward and every else (backward,):
                yield Case(name_of(op), short(dtype), number, layout, gradients), one, two


def run_entry(
    op: Any,
    limit: int | None = None,
    dtypes: tuple[torch.dtype, ...] = DTYPES,
    every: bool = True,
    bits: bool = False,
) -> Outcome:
    """``every``: in all layouts, and without gradients too; ``bits``: ``precision="eager"``, and no other bits."""
    outcome = Outcome()
    start = time.perf_counter()
    for dtype in dtypes:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for case, call, other in cases_of(op, dtype, limit, every):
            run_case(op, case, call, other, outcome, bits)
    saker.reset()
    outcome.seconds[name_of(op)] = time.perf_counter() - start
    return outcome


def summary(outcome: Outcome) -> list[str]:
    total = outcome.launched + outcome.called + len(outcome.failed) + outcome.eager
    return [
        f"{total} cases: {outcome.launched} run kernels and are equal, {outcome.exact} of them to the last bit; "
        f"{outcome.called} are replayed without kernels; {outcome.eager} are not replayed; {len(outcome.failed)} "
        f"differ; {outcome.cancelled.total()} calls were compared with float64; eager mode itself raises on "
        f"{outcome.eager_raises}"
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", help="run OpInfo entries whose name matches this regular expression")
    parser.add_argument("--limit", type=int, help="samples of each entry and dtype; all if not given")
    parser.add_argument("--bits", action="store_true", help='with precision="eager", to the bit')
    parser.add_argument("--guard", choices=["behind", "before"], help="kernels run beside pages that cannot be touched")
    parser.add_argument("--given", action="store_true", help="only in the layout that is given, with gradients")
    parser.add_argument("--dtype", action="append", help="only these dtypes (float32, int64, ...)")
    parser.add_argument("--part", type=int, nargs=2, metavar=("I", "N"), help="every N-th entry, from the I-th on")
    parser.add_argument("--slow", type=int, default=0, help="name so many entries that took longest")
    parser.add_argument("--rounded", action="store_true", help="name what differs in its last bits")
    parser.add_argument("--report", type=Path, help="write differences to this file as they are found")
    options = parser.parse_args()
    dtypes = tuple(getattr(torch, name) for name in options.dtype) if options.dtype else DTYPES
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ["SAKER_COMPILE"] = "sync"
    saker.set_logs("")
    if options.guard:
        _C.set_guard_pages(options.guard)
    chosen_entries = [op for op in ENTRIES if not options.ops or re.search(options.ops, name_of(op))]
    if options.part:
        chosen_entries = chosen_entries[options.part[0] :: options.part[1]]
    total = Outcome()
    for op in chosen_entries:
        found = run_entry(op, options.limit, dtypes, not options.given, options.bits)
        total.add(found)
        if options.report:
            with options.report.open("a") as file:
                file.writelines(f"{case}: {why}\n" for case, why in found.failed.items())
                file.writelines(f"cancelled {name}: {count}\n" for name, count in found.cancelled.items())
                file.writelines(f"rounded {name}: {count}\n" for name, count in found.rounded.items())
    print("\n".join([*(f"{case}: {why}" for case, why in total.failed.items()), *summary(total)]))
    if options.rounded:
        print("\n".join(f"  {count:5d}  {name}" for name, count in sorted(total.rounded.items())))
    for entry, seconds in sorted(total.seconds.items(), key=lambda item: -item[1])[: options.slow]:
        print(f"  {seconds:6.1f} s  {entry}")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
