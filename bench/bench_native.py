"""Generated code against eager mode, Saker by ATen and, if asked for, torch.compile: medians of calls in turns.

    PYTHONPATH=python python bench/bench_native.py --numbers 4 65536 1048576 --threads 1 2 --torch-compile

The ratio is that to eager mode: below 1 is faster. ``first`` is the first call, in milliseconds: operators are called
while code is generated in the background. The first table has the first calls of models with code generation in them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

import saker
from native_programs import Problem, functions, models
from saker import _C

# A function may be this much slower than eager mode before it is marked.
_SLOWER = 1.03


def _first(problem: Problem, compiled: Callable[..., Any]) -> float:
    """Seconds of the first result, with its code."""
    start = time.perf_counter()
    problem.call(compiled)
    took = time.perf_counter() - start
    problem.call(compiled)
    _C.wait_for_code()
    return took


def _median(problem: Problem, ways: dict[str, Callable[..., Any]], rounds: int, seconds: float) -> dict[str, float]:
    """Turn by turn: all see the same noise. Short calls are measured several at a time."""
    for function in ways.values():
        problem.call(function)
    start = time.perf_counter()
    problem.call(problem.function)
    one = max(time.perf_counter() - start, 1e-7)
    calls = max(1, min(200, int(seconds / rounds / len(ways) / one)))
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, function in ways.items():
            start = time.perf_counter()
            for _ in range(calls):
                problem.call(function)
            times[name].append((time.perf_counter() - start) / calls)
    return {name: statistics.median(each) for name, each in times.items()}


def _row(problem: Problem, options: argparse.Namespace) -> bool:
    """Prints one line. Whether generated code is slower than eager mode."""
    saker.reset()
    ways = {"eager": problem.function, "aten": saker.compile(problem.function, dynamic=False)}
    ways["native"] = saker.compile(problem.function, dynamic=False, backend="native")
    if options.torch_compile:
        torch._dynamo.reset()
        ways["torch"] = torch.compile(problem.function, dynamic=False)
    first = _first(problem, ways["native"])
    before = _C.kernels_launched()
    problem.call(ways["native"])
    kernels = _C.kernels_launched() - before
    found = _median(problem, ways, options.rounds, options.seconds)
    slower = found["native"] > _SLOWER * found["eager"]
    cells = "".join(f"{found[name] * 1e6:11.1f}" for name in found)
    ratios = "".join(f"{found[name] / found['eager']:8.2f}" for name in found if name != "eager")
    print(f"{problem.name:28}{cells}{ratios}{kernels:8}{first * 1e3:9.1f}{'  slower' * slower}", flush=True)
    return slower


def _phases(problem: Problem) -> None:
    """Prints what the first calls cost, with code generation in them, and its parts. For functions not met before."""
    os.environ["SAKER_COMPILE"] = "sync"
    compiled = saker.compile(problem.function, dynamic=False, backend="native")
    calls = []
    for _ in range(3):
        start = time.perf_counter()
        problem.call(compiled)
        calls.append(time.perf_counter() - start)
    del os.environ["SAKER_COMPILE"]
    with torch.set_grad_enabled(problem.backward):
        told = saker.explain(problem.function, repeat=0, dynamic=False, backend="native")(*problem.arguments)
    parts = {"record": told.seconds["running and recording"], **told.stages, "fuse": 0.0, "lower": 0.0, "compile": 0.0}
    distinct = {}  # equal kernels are compiled once
    for each in (*told.kernels, *told.backward_kernels):
        parts["fuse"] += each.seconds["fuse"]
        parts["lower"] += each.seconds["lower"]
        distinct |= {tuple(group.texts): group.seconds for group in each.groups}
    parts["compile"] = sum(distinct.values())
    firsts = " ".join(f"{each * 1e3:8.1f}" for each in calls)
    print(f"{problem.name:28}{firsts}   " + ", ".join(f"{name} {took * 1e3:.1f}" for name, took in parts.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", type=int, nargs="*", default=[4, 4096, 1 << 20], help="elements of a tensor")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.2, help="about so long for one line")
    parser.add_argument("--only", default="", help="problems whose names have this")
    parser.add_argument("--no-models", action="store_true")
    parser.add_argument("--torch-compile", action="store_true", help="torch.compile too, which takes long")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    saker.set_logs("")
    status, load = _C.code_status(), os.getloadavg()[0]
    print(f"torch {torch.__version__}, code for {status['target']}, {os.cpu_count()} cores, load {load:.1f}")
    if not options.no_models:
        print(f"\n{'first calls, ms':28}{'first':>8} {'second':>8} {'third':>8}   parts, ms")
        for problem in models():
            if options.only in problem.name:
                _phases(problem)
    slower = 0
    names = ["eager", "aten", "native", *["torch"] * options.torch_compile]
    for threads in options.threads:
        torch.set_num_threads(threads)
        for numbers in [*options.numbers, *[0] * (not options.no_models)]:
            torch.manual_seed(0)
            what = f"{numbers} numbers" if numbers else "models"
            head = "".join(f"{f'{name} us':>11}" for name in names) + "".join(f"{name:>8}" for name in names[1:])
            print(f"\n{f'{what}, {threads} thread' + 's' * (threads > 1):28}{head}{'kernels':>8}{'first ms':>9}")
            for problem in functions(numbers) if numbers else models():
                if options.only in problem.name:
                    slower += _row(problem, options)
    print(f"\n{slower} lines are slower than eager mode by more than 3 %; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
