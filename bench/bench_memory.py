"""Does memory stay flat? Two hundred thousand compiled calls and ten thousand compiles, and what the process holds.

    python bench/bench_memory.py [--calls 200000] [--compiles 10000] [--only NAME]

Resident memory is the system's count after a garbage collection; "objects" are what Python's collector tracks. A row
is flat if the second half of a run adds at most 2 bytes a call, or 200 bytes a compile; otherwise the process ends
with 1.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import saker

PAGE = 4096
TENTHS = 10


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 8)
        self.seen = 0
        self.history: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = (self.seen + 1) % 3
        hidden = F.dropout(F.relu(self.norm(self.first(x))), 0.1)
        self.history.append(hidden.detach())
        del self.history[:-2]
        return self.second(hidden) + x


# --- calls: each generator yields once a call ---


def inference() -> Iterator[None]:
    module = saker.compile(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)))
    x = torch.randn(4, 8)
    with torch.no_grad():
        while True:
            module(x)
            yield


def training() -> Iterator[None]:
    module = Block()
    compiled = saker.compile(module)
    x = torch.randn(4, 8)
    while True:
        module.zero_grad()
        compiled(x).sum().backward()
        yield


def changing_sizes() -> Iterator[None]:
    compiled = saker.compile(lambda x: (x * x.shape[0]).softmax(-1))
    inputs = [torch.randn(n, 8) for n in range(2, 12)]
    while True:
        for x in inputs:
            compiled(x)
            yield


def written() -> Iterator[None]:
    def fn(x: torch.Tensor, state: dict) -> torch.Tensor:
        state["last"] = x + 1
        x.mul_(0.5)
        return x.view(-1)[1:]

    compiled = saker.compile(fn)
    x, state = torch.randn(4, 8), {}
    while True:
        compiled(x, state)
        yield


def in_eager_mode() -> Iterator[None]:
    compiled = saker.compile(lambda x: x * 2 if x.sum() > 0 else x)
    x = torch.randn(4, 8)
    while True:
        compiled(x)
        yield


def raising() -> Iterator[None]:
    compiled = saker.compile(lambda table, index: table[index])
    table, good, bad = torch.randn(4, 8), torch.tensor([1, 2]), torch.tensor([1, 9])
    while True:
        compiled(table, good)
        yield
        try:
            compiled(table, bad)
        except IndexError:
            yield


def ahead_of_time() -> Iterator[None]:
    compiled = saker.aot_function(lambda x, w: (x @ w).relu().sum())
    x, w = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
    while True:
        compiled(x, w).backward()
        w.grad = None
        yield


def deferred() -> Iterator[None]:
    x = torch.randn(4, 8)
    while True:
        with saker.deferred():
            y = (x * 2).relu()
        y.sum().item()
        yield


# --- compiles ---


def functions() -> Iterator[None]:
    x = torch.randn(4, 8)
    while True:
        compiled = saker.compile(lambda x: (x + 1).relu() @ x.T)
        compiled(x)
        compiled(x)
        yield


def modules() -> Iterator[None]:
    x = torch.randn(4, 8)
    while True:
        compiled = saker.compile(Block())
        compiled(x).sum().backward()
        compiled(x).sum().backward()
        yield


def symbolic() -> Iterator[None]:
    x = torch.randn(4, 8)
    while True:
        compiled = saker.compile(lambda x: x.view(-1) * x.shape[0], dynamic=True)
        compiled(x)
        yield


def joint_graphs() -> Iterator[None]:
    x = torch.randn(4, 8, requires_grad=True)
    while True:
        saker.aot_function(lambda x: (x * 2).sin())(x).sum().backward()
        x.grad = None
        yield


def captures() -> Iterator[None]:
    x = torch.randn(4, 8)
    while True:
        saker.capture(lambda x: (x * 2).sin(), x)
        yield


CALLS = [inference, training, changing_sizes, written, in_eager_mode, raising, ahead_of_time, deferred]
COMPILES = [functions, modules, symbolic, joint_graphs, captures]


def run(name: str, steps: Iterator[None], count: int, allowed: float) -> bool:
    for _ in range(max(50, count // 20)):  # caches of PyTorch's and Python's fill
        next(steps)
    held = [resident()]
    objects = len(gc.get_objects())
    for _ in range(TENTHS):
        for _ in range(count // TENTHS):
            next(steps)
        held.append(resident())
    grown = (held[-1] - held[TENTHS // 2]) / (count / 2)
    flat = grown <= allowed
    marks = " ".join(f"{(each - held[0]) / 1024:7.0f}" for each in held[1:])
    print(
        f"  {name:<16}{count:>8}  {marks}  {grown:8.2f}{len(gc.get_objects()) - objects:>9}{'' if flat else '  GROWS'}",
        flush=True,
    )
    return flat


def table(title: str, makers: list[Callable[[], Iterator[None]]], count: int, allowed: float, only: str | None) -> bool:
    print(f"{title}; KiB more after each tenth; bytes a step in the second half; objects more")
    good = True
    for maker in makers:
        if only in (None, maker.__name__):
            good &= run(maker.__name__, maker(), count // len(makers), allowed)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--compiles", type=int, default=10_000)
    parser.add_argument("--only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    good = table("compiled calls", CALLS, options.calls, 2, options.only)
    good &= table("compiles", COMPILES, options.compiles, 200, options.only)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
