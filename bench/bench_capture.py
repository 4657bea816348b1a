"""How long capturing takes: GPT-2, forward and the gradients of all parameters, made functional; and a deferred step.

    python bench/bench_capture.py [--layers 12] [--batch 4] [--length 64] [--repeats 5] [--without-aot] [--cpu-time]

The rival is PyTorch's own way to such a graph, aot_export_joint_simple on the same forward in the same process; both
get the parameters as arguments. Times are medians after a run to warm up. The width of the model plays no role: nothing
is computed. One thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import gpt2
import saker
from gpt2 import HEADS, VOCABULARY, WIDTH, Stopwatch, milliseconds, row


class Problem(gpt2.Problem):
    """And its gradients, and graphs of both."""

    def joint(self, ids: torch.Tensor, *parameters: torch.Tensor) -> tuple[torch.Tensor, ...]:
        loss = self.loss(ids, *parameters)
        return loss, *torch.autograd.grad(loss, parameters)

    def capture(self, **options: Any) -> saker.Graph:
        return saker.capture(self.joint, self.ids, *self.parameters, **options)

    def aot(self) -> torch.fx.GraphModule:
        from torch._functorch.aot_autograd import aot_export_joint_simple

        def loss(*args: torch.Tensor) -> tuple[torch.Tensor]:
            return (self.loss(*args),)

        return aot_export_joint_simple(loss, (self.ids, *self.parameters), trace_joint=True)


def per_node(watch: Stopwatch, batch: int, length: int) -> None:
    print("growth with the number of layers, made functional")
    row("layers", "operators", "time", "us/operator", "us/added one")
    before, operators = 0.0, 0
    for layers in (1, 4, 16, 64):
        problem = Problem(layers, batch, length)
        count, whole = len(problem.capture()), watch.median(lambda: problem.capture().functional())
        each, added = whole / count * 1e6, (whole - before) / (count - operators) * 1e6
        row(str(layers), str(count), milliseconds(whole), f"{each:.1f}", f"{added:.1f}" if operators else "")
        before, operators = whole, count


def one_step(problem: Problem) -> Callable[[], None]:
    problem.model.train()
    optimizer = torch.optim.AdamW(problem.model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        problem.model(input_ids=problem.ids, labels=problem.ids).loss.backward()
        optimizer.step()

    return step


def deferred_step(watch: Stopwatch, batch: int, length: int) -> None:
    print("a training step (forward, backward, AdamW), 12 layers: eager and deferred")
    row("batch x length", "eager", "deferred", "ratio", "flushes")
    counts = {}
    for rows, columns in ((2, 8), (batch, length)):
        step = one_step(Problem(12, rows, columns))

        def deferred() -> None:
            with saker.deferred() as block:
                step()
            counts.update(block.stats())

        eager, later = watch.median(step), watch.median(deferred)
        ratio = f"{later / eager:.2f}"
        row(f"{rows} x {columns}", milliseconds(eager), milliseconds(later), ratio, str(counts["flushes"]))


def main() -> None:
    parser = gpt2.parser_of(__doc__, repeats=5)
    parser.add_argument("--without-aot", action="store_true", help="leave PyTorch's export out, which takes long")
    options = parser.parse_args()
    watch = gpt2.prepare(options)
    problem = Problem(options.layers, options.batch, options.length)
    graph = problem.capture()
    functional = graph.functional()
    expected = problem.joint(problem.ids, *problem.parameters)
    for made in (graph, functional):
        torch.testing.assert_close(made(problem.ids, *problem.parameters), expected)

    print(
        f"GPT-2, {options.layers} layers, width {WIDTH}, {HEADS} heads, {VOCABULARY} tokens, "
        f"batch {options.batch} x {options.length}: forward and the gradients of {len(problem.parameters)} parameters"
    )
    print(
        f"{len(graph)} operators ({len(functional)} functional), {graph.stats['fallbacks']} on the meta fallback; "
        "results equal eager mode's"
    )
    eager = watch.median(lambda: problem.joint(problem.ids, *problem.parameters))
    tiny = Problem(options.layers, 2, 2)
    python = watch.median(lambda: tiny.joint(tiny.ids, *tiny.parameters))
    record = watch.median(problem.capture)
    whole = watch.median(lambda: problem.capture().functional())
    sizes = {0: {0: "batch", 1: "length"}}
    dynamic = watch.median(lambda: problem.capture(dynamic=sizes).functional())
    guards = problem.capture(dynamic=sizes).guards
    row("", "time", "against saker")
    row("saker.capture", milliseconds(record), f"{record / whole:.2f}")
    row("saker.capture, made functional", milliseconds(whole), "1")
    row("the same, batch and length dynamic", milliseconds(dynamic), f"{dynamic / whole:.2f}")
    row("eager, batch 2 x 2 (the cost of the Python)", milliseconds(python), f"{python / whole:.2f}")
    row("eager", milliseconds(eager), f"{eager / whole:.2f}")
    if not options.without_aot:
        aot = watch.median(problem.aot)
        row("aot_export_joint_simple", milliseconds(aot), f"{aot / whole:.1f}")
    print(f"guards of the dynamic graph: {', '.join(guards) or 'none'}")
    per_node(watch, options.batch, options.length)
    deferred_step(watch, options.batch, options.length)


if __name__ == "__main__":
    main()
