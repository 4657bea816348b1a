"""saker.aot_function against eager mode over PyTorch's own samples of its operators (OpInfo): values, first gradients,
and second ones where an entry has them.

    python tests/python/helpers/aot_opinfo.py --ops '^softmax$'     # these entries, all samples
    python tests/python/helpers/aot_opinfo.py --jobs 2              # everything
    python tests/python/helpers/aot_opinfo.py --jobs 2 --write      # and write the list of what is known to fail

That list, aot_opinfo_known.txt, names each sample that does not pass, with its reason:

    entry dtype numbers: reason
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import saker
from judge import tensors_in

KNOWN_FILE = Path(__file__).with_name("aot_opinfo_known.txt")
DTYPES = (torch.float32, torch.float64)
# Memory that is not written: what is in it differs from run to run.
UNDEFINED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class Sample(NamedTuple):
    entry: str
    dtype: str
    number: int

    def __str__(self) -> str:
        return f"{self.entry} {self.dtype} #{self.number}"


@dataclass
class Outcome:
    """What some samples showed."""

    passed: int = 0
    exact: int = 0  # of these, equal to the last bit
    eager_raises: int = 0
    failed: dict[Sample, str] = field(default_factory=dict)
    ran: list[Sample] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, other: Outcome) -> None:
        self.passed += other.passed
        self.exact += other.exact
        self.eager_raises += other.eager_raises
        self.failed.update(other.failed)
        self.ran += other.ran
        self.seconds.update(other.seconds)


def copied(tree: Any) -> Any:
    """The same call on tensors of its own. A tensor that comes twice still does."""
    made: dict[int, torch.Tensor] = {}

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = leaf.detach().clone().requires_grad_(leaf.requires_grad)
        return made[id(leaf)]

    return tree_map(copy, tree)


def cotangents(outputs: list[torch.Tensor], seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(o.shape, dtype=o.dtype, generator=generator) for o in outputs]


def gradients(outputs: list[torch.Tensor], leaves: list[torch.Tensor], seed: int, create_graph: bool) -> list:
    found = torch.autograd.grad(
        outputs,
        leaves,
        cotangents(outputs, seed),
        allow_unused=True,
        retain_graph=True,
        create_graph=create_graph,
        materialize_grads=False,
    )
    return list(found)


def differentiable(results: Any) -> list[torch.Tensor]:
    return [t for t in tensors_in(results) if t.requires_grad and (t.is_floating_point() or t.is_complex())]


def run(function: Callable, process: Callable, call: tuple, twice: bool) -> dict[str, Any]:
    """Values and gradients of a call; the inputs as it leaves them."""
    first, args, kwargs = call
    leaves = [t for t in tensors_in([first, args, kwargs]) if t.requires_grad]
    leaves = list({id(t): t for t in leaves}.values())
    torch.manual_seed(7)
    result = function(first, *args, **kwargs)
    state: dict[str, Any] = {"values": result, "random stream": torch.get_rng_state()}
    outputs = differentiable([process(result)]) if leaves else []
    if outputs:
        state["gradients"] = gradients(outputs, leaves, 3, create_graph=False)
        if twice:
            once = gradients(outputs, leaves, 3, create_graph=True)
            state["gradients with a graph"] = once
            further = differentiable(once)
            if further:
                state["second gradients"] = gradients(further, leaves, 4, create_graph=False)
    state["inputs"] = list(tensors_in([first, args, kwargs]))
    return state


def same_kind(got: Any, expected: Any) -> str | None:
    """Where two results differ in what a program sees beside their values."""
    a, b = list(tensors_in([got])), list(tensors_in([expected]))
    if len(a) != len(b):
        return "another number of tensors"
    for x, y in zip(a, b, strict=True):
        for what in ("shape", "dtype", "requires_grad", "layout"):
            if getattr(x, what) != getattr(y, what):
                return f"{what} is {getattr(x, what)}, not {getattr(y, what)}"
        if x.layout == torch.strided and x.stride() != y.stride() and x.numel() > 0:
            return f"strides are {x.stride()}, not {y.stride()}"
    return None


def values_differ(got: Any, expected: Any, **tolerance: float) -> str | None:
    a, b = tree_leaves(got), tree_leaves(expected)
    if len(a) != len(b):
        return "another number of results"
    for x, y in zip(a, b, strict=True):
        if not isinstance(y, torch.Tensor):
            if x != y:
                return f"{x}, not {y}"
            continue
        try:
            torch.testing.assert_close(x, y, equal_nan=True, **tolerance)
        except AssertionError as error:
            return str(error).splitlines()[0]
    return None


def compare(
    got: dict[str, Any], expected: dict[str, Any], undefined: bool, nearly: Callable[[list, list], bool] | None = None
) -> tuple[str | None, bool]:
    """The first difference, and whether everything is equal to the last bit. Gradients may be ``nearly`` equal."""
    exact = True
    for part, value in expected.items():
        if part not in got:
            return f"{part}: there are none", False
        if part == "values" and (why := same_kind(got[part], value)):
            return f"{part}: {why}", False
        if undefined:
            continue
        if values_differ(got[part], value, rtol=0, atol=0):
            exact = False
            allowed = part == "gradients" and nearly is not None and nearly(got[part], value)
            if (why := values_differ(got[part], value)) and not allowed:
                return f"{part}: {why}", False
    return None, exact


def reason_of(error: Exception) -> str:
    text = str(error).strip().splitlines()
    kind = type(error).__name__
    if isinstance(error, saker.CaptureError):
        kind += f" {error.reason}"
    # Without the place and the advice.
    what = re.sub(r"^.*?:[0-9]+: |; .*$| \(/.*$", "", text[0] if text else "")
    return f"{kind}: {what}"[:160]


def samples_of(op: Any, dtype: torch.dtype) -> list[Any]:
    backward = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    torch.manual_seed(0)
    try:
        return list(op.sample_inputs("cpu", dtype, requires_grad=backward))
    except Exception:  # PyTorch's own generator fails
        return []


def chosen(count: int, limit: int | None) -> Iterator[int]:
    """Numbers of at most `limit` of so many samples, spread over all of them."""
    if limit is None or count <= limit:
        yield from range(count)
    else:
        yield from (i * count // limit for i in range(limit))


def run_sample(op: Any, sample: Any, dtype: torch.dtype, outcome: Outcome, name: Sample) -> None:
    call = (sample.input, sample.args, sample.kwargs)
    twice = op.supports_gradgrad and op.supports_autograd
    process = sample.output_process_fn_grad
    try:
        expected = run(op.op, process, copied(call), twice)
    except Exception:
        outcome.eager_raises += 1
        return
    outcome.ran.append(name)
    try:
        got = run(saker.aot_function(op.op), process, copied(call), twice)
    except Exception as error:
        outcome.failed[name] = reason_of(error)
        return
    why, exact = compare(got, expected, op.name in UNDEFINED)
    if why:
        outcome.failed[name] = why[:200]
    else:
        outcome.passed += 1
        outcome.exact += exact


def run_entry(op: Any, limit: int | None = None) -> Outcome:
    outcome = Outcome()
    start = time.perf_counter()
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        samples = samples_of(op, dtype)
        for number in chosen(len(samples), limit):
            run_sample(op, samples[number], dtype, outcome, Sample(name_of(op), short(dtype), number))
    outcome.seconds[name_of(op)] = time.perf_counter() - start
    return outcome


def ranges(numbers: list[int]) -> str:
    """1 2 3 5 as 1-3,5."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def known_lines(failed: dict[Sample, str]) -> list[str]:
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for sample, reason in failed.items():
        groups[sample.entry, sample.dtype, reason].append(sample.number)
    return [f"{entry} {dtype} {ranges(numbers)}: {why}" for (entry, dtype, why), numbers in sorted(groups.items())]


