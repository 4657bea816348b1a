"""A training loop whose batch and length change at every step, on a small language model: Saker beside eager mode.

The sizes come round, so that nothing is recorded while it is timed; the number of recordings is printed beside.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

import saker


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.first(x)).split(d, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Model(nn.Module):
    def __init__(self, width: int = 64, layers: int = 4, words: int = 256) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(256, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids[:, :-1])
        x = x + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), ids[:, 1:].flatten())


def epoch(call, model: nn.Module, batches: list[torch.Tensor]) -> float:
    """Seconds of a step: loss and gradients."""
    start = time.perf_counter()
    for ids in batches:
        call(ids).backward()
        model.zero_grad()
    return (time.perf_counter() - start) / len(batches)


def measure(width: int, rounds: int) -> None:
    torch.manual_seed(0)
    eager = Model(width)
    model = copy.deepcopy(eager)
    compiled = saker.compile(model)
    batches = [torch.randint(0, 256, (2 + i % 3, 5 + 7 * i % 24)) for i in range(24)]
    saker.reset(counts=True)
    for ids in batches:
        losses = [call(ids) for call in (eager, compiled)]
        torch.testing.assert_close(*losses)
        for loss in losses:
            loss.backward()
    for p, q in zip(eager.parameters(), model.parameters(), strict=False):
        torch.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=1e-5)
    counts = saker.stats()
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(epoch(compiled, model, batches))
        theirs.append(epoch(eager, eager, batches))
    a, b = statistics.median(ours) * 1e3, statistics.median(theirs) * 1e3
    print(
        f"  width {width:3}: eager {b:.2f} ms a step, Saker {a:.2f} ms: {b / a:.2f} times as fast; "
        f"{counts['graphs']} recordings"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--widths", type=int, nargs="*", default=[16, 32, 64])
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("\ntraining steps of changing sizes (4 layers, batches of 2 to 4 by 5 to 28 tokens, one thread)")
    for width in options.widths:
        measure(width, options.rounds)


if __name__ == "__main__":
    main()
