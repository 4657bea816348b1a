"""What compiling a training step ahead of time costs and gives: GPT-2, forward and backward.

    python bench/bench_aot_gpt2.py [--layers 12] [--batch 4] [--length 64] [--repeats 7] [--without-torch] [--cpu-time]

The rival is PyTorch's own aot_function in the same process, with a compiler that does nothing and its min-cut
partitioner. The time to compile is that of the first step less that of a later one, the median of several functions
compiled one after the other; the first of all, which loads what both need, does not count. Memory is that of one step
after the first: what is kept from forward to backward beside parameters and inputs, and the highest sum of what was
allocated at a time, told in two ways that know nothing of each other: by PyTorch's profiler, and by the system, as the
most that a process of its own had resident in that step. One thread.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

import gpt2
import saker
from gpt2 import WIDTH, mebibytes, milliseconds, row

Function = Callable[..., torch.Tensor]
Step = Callable[[], None]


class Problem(gpt2.Problem):
    """And steps of training."""

    def step(self, function: Function) -> Step:
        def run() -> None:
            for parameter in self.parameters:
                parameter.grad = None
            function(self.ids, *self.parameters).backward()

        return run

    def gradients(self, function: Function) -> list[torch.Tensor]:
        self.step(function)()
        return [parameter.grad for parameter in self.parameters]


def with_saker(fn: Function) -> Function:
    return saker.aot_function(fn)


def with_saker_and_fx(fn: Function) -> Function:
    return saker.aot_function(fn, fw_compiler=lambda graph, _: graph)


def with_torch(fn: Function) -> Function:
    from torch._functorch.aot_autograd import aot_function
    from torch._functorch.compilers import nop
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    def listed(*args: torch.Tensor) -> tuple[torch.Tensor]:
        return (fn(*args),)

    compiled = aot_function(listed, nop, nop, partition_fn=min_cut_rematerialization_partition)
    return lambda *args: compiled(*args)[0]


WAYS: dict[str, Callable[[Function], Function]] = {
    "eager": lambda fn: fn,
    "saker.aot_function": with_saker,
    "torch aot_function, min-cut, no compiler": with_torch,
}


def time_to_compile(watch: gpt2.Stopwatch, problem: Problem, make: Callable[[Function], Function], count: int) -> float:
    times = []
    problem.step(make(problem.loss))()
    for _ in range(count):
        step = problem.step(make(problem.loss))
        first = watch.once(step)
        times.append(first - statistics.median(watch.once(step) for _ in range(3)))
        gc.collect()
    return statistics.median(times)


def saved_bytes(problem: Problem, function: Function) -> int:
    """Every storage once; those of parameters and inputs not."""
    known = {t.untyped_storage().data_ptr() for t in [*problem.parameters, problem.ids]}
    storages: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = function(problem.ids, *problem.parameters)
    loss.backward()
    return sum(storages.values())


def peak_bytes(step: Step) -> int:
    """The most that was allocated at a time beyond what was there before, as PyTorch's profiler saw it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


def resident(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


def resident_peak(step: Step) -> int:
    """The most that was resident in a step beyond what was before it, as Linux counts it."""
    step()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak until here
    before = resident("VmRSS")
    step()
    return resident("VmHWM") - before


def resident_peak_alone(way: str, arguments: list[str]) -> int:
    """In a process that gives memory back at once and has done nothing else."""
    settings = {"MALLOC_MMAP_THRESHOLD_": "16384", "MALLOC_TRIM_THRESHOLD_": "0"}
    command = [sys.executable, __file__, *arguments, "--resident", way]
    ran = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=True)
    return int(ran.stdout)


def memory(problem: Problem, ways: dict[str, Function], arguments: list[str], times: dict[str, float]) -> None:
    row("one step", "time", "against eager", "saved", "peak", "resident peak", width=WIDE)
    for name, function in ways.items():
        saved, peak = saved_bytes(problem, function), peak_bytes(problem.step(function))
        alone = resident_peak_alone(name, arguments) if sys.platform == "linux" else 0
        ratio = f"{times[name] / times['eager']:.3f}"
        sizes = (mebibytes(count) for count in (saved, peak, alone))
        row(name, milliseconds(times[name]), ratio, *sizes, width=WIDE)


WIDE = 52


def main() -> None:
    parser = gpt2.parser_of(__doc__, repeats=7)
    parser.add_argument("--without-torch", action="store_true", help="leave PyTorch's aot_function out")
    parser.add_argument("--resident", choices=WAYS, help="print only the peak of resident memory of a step, in bytes")
    options = parser.parse_args()
    watch = gpt2.prepare(options)
    problem = Problem(options.layers, options.batch, options.length)
    if options.resident:
        print(resident_peak(problem.step(WAYS[options.resident](problem.loss))))
        return

    ways = {name: make(problem.loss) for name, make in WAYS.items() if not (options.without_torch and "torch" in name)}
    expected = problem.gradients(problem.loss)
    for function in ways.values():
        torch.testing.assert_close(problem.gradients(function), expected)
    print(
        f"GPT-2, {options.layers} layers, width {WIDTH}, batch {options.batch} x {options.length}: loss and "
        f"{len(problem.parameters)} gradients, equal to eager mode's"
    )

    ours = time_to_compile(watch, problem, with_saker, 5)
    fx = time_to_compile(watch, problem, with_saker_and_fx, 3)
    row("time to compile", "", "against saker", width=WIDE)
    row("saker.aot_function", milliseconds(ours), "1", width=WIDE)
    row("the same, and fx graphs for another compiler", milliseconds(fx), f"{fx / ours:.1f}", width=WIDE)
    if not options.without_torch:
        theirs = time_to_compile(watch, problem, with_torch, 2)
        row("torch aot_function, min-cut, no compiler", milliseconds(theirs), f"{theirs / ours:.1f}", width=WIDE)

    times = watch.together({name: problem.step(function) for name, function in ways.items()})
    arguments = [f"--{name}={getattr(options, name)}" for name in ("layers", "batch", "length")]
    memory(problem, ways, arguments, times)


if __name__ == "__main__":
    main()