def read_known() -> dict[Sample, str]:
    known: dict[Sample, str] = {}
    for line in KNOWN_FILE.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        where, reason = line.split(": ", 1)
        entry, dtype, numbers = where.rsplit(" ", 2)
        for part in numbers.split(","):
            first, _, last = part.partition("-")
            for number in range(int(first), int(last or first) + 1):
                known[Sample(entry, dtype, number)] = reason
    return known


def summary(outcome: Outcome) -> list[str]:
    count = outcome.passed + len(outcome.failed)
    lines = [
        f"{outcome.passed} of {count} samples pass ({100 * outcome.passed / max(count, 1):.2f} %), {outcome.exact} of "
        f"them to the last bit; eager mode itself raises on {outcome.eager_raises}",
    ]
    reasons = Counter(re.sub(r"[0-9]+|'[^']*'", "_", why) for why in outcome.failed.values())
    lines += [f"  {number:5d}  {why}" for why, number in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))]
    return lines


def run_part(names: list[str], limit: int | None) -> Outcome:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    outcome = Outcome()
    for op in op_db:
        if name_of(op) in names:
            outcome.add(run_entry(op, limit))
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", help="run OpInfo entries whose name matches this regular expression")
    parser.add_argument("--limit", type=int, help="samples of each entry and dtype; all if not given")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--write", action="store_true", help="write the list of what is known to fail")
    parser.add_argument("--slow", type=int, default=0, help="name so many entries that took longest")
    options = parser.parse_args()
    names = [name_of(op) for op in op_db if not options.ops or re.search(options.ops, name_of(op))]
    total = Outcome()
    if options.jobs == 1:
        total = run_part(names, options.limit)
    else:
        parts = [names[i :: options.jobs * 8] for i in range(options.jobs * 8)]
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            for part in [pool.submit(run_part, names, options.limit) for names in parts]:
                total.add(part.result())
    lines = known_lines(total.failed)
    print("\n".join([*lines, *summary(total)]))
    for entry, seconds in sorted(total.seconds.items(), key=lambda item: -item[1])[: options.slow]:
        print(f"  {seconds:6.1f} s  {entry}")
    if options.write:
        KNOWN_FILE.write_text(
            "\n".join(["# Written by aot_opinfo.py --write: entry dtype numbers: reason", *lines, ""])
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
