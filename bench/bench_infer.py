"""How long inference takes: the operator calls of one GPT-2 training step, each replayed in a C++ loop.

    python bench/bench_infer.py [--layers 12] [--repeats 2000] [--worst 8]

Static sizes: inference on arguments that are converted already, and with the conversion from PyTorch's values.
Symbolic sizes: batch and sequence length are symbols. Meta kernels: what PyTorch's own inference takes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import saker
from saker import _C

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python" / "helpers"))
from symbolic_calls import BATCH, LENGTH, symbolic_call


class Recorder(TorchDispatchMode):
    """Collects calls: each different one once, with the number of times it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, tuple[torch._ops.OpOverload, tuple, dict]] = {}
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.namespace != "profiler":
            text = _C.call_text(func, args, kwargs)
            self.counts[text] += 1
            if text not in self.calls:
                self.calls[text] = (func, args, kwargs)
        return func(*args, **kwargs)


def training_step(layers: int) -> Callable[[], None]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=128, n_positions=64, n_embd=48, n_layer=layers, n_head=4, bos_token_id=0, eos_token_id=1
    )
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    ids = torch.randint(0, 128, (BATCH, LENGTH))

    def step() -> None:
        optimizer.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()

    return step


def summary(name: str, times: dict[str, float], counts: Counter[str], worst: int) -> None:
    """`times` in nanoseconds by call."""
    weighted = sorted(t for text, t in times.items() for _ in range(counts[text]))
    if not weighted:
        print(f"{name}: nothing to measure")
        return
    p90 = weighted[int(len(weighted) * 0.9)]
    median = statistics.median(weighted)
    total = sum(weighted)
    print(
        f"{name}: median {median / 1e3:.2f} us, p90 {p90 / 1e3:.2f} us, all {len(weighted)} calls {total / 1e6:.2f} ms"
    )
    for text in sorted(times, key=times.get, reverse=True)[:worst]:
        short = text if len(text) < 100 else text[:97] + "..."
        print(f"    {times[text] / 1e3:8.2f} us  {short}")


def measure(calls: dict, repeats: int, with_conversion: bool) -> dict[str, float]:
    times = {}
    for text, (func, args, kwargs) in calls.items():
        try:
            times[text] = min(_C.time_infer(func, args, kwargs, repeats, with_conversion) for _ in range(3))
        except (saker.Refusal, ValueError):
            continue
    return times


def measure_meta(calls: dict) -> dict[str, float]:
    """PyTorch's own inference: the operator called on meta tensors, from Python."""
    times = {}
    for text, (func, args, kwargs) in calls.items():
        meta_args, meta_kwargs = tree_map(lambda x: x.to("meta") if isinstance(x, torch.Tensor) else x, (args, kwargs))
        try:
            func(*meta_args, **meta_kwargs)
            start = time.perf_counter_ns()
            for _ in range(3):
                func(*meta_args, **meta_kwargs)
            times[text] = (time.perf_counter_ns() - start) / 3
        except Exception:
            continue
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--worst", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    step = training_step(options.layers)
    step()
    recorder = Recorder()
    with recorder:
        step()
    calls, counts = recorder.calls, recorder.counts
    table = {text: call for text, call in calls.items() if _C.has_entry(call[0])}
    missing: Counter[str] = Counter()
    for text, call in calls.items():
        if text not in table:
            missing[call[0].name()] += counts[text]
    print(f"GPT-2, {options.layers} layers, forward + backward + AdamW")
    print(f"{sum(counts.values())} calls, {len(calls)} of them different")
    print(f"without an entry: {sum(missing.values())} calls of {len(missing)} operators")
    summary("static, inference alone", measure(table, options.repeats, False), counts, options.worst)
    summary("static, with conversion", measure(table, options.repeats, True), counts, 0)
    symbolic = {text: made[:3] for text, call in table.items() if (made := symbolic_call(*call)) is not None}
    summary("symbolic, inference alone", measure(symbolic, options.repeats, False), counts, options.worst)
    summary("symbolic, with conversion", measure(symbolic, options.repeats, True), counts, 0)
    summary("meta kernels, from Python", measure_meta(table), counts, 0)


if __name__ == "__main__":
    main()
