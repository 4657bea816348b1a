"""Random programs as text: what people write around tensors (state, containers, closures, modes, exceptions, views,
writes, random numbers, numpy, prints), run several times with sizes and numbers that change. All that is seen of each
call is noted; with Saker it must be the same as in eager mode.

python tests/python/helpers/attack_programs.py --programs 1000 --seed 0 --way dynamic"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch

import saker
from attack_statements import BLOCKS, FULL, HEADER, PURE, RAISES
from random_runs import tell_differences


class Writer:
    """The text of a program."""

    def __init__(self, rng: random.Random, full: bool) -> None:
        self.rng, self.full, self.lines, self.made = rng, full, [], 0
        self.known = ["x", "y", "z"] if full else ["x", "y"]

    def statement(self, indent: str) -> None:
        rng = self.rng
        table = PURE + FULL if self.full else PURE
        code = rng.choices([c for _, c in table], [w for w, _ in table])[0]
        name = f"v{self.made}"
        self.made += 1
        latest = self.known[-4:]
        a, b = rng.choice(latest + self.known), rng.choice(self.known)
        self.lines.append(indent + code.format(a=a, b=b, v=name))
        if "{v} =" in code:
            self.known.append(name)

    def block(self, indent: str, depth: int) -> None:
        rng = self.rng
        head = rng.choice(BLOCKS)
        before = list(self.known)
        self.lines.append(indent + head)
        inside = indent + "    "
        for _ in range(rng.randint(1, 3)):
            self.part(inside, depth - 1)
        if head == "try:":
            if rng.random() < 0.6:
                self.lines.append(inside + rng.choice(RAISES))
            if rng.random() < 0.8:
                caught = rng.choice(
                    ["Failure", "Exception", "(ValueError, RuntimeError)", "(AssertionError, KeyError)"]
                )
                self.lines.append(indent + f"except {caught} as error:")
                self.lines.append(inside + "note.append(type(error).__name__)")
                if rng.random() < 0.5:
                    self.lines.append(indent + "finally:")
                    self.lines.append(inside + "world.step += 1")
            else:
                self.lines.append(indent + "finally:")
                self.lines.append(inside + "world.step += 1")
        elif head.startswith("def"):
            self.lines.append(inside + f"return t * q + {self.known[-1]}")
            self.known = before
            name = f"v{self.made}"
            self.made += 1
            self.lines.append(indent + f"{name} = body({rng.choice(before)})")
            self.known.append(name)
            return
        inner = [each for each in self.known if each not in before]
        self.known = before
        if inner and head.startswith("with"):
            self.known.append(inner[-1])  # it is there behind the block

    def part(self, indent: str, depth: int) -> None:
        if self.full and depth > 0 and self.rng.random() < 0.12:
            self.block(indent, depth)
        elif self.full and self.rng.random() < 0.01:
            self.lines.append(indent + self.rng.choice(RAISES))
        else:
            self.statement(indent)

    def result(self) -> str:
        rng, known = self.rng, self.known
        picked = [rng.choice(known[-5:] + known) for _ in range(rng.randint(1, 3))]
        if not self.full:
            return f"({', '.join(picked)},)"
        forms = [
            lambda p: p[0],
            lambda p: f"({', '.join(p)},)",
            lambda p: f"[{', '.join(p)}]",
            lambda p: "{" + ", ".join(f"'r{i}': {n}" for i, n in enumerate(p)) + "}",
            lambda p: f"Data({p[0]}, [{', '.join(p)}])",
            lambda p: f"Named({p[0]}, {p[-1]})",
            lambda p: f"({p[0]}, None, k, s, {p[0]}.shape, note)",
            lambda p: f"({p[0]}, {p[0]}.view_as({p[0]}), {p[0]}.detach())",
            lambda p: f"(x, {p[0]}, world.count)",
            lambda p: f"({p[0]}, world.memo)",
            lambda p: f"({p[0]}, world.run, world.last)",
            lambda p: f"({p[0]}, lambda t: t + {p[0]})",
        ]
        return rng.choice(forms)(picked)


def text(seed: int, full: bool) -> str:
    rng = random.Random(seed)
    writer = Writer(rng, full)
    for _ in range(rng.randint(2, 9)):
        writer.part("    ", 2)
    head = "def main(world, x, y, z, k, s, flag, note):\n" if full else "def main(x, y):\n"
    return head + "\n".join(writer.lines) + f"\n    return {writer.result()}\n"


def shown(value: Any, ids: dict[int, int], depth: int = 0) -> Any:
    """A value as plain objects; tensors by all that can be seen, and which of them are one."""
    if isinstance(value, torch.Tensor):
        first = ids.setdefault(id(value), len(ids))
        plain = value.detach()
        bits = (
            plain.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8).tolist() if plain.numel() else []
        )
        return (
            "tensor", first, str(value.dtype), tuple(value.shape), value.stride(), value.storage_offset(),
            value.requires_grad, value.is_leaf, value.is_inference(), value._is_view(),
            None if value.is_inference() else value._version, type(value).__name__,
            hash(tuple(bits)), plain.reshape(-1)[:4].tolist(),
        )  # fmt: skip
    if depth > 4 or value is None or isinstance(value, (int, float, str, bool, torch.Size)):
        return repr(value)
    if isinstance(value, dict):
        return ("dict", [(k, shown(v, ids, depth + 1)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [shown(v, ids, depth + 1) for v in value])
    if hasattr(value, "first"):
        return ("Data", shown(value.first, ids, depth + 1), shown(value.second, ids, depth + 1))
    if callable(value):
        return ("function", shown(value(torch.ones(())), ids, depth + 1))
    return type(value).__name__


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for each in value.values() for t in tensors(each)]
    if isinstance(value, (list, tuple)):
        return [t for each in value for t in tensors(each)]
    return tensors([value.first, value.second]) if hasattr(value, "first") else []


ORDER = (0, 0, 1, 0, 2, 1, 0)  # of what changes between calls, where it does


class Run:
    """What a caller sees of the calls of one program, in a world of its own."""

    def __init__(self, seed: int, source: str, way: str) -> None:
        self.rng, self.seed, self.way, self.log = random.Random(seed + 1), seed, way, []
        module = sys.modules["attacked"] = types.ModuleType("attacked")
        self.globals = module.__dict__
        file = f"<program {seed}>"
        exec(compile(HEADER + source, file, "exec"), self.globals)
        torch.manual_seed(seed)
        random.seed(seed)
        self.world = self.globals["World"]()

    def inputs(self, rows: int, columns: int) -> list[torch.Tensor]:
        rng, made = self.kind, []
        for _ in range(2):
            how = rng.randrange(6)
            if how == 0:
                t = torch.randn(columns, rows).t()
            elif how == 1:
                t = torch.randn(rows + 1, columns)[1:]
            else:
                t = torch.randn(rows, columns)
            if rng.random() < 0.5:
                t.requires_grad_()
                if rng.random() < 0.3:
                    t = t * 1.0
            made.append(t)
        if rng.random() < 0.1:
            made[1] = made[0]
        elif rng.random() < 0.1:
            made[1] = made[0].view_as(made[0])
        return made

    def calls(self, function: Callable) -> list[Any]:
        rng, full = self.rng, self.way != "aot"
        inputs_seed = rng.random()

        def changing(likely: float, *values: Any) -> list[Any]:
            return [values[at] for at in ORDER] if full and rng.random() < likely else [values[0]] * len(ORDER)

        sizes = changing(0.4, (3, 4), (5, 4), (5, 6))
        counts, rates, flags = changing(0.2, 3, 4, 5), changing(0.3, 0.5, 0.75, 0.9), changing(0.2, True, False, True)
        for (rows, columns), k, s, flag in zip(sizes, counts, rates, flags, strict=True):
            self.kind = random.Random(inputs_seed)
            x, y = self.inputs(rows, columns)
            note: list[Any] = []
            given = [self.world, x, y, torch.randn(()), k, s, flag, note] if full else [x, y]
            self.one(function, given, note)
        return self.log

    def one(self, function: Callable, given: list[Any], note: list[Any]) -> None:
        log, ids = self.log, {}
        x, y = (t for t in given if isinstance(t, torch.Tensor) and t.dim() == 2)
        out = io.StringIO()
        result = None
        with contextlib.redirect_stdout(out):
            try:
                result = function(*given)
                log.append(("result", shown(result, ids)))
            except Exception as error:
                log.append(("raised", type(error).__name__, str(error)[:200]))
        log.append(("args", shown([x, y], ids), torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        made = [t for t in tensors(result) if t.requires_grad and t.is_floating_point()]
        try:
            if made and self.kind.random() < 0.2:
                leaves = [t for t in (x, y) if t.requires_grad]
                if leaves:
                    first = torch.autograd.grad(
                        sum(t.sum() for t in made), leaves, create_graph=True, allow_unused=True
                    )
                    log.append(("first", shown(list(first), {})))
                    made = [t for t in first if t is not None and t.requires_grad]
            elif made and self.kind.random() < 0.2:
                with torch.no_grad():
                    made[0].mul_(2)
            if made:
                sum((t * t).sum() for t in made).backward()
        except Exception as error:
            log.append(("backward", type(error).__name__, str(error)[:200]))
        log.append(("grads", shown([t.grad if t.is_leaf else None for t in (x, y)], {})))
        world = self.world
        state = [dict(world.named_parameters()), dict(world.named_buffers()), world.step, world.rate, world.seen]
        log.append(("world", shown([*state, world.memo, world.last, world.inner.calls, note], ids)))
        log.append(("world grads", shown([p.grad for p in world.parameters()], {})))
        log.append(("out", out.getvalue(), random.random(), torch.rand(1).item(), self.globals["GLOBAL"]))


def wrapped(function: Callable, way: str) -> Callable:
    if way == "deferred":

        def call(*args: Any) -> Any:
            with saker.deferred():
                return function(*args)

        return call
    if way == "aot":
        return saker.aot_function(function)
    options: dict[str, dict[str, Any]] = {"dynamic": {"dynamic": True}, "eager": {"backend": "eager"}}
    return saker.compile(function, **options.get(way, {}))


WAYS = ["compile", "dynamic", "eager", "aot", "deferred"]


def difference(seed: int, way: str) -> str | None:
    """What is seen first that is not as in eager mode, with the program; None: nothing."""
    source = text(seed, full=way != "aot")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = Run(seed, source, way)
        expected = run.calls(run.globals["main"])
        run = Run(seed, source, way)
        found = run.calls(wrapped(run.globals["main"], way))
    for i, (one, other) in enumerate(zip(expected, found, strict=False)):
        if repr(one) != repr(other):
            return f"seed {seed}, {way}, entry {i}:\n  eager {one}\n  saker {other}\n{source}"
    return None if len(expected) == len(found) else f"seed {seed}, {way}: {len(expected)} entries, {len(found)}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--way", choices=WAYS, default="compile")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    saker.set_logs("")

    def found(seed: int) -> str | None:
        try:
            return difference(seed, asked.way)
        finally:
            saker.reset()

    failed = tell_differences(range(asked.seed, asked.seed + asked.programs), found)
    stats = saker.stats()
    print(f"{asked.programs} programs, {failed} differ; {stats['replays']} replays, {stats['fallbacks']} fallbacks")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
