"""The main job of Saker: a GPT-2 through ``saker.compile``, in inference and in training, beside eager mode.

    make demo
    .venv/bin/python examples/demo.py --torch-compile [--layers 12]    # beside torch.compile too, which takes a while

The model is written here in plain PyTorch, small and with random weights. Each way to run it gets a copy of its own;
printed are the time to the first result, the time of a later call, and whether results are those of eager mode.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import saker

VOCABULARY, WIDTH, HEADS, BATCH, LENGTH = 1000, 128, 4, 2, 32


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.merge = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU("tanh"), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = [
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.before_attention(x)).chunk(3, -1)
        ]
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.merge(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.before_mlp(x))


class GPT2(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.dropout, self.norm = nn.Dropout(0.1), nn.LayerNorm(WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.dropout(self.tokens(ids) + self.positions(torch.arange(ids.shape[1])))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.t()


Compiler = Callable[[nn.Module], Callable[[torch.Tensor], torch.Tensor]]


def inference(model: nn.Module, compiler: Compiler, ids: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
    run = compiler(model.eval())

    def call() -> list[torch.Tensor]:
        with torch.no_grad():
            return [run(ids)]

    return call


def training(model: nn.Module, compiler: Compiler, ids: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
    """One step: forward with dropout, backward, AdamW. It gives the loss and the parameters."""
    run = compiler(model.train())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step() -> list[torch.Tensor]:
        optimizer.zero_grad()
        loss = F.cross_entropy(run(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return [loss.detach(), *(parameter.detach() for parameter in model.parameters())]

    return step


def measure(call: Callable[[], list[torch.Tensor]], repeats: int) -> tuple[float, float, list[torch.Tensor]]:
    """Milliseconds to the first result, milliseconds of a later call, what the last call gave."""
    torch.manual_seed(0)  # the same dropout for all
    times = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        result = call()
        times.append((time.perf_counter() - start) * 1e3)
    return times[0], statistics.median(times[1:]), result


def equality(results: list[torch.Tensor], expected: list[torch.Tensor]) -> str:
    pairs = list(zip(results, expected, strict=True))
    if all(torch.equal(a, b) for a, b in pairs):
        return "equal, bit by bit"
    return f"differs by up to {max((a - b).abs().max().item() for a, b in pairs):.1e}"


def compare(title: str, job: Callable[..., Any], model: nn.Module, ids: torch.Tensor, with_torch: bool) -> None:
    print(f"\n--- {title}\n{'':<16}{'first result':>14}{'later call':>14}   against eager mode")
    compilers: dict[str, Compiler] = {"eager mode": lambda module: module, "saker.compile": saker.compile}
    if with_torch:
        compilers["torch.compile"] = torch.compile
    job(copy.deepcopy(model), compilers["eager mode"], ids)()  # PyTorch's own first time is nobody's
    measured = {name: measure(job(copy.deepcopy(model), compilers[name], ids), repeats=30) for name in compilers}
    _, eager, expected = measured["eager mode"]
    for name, (first, later, results) in measured.items():
        verdict = "" if results is expected else f"{eager / later:.2f} times as fast, {equality(results, expected)}"
        print(f"{name:<16}{first:>11.1f} ms{later:>11.2f} ms   {verdict}".rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description="A GPT-2 through saker.compile, beside eager mode.")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--torch-compile", action="store_true", help="run it through torch.compile too")
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = GPT2(options.layers)
    ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
    size = f"{options.layers} layers of width {WIDTH}, batch {BATCH} x {LENGTH}"
    print(f"GPT-2, {size}, one thread, torch {torch.__version__}", flush=True)

    compare("inference", inference, model, ids, options.torch_compile)
    compare("training: forward, backward, AdamW", training, model, ids, options.torch_compile)
    if options.torch_compile:
        print("(torch.compile draws other random numbers for dropout than eager mode, so its parameters differ)")

    print("\n--- what saker.explain(model)(ids) says of the forward in training, but for the guards themselves")
    print(str(saker.explain(model.train())(ids)).split("  guards on ")[0].rstrip())
    print(f"\ngraphs recorded: {saker.stats()['graphs']}, calls replayed: {saker.stats()['replays']}")


if __name__ == "__main__":
    main()
