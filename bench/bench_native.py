"""Generated code against eager mode, Saker by ATen and, if asked for, torch.compile: medians of calls in turns.

    PYTHONPATH=python python bench/bench_native.py --numbers 4 65536 1048576 --threads 1 2 --torch-compile

The ratio is that to eager mode: below 1 is faster. ``first`` is the first call, in milliseconds: operators are called
while code is generated in the background. The first table has the first calls of models with code generation in them.
``--growth`` measures compiling 1 to 64 equal layers and loading the library, ``--memory`` the peak of memory (what is
kept from call to call included), ``--cold`` the first results in processes of their own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import saker
from native_programs import Problem, equal_layers, functions, models
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


def _times(problem: Problem, ways: dict[str, Callable[..., Any]], options: argparse.Namespace) -> dict[str, float]:
    """Turn by turn: all see the same noise. Short calls are measured several at a time.

    Medians; the best of short samples where others use the machine, which then mostly measure what those do.
    """
    rounds, seconds = options.rounds, options.seconds
    for function in ways.values():
        problem.call(function)
    start = time.perf_counter()
    problem.call(problem.function)
    one = max(time.perf_counter() - start, 1e-7)
    calls = max(1, min(200, int(seconds / rounds / len(ways) / one)))
    if options.best:
        calls = max(1, min(20, int(5e-4 / one)))
        rounds = max(rounds, int(seconds / len(ways) / calls / one))
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, function in ways.items():
            start = time.perf_counter()
            for _ in range(calls):
                problem.call(function)
            times[name].append((time.perf_counter() - start) / calls)
    pick = min if options.best else statistics.median
    return {name: pick(each) for name, each in times.items()}


def _ways(problem: Problem, options: argparse.Namespace) -> dict[str, Callable[..., Any]]:
    ways = {"eager": problem.function, "aten": saker.compile(problem.function, dynamic=problem.dynamic)}
    ways["native"] = saker.compile(problem.function, dynamic=problem.dynamic, backend="native")
    if options.torch_compile:
        torch._dynamo.reset()
        ways["torch"] = torch.compile(problem.function, dynamic=problem.dynamic)
    return ways


def _copy(numbers: int, options: argparse.Namespace) -> None:
    """Prints how fast PyTorch copies a tensor of so many floats: what memory gives."""
    x, y = torch.randn(numbers), torch.empty(numbers)
    problem = Problem("copy", y.copy_, (x,))
    took = _times(problem, {"eager": problem.function}, options)["eager"]
    print(f"{'copy':28}{took * 1e6:11.1f}   {8 * numbers / took / 1e9:.1f} GB/s")


def _mean(ratios: list[float]) -> str:
    return f"{math.exp(statistics.mean(map(math.log, ratios))):.2f}" if ratios else "-"


def _row(problem: Problem, options: argparse.Namespace) -> dict[str, float]:
    """Prints one line. The times."""
    saker.reset()
    ways = _ways(problem, options)
    first = _first(problem, ways["native"])
    found = _times(problem, ways, options)
    before = _C.kernels_launched()
    problem.call(ways["native"])
    kernels = _C.kernels_launched() - before
    slower = found["native"] > _SLOWER * found["eager"]
    cells = "".join(f"{found[name] * 1e6:11.1f}" for name in found)
    ratios = "".join(f"{found[name] / found['eager']:8.2f}" for name in found if name != "eager")
    print(f"{problem.name:28}{cells}{ratios}{kernels:8}{first * 1e3:9.1f}{'  slower' * slower}", flush=True)
    return found


def _peak(call: Callable[[], Any]) -> int:
    """The most bytes that a call holds beyond what was there before; workspaces, which are kept, count as taken."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    events = [each for each in profile.profiler.kineto_results.events() if each.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak + _C.workspace_bytes()


def _memory(options: argparse.Namespace) -> None:
    names = ["eager", "aten", "native", *["torch"] * options.torch_compile]
    print(f"\n{'peak of a call, MiB':28}" + "".join(f"{name:>11}" for name in names))
    for problem in [*functions(1 << 20), *models()]:
        if options.only not in problem.name:
            continue
        cells = ""
        for name in names:
            saker.reset()
            function = _ways(problem, options)[name]
            for _ in range(3):
                problem.call(function)
                _C.wait_for_code()
            cells += f"{_peak(lambda: problem.call(function)) / (1 << 20):11.1f}"
        print(f"{problem.name:28}{cells}", flush=True)


def _growth() -> None:
    code = Path(_C.__file__).with_name("libsaker_codegen.so")
    ask = "import time, saker\nfrom saker import _C\nt = time.perf_counter()\n_C.code_status()\n"
    ask += "print((time.perf_counter() - t) * 1e3)"
    loads = [float(subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True).stdout) for _ in "123"]
    size = code.stat().st_size / (1 << 20)
    print(f"\nlibrary: {size:.1f} MiB, loaded in {statistics.median(loads):.1f} ms, of a process of its own")
    print(f"\n{'equal layers, ms':28}{'first':>8} {'second':>8} {'third':>8}   parts, ms")
    _phases(equal_layers(2))  # what is loaded once
    for layers in (1, 4, 16, 64):
        _phases(equal_layers(layers))


