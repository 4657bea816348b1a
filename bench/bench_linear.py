"""How the time of a compiled training call grows with the number of parameters: every column should be flat.

    python bench/bench_linear.py [blocks ...]

Blocks of four tensors each; microseconds for one tensor, beside eager mode's.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

import torch

import saker

WIDTH = 4


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.linear = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.linear(self.norm(x))


def best(run: Callable[[], float], rounds: int = 5) -> float:
    run()
    return min(run() for _ in range(rounds))


def measure(model: torch.nn.Module, call: Callable, x: torch.Tensor) -> tuple[float, float]:
    """Seconds of processor time of the forward, guards included, and of the backward."""

    def forward() -> float:
        start = time.process_time()
        call(x)
        return time.process_time() - start

    def backward() -> float:
        loss = call(x).sum()
        model.zero_grad(set_to_none=True)
        start = time.process_time()
        loss.backward()
        return time.process_time() - start

    return best(forward), best(backward)


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or [200, 400, 800, 1600]
    torch.set_num_threads(1)
    x = torch.randn(2, WIDTH)
    print("blocks  tensors   forward: eager  compiled   backward: eager  compiled   (microseconds for a tensor)")
    for count in counts:
        model = torch.nn.Sequential(*[Block() for _ in range(count)])
        tensors = 4 * count
        fast = saker.compile(model)
        fast(x)
        before = saker.stats()["replays"]
        gc.collect()
        gc.disable()
        eager, compiled = measure(model, model, x), measure(model, fast, x)
        gc.enable()
        note = "" if saker.stats()["replays"] > before else "  (not replayed)"
        scaled = [1e6 * seconds / tensors for seconds in (eager[0], compiled[0], eager[1], compiled[1])]
        print(
            f"{count:6} {tensors:8} {scaled[0]:16.2f} {scaled[1]:9.2f} {scaled[2]:17.2f} {scaled[3]:9.2f}{note}",
            flush=True,
        )


if __name__ == "__main__":
    main()
