"""What ahead-of-time autograd costs, beside eager mode and PyTorch's own with a compiler that does nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import saker


def best_of(call: Callable[[], Any], rounds: int = 15, calls: int = 400) -> float:
    """Microseconds a call, of the best round."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return min(times)


def bench_small_call() -> None:
    """One operator on 16 elements: all that is measured is what a call costs."""
    from functorch.compile import aot_function, nop

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    x = torch.randn(16, requires_grad=True)
    tangent = torch.ones(16)
    ways = {"eager": fn, "saker": saker.aot_function(fn), "torch": aot_function(fn, nop)}
    forward, both = {}, {}
    for name, way in ways.items():
        way(x).backward(tangent)
        forward[name] = best_of(lambda way=way: way(x))
        both[name] = best_of(lambda way=way: torch.autograd.grad(way(x), x, tangent))
    print("x.sin() with gradient, 16 elements, microseconds a call")
    for title, figures in (("forward", forward), ("forward and backward", both)):
        row = "  ".join(f"{name} {figure:6.2f}" for name, figure in figures.items())
        print(f"  {title:22} {row}   saker/torch {figures['saker'] / figures['torch']:.2f}")


def main() -> None:
    torch.set_num_threads(1)
    bench_small_call()


if __name__ == "__main__":
    main()
