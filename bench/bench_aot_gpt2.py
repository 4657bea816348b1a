"""What compiling a training step ahead of time costs and gives: GPT-2, forward and backward.

    python bench/bench_aot_gpt2.py [--layers 12] [--batch 4] [--length 64] [--repeats 7] [--without-torch] [--cpu-time]

The rival is PyTorch's own aot_function in the same process, with a compiler that does nothing and its min-cut
partitioner. The time to compile is that of the first step less that of a later one, the median of several functions
compiled one after the other; the first of all, which loads what both need, does not count. Memory is that of one step
after the first: what is kept from forward to backward beside parameters and inputs, and the highest sum of what was
allocated at a time. One thread.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

import saker

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python"))
import zoo

WIDTH, HEADS, VOCABULARY = 128, 4, 256

Function = Callable[..., torch.Tensor]
Step = Callable[[], None]


class Problem:
    """GPT-2's loss as a function of the tokens and of its parameters."""

    def __init__(self, layers: int, batch: int, length: int) -> None:
        case = zoo.gpt2(layers=layers, width=WIDTH, heads=HEADS, vocabulary=VOCABULARY, positions=max(length, 64))
        self.model = case.module.eval()
        self.names = [name for name, _ in self.model.named_parameters()]
        self.parameters = list(self.model.parameters())
        self.ids = zoo.tokens(batch, length, VOCABULARY)

    def loss(self, ids: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        given = dict(zip(self.names, parameters, strict=True))
        return torch.func.functional_call(self.model, given, (), {"input_ids": ids, "labels": ids}).loss

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


class Stopwatch:
    def __init__(self, repeats: int, clock: Callable[[], float]) -> None:
        self.repeats = repeats
        self.clock = clock

    def once(self, fn: Step) -> float:
        start = self.clock()
        fn()
        return self.clock() - start

    def together(self, steps: dict[str, Step]) -> dict[str, float]:
        """Medians, taken in turns, so that whatever disturbs them disturbs all."""
        times: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(self.repeats):
            for name, step in steps.items():
                times[name].append(self.once(step))
        return {name: statistics.median(taken) for name, taken in times.items()}

    def compiling(self, problem: Problem, make: Callable[[Function], Function], repeats: int) -> float:
        times = []
        problem.step(make(problem.loss))()
        for _ in range(repeats):
            step = problem.step(make(problem.loss))
            first = self.once(step)
            times.append(first - statistics.median(self.once(step) for _ in range(3)))
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


def row(name: str, *cells: str) -> None:
    print(f"  {name:<52}" + "".join(f"{cell:>16}" for cell in cells))


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def mebibytes(count: int) -> str:
    return f"{count / 2**20:.2f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--without-torch", action="store_true", help="leave PyTorch's aot_function out")
    parser.add_argument("--cpu-time", action="store_true", help="processor time, for a machine that is busy otherwise")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)  # the tensors are small: threads would only wait for each other
    watch = Stopwatch(options.repeats, time.process_time if options.cpu_time else time.perf_counter)
    torch.manual_seed(0)
    problem = Problem(options.layers, options.batch, options.length)

    ways: dict[str, Any] = {"eager": problem.loss, "saker.aot_function": with_saker(problem.loss)}
    if not options.without_torch:
        ways["torch aot_function, min-cut, no compiler"] = with_torch(problem.loss)
    expected = problem.gradients(problem.loss)
    for function in ways.values():
        torch.testing.assert_close(problem.gradients(function), expected)
    print(
        f"GPT-2, {options.layers} layers, width {WIDTH}, batch {options.batch} x {options.length}: loss and "
        f"{len(problem.parameters)} gradients, equal to eager mode's"
    )

    ours = watch.compiling(problem, with_saker, 5)
    fx = watch.compiling(problem, with_saker_and_fx, 3)
    row("time to compile", "", "against saker")
    row("saker.aot_function", milliseconds(ours), "1")
    row("the same, and fx graphs for another compiler", milliseconds(fx), f"{fx / ours:.1f}")
    if not options.without_torch:
        theirs = watch.compiling(problem, with_torch, 2)
        row("torch aot_function, min-cut, no compiler", milliseconds(theirs), f"{theirs / ours:.1f}")

    times = watch.together({name: problem.step(function) for name, function in ways.items()})
    row("one step", "time", "against eager", "saved", "peak")
    for name, function in ways.items():
        saved, peak = saved_bytes(problem, function), peak_bytes(problem.step(function))
        ratio = f"{times[name] / times['eager']:.3f}"
        row(name, milliseconds(times[name]), ratio, mebibytes(saved), mebibytes(peak))


if __name__ == "__main__":
    main()
