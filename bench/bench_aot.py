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


def bench_subclass_call() -> None:
    """A tensor made of two: the call takes it apart, and puts its result together."""
    from torch.testing._internal.two_tensor import TwoTensor

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sin() * y

    compiled = saker.aot_function(fn)
    print("x.sin() * y, x made of two tensors, microseconds a call")
    for title, grad in (("inference", False), ("training, forward", True)):
        x = TwoTensor(torch.randn(4, 4), torch.randn(4, 4)).requires_grad_(grad)
        y = torch.randn(4, 4)
        compiled(x, y)
        eager, ours = best_of(lambda x=x, y=y: fn(x, y), 15, 50), best_of(lambda x=x, y=y: compiled(x, y), 15, 50)
        print(f"  {title:22} eager {eager:6.2f}  saker {ours:6.2f}")


def bench_module_call() -> None:
    """Modules of which one layer is used: what is measured is finding parameters and what was compiled for them."""

    class Wide(torch.nn.Module):
        def __init__(self, layers: int) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(layers)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers[0](x)

    print("aot_module, microseconds a call by number of parameters")
    x = torch.randn(1, 2)
    with torch.no_grad():
        for layers in (50, 200, 800):
            compiled = saker.aot_module(Wide(layers))
            compiled(x)
            print(f"  {2 * layers:22} saker {best_of(lambda compiled=compiled: compiled(x), 15, 20):6.1f}")


def main() -> None:
    torch.set_num_threads(1)
    bench_small_call()
    bench_subclass_call()
    bench_module_call()


if __name__ == "__main__":
    main()