def _first_result(name: str, way: str) -> None:
    """Prints how long a process waits for its first result with generated code.

    Apart from that: what its first call in eager mode takes, which loads and starts whatever the model needs, and what
    importing the compiler takes. Seconds that its processors worked are those of its threads, not of torch's processes.
    """
    problem = next(each for each in models() if each.name == name)
    seconds = {"eager": _seconds(lambda: problem.call(problem.function))}
    if way == "torch":
        seconds["import"] = _seconds(lambda: importlib.import_module("torch._inductor.compile_fx"))
    worked = time.process_time()
    if way == "native":
        os.environ["SAKER_COMPILE"] = "sync"
        function = saker.compile(problem.function, dynamic=False, backend="native")
        before = _C.kernels_launched()
        seconds["first"] = 0.0
        for _ in range(4):  # where nothing is fused, no kernel is ever launched
            seconds["first"] += _seconds(lambda: problem.call(function))
            if _C.kernels_launched() != before:
                break
    else:
        function = torch.compile(problem.function, dynamic=False)
        seconds["first"] = _seconds(lambda: problem.call(function))
    seconds["worked"] = time.process_time() - worked
    if way == "native":
        seconds |= {f"of it {part}": took for part, took in _parts(problem).items()}
    print(json.dumps(seconds))


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _cold(options: argparse.Namespace) -> None:
    ways = ["native", *["torch"] * options.torch_compile]
    print("\nfirst results in processes of their own, empty caches, ms. Before that: a call in eager mode, and imports")
    print(f"{'':28}{'eager':>8}{'native':>8}{'worked':>8}{'import':>8}{'torch':>8}{'times':>7}   parts of native")
    times = []
    for problem in models():
        if options.only not in problem.name:
            continue
        told: dict[str, dict[str, float]] = {}
        for way in ways:
            caches = tempfile.mkdtemp()
            threads = str(options.threads[0])
            command = [sys.executable, __file__, "--threads", threads, "--first", problem.name, way]
            given = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": caches}
            ran = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
            shutil.rmtree(caches, ignore_errors=True)
            if ran.returncode != 0:
                print(ran.stderr[-2000:], file=sys.stderr)
            told[way] = json.loads(ran.stdout.splitlines()[-1]) if ran.returncode == 0 else {}
        native, other = told["native"], told.get("torch", {})
        if native and other:
            times.append(other["first"] / native["first"])
        cells = [
            native.get("eager"),
            native.get("first"),
            native.get("worked"),
            other.get("import"),
            other.get("first"),
        ]
        row = "".join(f"{each * 1e3:8.0f}" if each is not None else f"{'-':>8}" for each in cells)
        row += f"{times[-1]:7.0f}" if native and other else f"{'-':>7}"
        parts = ", ".join(f"{n[6:]} {took * 1e3:.1f}" for n, took in native.items() if n.startswith("of it "))
        print(f"{problem.name:28}{row}   {parts}", flush=True)
    if times:
        print(f"torch.compile takes {_mean(times)} times as long (geometric mean), at least {min(times):.0f}")


def _parts(problem: Problem) -> dict[str, float]:
    """Seconds of each stage of compiling. Kernels that were compiled are told with the time that took."""
    with torch.set_grad_enabled(problem.backward):
        told = saker.explain(problem.function, repeat=0, dynamic=False, backend="native")(*problem.arguments)
    parts = {"record": told.seconds["running and recording"], **told.stages, "fuse": 0.0, "lower": 0.0, "compile": 0.0}
    distinct = {}  # equal kernels are compiled once
    for each in (*told.kernels, *told.backward_kernels):
        parts["fuse"] += each.seconds["fuse"]
        parts["lower"] += each.seconds["lower"]
        distinct |= {tuple(group.texts): group.seconds for group in each.groups}
    parts["compile"] = sum(distinct.values())
    return parts


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
    parts = _parts(problem)
    firsts = " ".join(f"{each * 1e3:8.1f}" for each in calls)
    print(f"{problem.name:28}{firsts}   " + ", ".join(f"{name} {took * 1e3:.1f}" for name, took in parts.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", type=int, nargs="*", default=[4, 4096, 1 << 20], help="elements of a tensor")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--best", action="store_true", help="minima in place of medians, for a busy machine")
    parser.add_argument("--seconds", type=float, default=0.2, help="about so long for one line")
    parser.add_argument("--only", default="", help="problems whose names have this")
    parser.add_argument("--no-models", action="store_true")
    parser.add_argument("--torch-compile", action="store_true", help="torch.compile too, which takes long")
    parser.add_argument("--growth", action="store_true", help="only compile times of equal layers, and the library")
    parser.add_argument("--memory", action="store_true", help="only the peak of memory")
    parser.add_argument("--cold", action="store_true", help="only first results")
    parser.add_argument("--first", nargs=2, metavar=("NAME", "WAY"), help="only the first result of one model")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    saker.set_logs("")
    if options.first:
        torch.set_num_threads(options.threads[0])
        return _first_result(*options.first)
    status, load = _C.code_status(), os.getloadavg()[0]
    print(f"torch {torch.__version__}, code for {status['target']}, {os.cpu_count()} cores, load {load:.1f}")
    torch.set_num_threads(options.threads[0])
    if options.growth or options.memory or options.cold:
        return _growth() if options.growth else _memory(options) if options.memory else _cold(options)
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
            if numbers:
                _copy(numbers, options)
            times = []
            for problem in functions(numbers) if numbers else models():
                if options.only in problem.name:
                    times.append(_row(problem, options))
            slower += sum(each["native"] > _SLOWER * each["eager"] for each in times)
            for than in [name for name in names if name != "native"]:
                ratios = [each["native"] / each[than] for each in times]
                print(f"native against {than}: geometric mean {_mean(ratios)}, worst {max(ratios, default=0):.2f}")
    print(f"\n{slower} lines are slower than eager mode by more than 3 %; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
