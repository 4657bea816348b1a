"""What the benchmarks of GPT-2 share: the problem, their options, clocks and tables."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python" / "helpers"))
import zoo

WIDTH, HEADS, VOCABULARY = 128, 4, 256


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


@dataclass
class Stopwatch:
    repeats: int
    clock: Callable[[], float]  # seconds

    def once(self, fn: Callable[[], Any]) -> float:
        start = self.clock()
        fn()
        return self.clock() - start

    def median(self, fn: Callable[[], Any]) -> float:
        """Seconds, after a run to warm up."""
        fn()
        return statistics.median(self.once(fn) for _ in range(self.repeats))

    def together(self, steps: dict[str, Callable[[], Any]]) -> dict[str, float]:
        """Medians, taken in turns, so that whatever disturbs them disturbs all."""
        times: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(self.repeats):
            for name, step in steps.items():
                times[name].append(self.once(step))
        return {name: statistics.median(taken) for name, taken in times.items()}


def parser_of(doc: str | None, repeats: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--cpu-time", action="store_true", help="processor time, for a machine that is busy otherwise")
    return parser


def prepare(options: argparse.Namespace) -> Stopwatch:
    """One thread, no noise, and a clock."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)  # the tensors are small: threads would only wait for each other
    torch.manual_seed(0)
    return Stopwatch(options.repeats, time.process_time if options.cpu_time else time.perf_counter)


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def mebibytes(count: float) -> str:
    return f"{count / 2**20:.2f} MiB"


def row(name: str, *cells: str, width: int = 44) -> None:
    print(f"  {name:<{width}}" + "".join(f"{cell:>16}" for cell in cells))
