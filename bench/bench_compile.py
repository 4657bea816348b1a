"""saker.compile beside torch.compile(backend="eager"), in one process: the first result, small calls, guards.

    python bench/bench_compile.py [--instances 3] [--layers 12] [--repeats 300] [--without-torch]

Compile time is the first call of a fresh instance less a later call, the median over instances. Both front ends run the
recorded operators as they are ("eager"); Saker also with ahead-of-time autograd ("native", its default). One thread.
"""

from __future__ import annotations

import argparse
import inspect
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

import saker

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python" / "helpers"))
import zoo

Compiler = Callable[[Any], Any]
COMPILERS: dict[str, Compiler] = {
    "saker, native": lambda fn: saker.compile(fn, fullgraph=True),
    "saker, eager": lambda fn: saker.compile(fn, fullgraph=True, backend="eager"),
    "torch, eager": lambda fn: torch.compile(fn, fullgraph=True, backend="eager"),
}


def row(name: str, *cells: str) -> None:
    print(f"  {name:<44}" + "".join(f"{cell:>16}" for cell in cells))


def seconds(fn: Callable[[], Any]) -> float:
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


def median(fn: Callable[[], Any], repeats: int) -> float:
    """Seconds, after some calls to warm up."""
    for _ in range(3):
        fn()
    return statistics.median(seconds(fn) for _ in range(repeats))


def language_model(kind: str, layers: int) -> tuple[nn.Module, torch.Tensor]:
    if kind == "GPT-2":
        module = zoo.gpt2(layers=layers, width=128, heads=4, vocabulary=256, positions=64).module
    else:
        config = transformers.LlamaConfig(**{**zoo.DECODER, "num_hidden_layers": layers})
        module = transformers.LlamaForCausalLM(config)
    return module.eval(), zoo.tokens(2, 16)


def first_call(kind: str, layers: int, compiler: Compiler, training: bool) -> tuple[float, float, float]:
    """Seconds of the first call and of a later one, and of an uncompiled one."""
    torch._dynamo.reset()
    module, ids = language_model(kind, layers)

    def loss() -> torch.Tensor:
        return module(input_ids=ids, use_cache=False).logits.square().mean()

    with torch.set_grad_enabled(training):
        plain = median(loss, 5)
        expected = loss()
        compiled = compiler(loss)
        first = seconds(compiled)
        later = median(compiled, 5)
        torch.testing.assert_close(compiled(), expected)
    return first, later, plain


def compile_times(layers: int, instances: int, compilers: dict[str, Compiler]) -> None:
    problems = [(kind, training) for kind in ("GPT-2", "Llama") for training in (False, True)]
    runs = {}
    # torch.compile comes last: it patches nn.Module when first used.
    for name, compiler in compilers.items():
        for kind, training in problems:
            first_call(kind, 1, compiler, training)  # imports and tables of either side
            runs[name, kind, training] = [first_call(kind, layers, compiler, training) for _ in range(instances)]
    for kind, training in problems:
        print(f"{kind}, {layers} layers, forward {'with' if training else 'without'} autograd: compile time")
        row("", "first call", "later call", "compile time", "against saker")
        ours = 0.0
        for name in compilers:
            each = runs[name, kind, training]
            first, later, plain = (statistics.median(run[i] for run in each) for i in range(3))
            took = statistics.median(run[0] - run[1] for run in each)
            ours = ours or took
            row(name, *(f"{t * 1e3:.1f} ms" for t in (first, later, took)), f"{took / ours:.1f}")
        row("not compiled", "", f"{plain * 1e3:.1f} ms")


def small_calls(repeats: int, compilers: dict[str, Compiler]) -> None:
    print("a call of sin(x) + 1 on four numbers")
    row("", "time", "against eager")
    x = torch.randn(4)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + 1

    eager = median(lambda: fn(x), repeats * 10)
    row("not compiled", f"{eager * 1e6:.2f} us", "1")
    for name, compiler in compilers.items():
        compiled = compiler(fn)
        took = median(lambda compiled=compiled: compiled(x), repeats * 10)
        row(name, f"{took * 1e6:.2f} us", f"{took / eager:.2f}")


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(torch.relu(self.first(self.norm(x))))


def guards(layers: int, repeats: int, compilers: dict[str, Compiler]) -> None:
    module = nn.Sequential(*(Block(4) for _ in range(layers))).eval()
    count = len(list(module.parameters()))
    x = torch.randn(2, 4)
    print(f"guards and arguments of {layers} layers, {count} parameters, without autograd")
    row("", "call", "check of guards", "a parameter", "against saker")
    ours = 0.0
    with torch.no_grad():
        row("not compiled", f"{median(lambda: module(x), repeats) * 1e6:.0f} us")
        for name, compiler in compilers.items():
            torch._dynamo.reset()
            compiled = compiler(module)
            call = median(lambda compiled=compiled: compiled(x), repeats)
            check = None
            if name.startswith("saker"):
                check = statistics.median(saker._C.time_guards(compiled._compiled, (x,), 100) for _ in range(repeats))
            else:
                check = torch_guards(compiled, x, repeats)
            cells = [f"{call * 1e6:.0f} us"]
            if check is not None:
                ours = ours or check
                cells += [f"{check * 1e6:.2f} us", f"{check / count * 1e9:.1f} ns", f"{check / ours:.1f}"]
            row(name, *cells)


def torch_guards(compiled: Any, x: torch.Tensor, repeats: int) -> float | None:
    """torch.compile's own check of the same call, as its cache entries expose it."""
    from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list

    entered = compiled.forward.__wrapped__  # the function whose frames it looks for
    entries = _debug_get_cache_entry_list(entered.__code__)
    if not entries:
        return None
    check = entries[0].guard_manager.check
    scope = {**inspect.getclosurevars(entered).nonlocals, "args": (x,), "kwargs": {}}
    if not check(scope):
        return None
    return median(lambda: check(scope), repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--without-torch", action="store_true", help="leave torch.compile out, which takes long")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    compilers = {n: c for n, c in COMPILERS.items() if not (options.without_torch and n.startswith("torch"))}
    compile_times(options.layers, options.instances, compilers)
    small_calls(options.repeats, compilers)
    guards(64, options.repeats, compilers)


if __name__ == "__main__":
    main()
