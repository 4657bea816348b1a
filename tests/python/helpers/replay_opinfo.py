"""Replays of saker.compile against eager mode over PyTorch's own samples of its operators (OpInfo).

Each sample is recorded by a compiled function of its own, and replayed on other data of these sizes: values, strides,
gradients, what becomes of the arguments, and the random stream are compared. Samples that are not replayed are counted
by reason.

    python tests/python/helpers/replay_opinfo.py --ops '^softmax$'     # these entries, all samples
    python tests/python/helpers/replay_opinfo.py --jobs 2              # everything
    python tests/python/helpers/replay_opinfo.py --limit 2 --dtype float32
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

import saker
from aot_opinfo import UNDEFINED, chosen, compare, cotangents, differentiable, short, values_differ
from judge import tensors_in
from opinfo_sweep import ENTRIES, name_of, permuted, relaid
from saker import _C
from torch_versions import READ_ELSEWHERE_WHEN_PERMUTED

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.int64)
# The tensor is one that the sample closes over, not an argument: a call on other data is another call.
OTHER_CALL = "the sample with other data is another call"


class Case(NamedTuple):
    entry: str
    dtype: str
    number: int
    layout: str  # "given" or "permuted"
    gradients: bool
    inside: bool = False  # the program computes with the results, so that these may lie in kept memory

    def __str__(self) -> str:
        more = (" with gradients" if self.gradients else "") + (" inside" if self.inside else "")
        return f"{self.entry} {self.dtype} #{self.number} {self.layout}{more}"


@dataclass
class Outcome:
    """What some cases showed."""

    replayed: int = 0
    exact: int = 0  # of these, equal to the last bit
    same_data: int = 0  # of these, replayed on the data they were recorded with, for want of other
    eager_raises: int = 0
    eager: Counter[str] = field(default_factory=Counter)  # not replayed, by reason
    failed: dict[Case, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, other: Outcome) -> None:
        self.replayed += other.replayed
        self.exact += other.exact
        self.same_data += other.same_data
        self.eager_raises += other.eager_raises
        self.eager.update(other.eager)
        self.failed.update(other.failed)
        self.seconds.update(other.seconds)


def samples_of(op: Any, dtype: torch.dtype, seed: int, gradients: bool) -> list[tuple]:
    for generator in (torch.manual_seed, random.seed, np.random.seed):
        generator(seed)
    try:
        samples = op.sample_inputs("cpu", dtype, requires_grad=gradients)
        return [(s.input, s.args, s.kwargs) for s in samples]
    except Exception:  # PyTorch's own generator fails
        return []


def fresh(call: tuple, gradients: bool = True) -> tuple:
    """The same call on tensors of its own with the same strides; a tensor that comes twice still does."""
    made: dict[int, torch.Tensor] = {}

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in made:
            same = leaf.detach().clone(memory_format=torch.preserve_format)
            if leaf.layout == torch.strided and same.stride() != leaf.stride():
                extent = leaf.untyped_storage().nbytes() // leaf.itemsize
                whole = torch.as_strided(leaf.detach(), (extent,), (1,), 0).clone()
                same = torch.as_strided(whole, leaf.shape, leaf.stride(), leaf.storage_offset())
            made[id(leaf)] = same.requires_grad_(leaf.requires_grad and gradients)
        return made[id(leaf)]

    return tree_map(copy, call)


def reversed_data(t: torch.Tensor) -> torch.Tensor:
    """The elements in the opposite order, in the same layout."""
    if t.layout != torch.strided or t.numel() < 2 or t.is_quantized:
        return t
    other = fresh((t,))[0]
    with torch.no_grad():
        other.copy_(t.detach().flip(tuple(range(t.dim()))))
    return other


def same_call(one: tuple, other: tuple) -> bool:
    """Equal but for the data of tensors."""
    a, spec = tree_flatten(one)
    b, other_spec = tree_flatten(other)
    if spec != other_spec:
        return False
    for x, y in zip(a, b, strict=True):
        if not isinstance(x, torch.Tensor):
            if type(x) is not type(y) or not (x is y or x == y or x != x):
                return False
        elif (
            not isinstance(y, torch.Tensor)
            or x.layout != y.layout
            or x.shape != y.shape
            or x.dtype != y.dtype
            or (x.layout == torch.strided and x.stride() != y.stride())
        ):
            return False
    return True


def mixed(one: tuple, other: tuple) -> tuple:
    """The second call, with tensors reversed that are the same in both."""
    a, spec = tree_flatten(one)
    b, _ = tree_flatten(other)
    leaves = [
        reversed_data(y)
        if isinstance(y, torch.Tensor) and y.layout == torch.strided and torch.equal(x.detach(), y.detach())
        else y
        for x, y in zip(a, b, strict=True)
    ]
    return tree_unflatten(leaves, spec)


def others(call: tuple, reseeded: tuple | None) -> Iterator[tuple]:
    """The call on other data, the most different first."""
    if reseeded is not None and same_call(call, reseeded):
        yield mixed(call, reseeded)
        yield reseeded
    yield tree_map(lambda x: reversed_data(x) if isinstance(x, torch.Tensor) else x, call)


def run(function: Callable, call: tuple, gradients: bool) -> dict[str, Any]:
    """Values and gradients of a call; its arguments and the random stream as it leaves them."""
    first, args, kwargs = call
    leaves = list({id(t): t for t in tensors_in(list(call)) if t.requires_grad}.values())
    torch.manual_seed(7)
    result = function(first, args, kwargs)
    state: dict[str, Any] = {"values": result, "random stream": torch.get_rng_state()}
    outputs = [t for t in differentiable([result]) if t.layout == torch.strided] if gradients else []
    if outputs and leaves:
        found = torch.autograd.grad(outputs, leaves, cotangents(outputs, 3), allow_unused=True)
        state["gradients"] = list(found)
    state["arguments"] = list(tensors_in(list(call)))
    return state


def used(leaf: Any) -> Any:
    """A tensor that is computed of this one and is not it."""
    plain = isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and not leaf.is_quantized
    return torch.cat([leaf.reshape(-1), leaf.reshape(-1)]) if plain else leaf


def disturb(tree: Any) -> None:
    """Leaves other numbers in memory that is free, of the sizes of these tensors."""
    kept = [torch.empty(t.numel() * t.itemsize, dtype=torch.uint8).fill_(113) for t in tensors_in(tree) for _ in "12"]
    del kept


def nearly(got: list, expected: list) -> bool:
    """Sums in another order differ by the rounding of their largest terms."""
    for one, other in zip(got, expected, strict=True):
        if (one is None) != (other is None):
            return False
        if one is None or torch.equal(one, other):
            continue
        if not (one.is_floating_point() or one.is_complex()) or not torch.equal(one.isfinite(), other.isfinite()):
            return False
        finite = other.isfinite()
        if values_differ(one[~finite], other[~finite], rtol=0, atol=0):
            return False
        if not finite.any():
            continue
        bound = 16 * torch.finfo(other.dtype).eps * other[finite].abs().max()
        if not (one - other)[finite].abs().max() <= bound:
            return False
    return True


def without_numbers(reason: str) -> str:
    return re.sub(r" \(in .*$|(?<![a-z_])[0-9]+", "", reason)


def run_case(op: Any, case: Case, call: tuple, reseeded: tuple | None, outcome: Outcome) -> None:
    function = op.op

    def program(first, args, kwargs):
        result = function(first, *args, **kwargs)
        return [used(leaf) for leaf in tree_flatten(result)[0]] if case.inside else result

    undefined = op.name in UNDEFINED
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
            outcome.same_data += 1
        compiled = saker.compile(program)
        try:
            got = run(compiled, fresh(call, case.gradients), case.gradients)
            disturb([expected_second["values"]])
            before = saker.stats()["replays"]
            again = run(compiled, fresh(second, case.gradients), case.gradients)
            replays = saker.stats()["replays"] - before
            third = run(compiled, fresh(call, case.gradients), case.gradients) if case.inside else got
        except Exception as error:
            outcome.failed[case] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
            return
    calls = (("first call", got, expected), ("replay", again, expected_second), ("second replay", third, expected))
    for name, mine, theirs in calls:
        why, exact = compare(mine, theirs, undefined, nearly)
        if why:
            outcome.failed[case] = f"{name}: {why}"[:200]
            return
    if replays == 0:
        reports = _C.compiled_reports(compiled)
        outcome.eager[without_numbers(reports[0]["why"]) or OTHER_CALL] += 1
        return
    outcome.replayed += 1
    outcome.exact += exact


def cases_of(op: Any, dtype: torch.dtype, limit: int | None) -> Iterator[tuple[Case, tuple, tuple | None]]:
    backward = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    samples, reseeded = samples_of(op, dtype, 0, backward), samples_of(op, dtype, 1, backward)
    for place, number in enumerate(chosen(len(samples), limit)):
        call = samples[number]
        other = reseeded[number] if number < len(reseeded) else None
        layouts = [("given", call, other)]
        defined = name_of(op) not in READ_ELSEWHERE_WHEN_PERMUTED
        if defined and (relayed := relaid(call, permuted)) is not None:
            layouts.append(("permuted", relayed, other and relaid(other, permuted)))
        for layout, one, two in layouts:
            for gradients in (False, True) if backward else (False,):
                yield Case(name_of(op), short(dtype), number, layout, gradients), one, two
        for gradients in (False, True) if backward else (False,):
            if limit is None or place == 0:
                yield Case(name_of(op), short(dtype), number, "given", gradients, inside=True), call, other


def run_entry(op: Any, limit: int | None = None, dtypes: tuple[torch.dtype, ...] = DTYPES) -> Outcome:
    outcome = Outcome()
    start = time.perf_counter()
    for dtype in dtypes:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for case, call, other in cases_of(op, dtype, limit):
            run_case(op, case, call, other, outcome)
    saker.reset()
    outcome.seconds[name_of(op)] = time.perf_counter() - start
    return outcome


def summary(outcome: Outcome) -> list[str]:
    total = outcome.replayed + len(outcome.failed) + outcome.eager.total()
    lines = [
        f"{outcome.replayed} of {total} cases are replayed and equal, {outcome.exact} of them to the last bit, "
        f"{outcome.same_data} on the data of their recording; {len(outcome.failed)} differ; {outcome.eager.total()} "
        f"are not replayed; eager mode itself raises on {outcome.eager_raises}"
    ]
    lines += [
        f"  {count:5d}  {why}" for why, count in sorted(outcome.eager.items(), key=lambda item: (-item[1], item[0]))
    ]
    return lines


def run_part(names: list[str], limit: int | None, dtypes: tuple[torch.dtype, ...]) -> Outcome:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    outcome = Outcome()
    for op in ENTRIES:
        if name_of(op) in names:
            outcome.add(run_entry(op, limit, dtypes))
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", help="run OpInfo entries whose name matches this regular expression")
    parser.add_argument("--limit", type=int, help="samples of each entry and dtype; all if not given")
    parser.add_argument("--dtype", action="append", help="only these dtypes (float32, int64, ...)")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--slow", type=int, default=0, help="name so many entries that took longest")
    options = parser.parse_args()
    dtypes = tuple(getattr(torch, name) for name in options.dtype) if options.dtype else DTYPES
    names = list(dict.fromkeys(name_of(op) for op in ENTRIES if not options.ops or re.search(options.ops, name_of(op))))
    total = Outcome()
    if options.jobs == 1:
        total = run_part(names, options.limit, dtypes)
    else:
        parts = [names[i :: options.jobs * 8] for i in range(options.jobs * 8)]
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            for part in [pool.submit(run_part, names, options.limit, dtypes) for names in parts]:
                total.add(part.result())
    print("\n".join([*(f"{case}: {why}" for case, why in total.failed.items()), *summary(total)]))
    for entry, seconds in sorted(total.seconds.items(), key=lambda item: -item[1])[: options.slow]:
        print(f"  {seconds:6.1f} s  {entry}")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
