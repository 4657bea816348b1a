"""Random nests of control flow and plain operators, compared with loops and branches of plain Python.

    PYTHONPATH=python:tests/python/helpers python tests/python/helpers/control_flow_programs.py 5000 [first seed]

A program maps a matrix, and a weight that its functions close over, to a matrix.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import torch

import saker
from control_flow import operators, reference

# (operators, matrix, what is closed over) -> matrix. Values stay between -2 and 2, so that nothing grows.
Program = Callable

class Doubling(torch.autograd.Function):
    """Not the derivative, so that it is seen whether this backward was used."""

    generate_vmap_rule = True

    @staticmethod
    def forward(v, c):
        return v.sin() * c

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        v, c = ctx.saved_tensors
        return gradient * v.cos() * c * 2, gradient * v.sin()


class Rounding(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(v):
        return (v * 4).round() / 4

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-1, 1)


PLAIN = [
    lambda v, c: (v @ c).sin(),
    lambda v, c: v * c.cos(),
    lambda v, c: (v + c).tanh(),
    lambda v, c: v.softmax(1) - c.sigmoid(),
    lambda v, c: torch.where(v > c, v, c * 0.5),
    lambda v, c: v.t().contiguous() * 0.9,
    lambda v, c: (v.sum(0, keepdim=True) * 0.3).expand(3, 3) + c * 0.1,
    lambda v, c: torch.cat([v[1:], c[:1]]).clamp(-1.5, 1.5),
    lambda v, c: v.detach() * 0.3 + (v * c).sin(),
    lambda v, c: (v.clone().mul_(0.5).add_(c * 0.2)).cos(),
    lambda v, c: torch.tanh(v.cumsum(1)) + c.amax() * 0.1,
]
FUNCTIONS = [
    lambda v, c: Doubling.apply(v, c),
    lambda v, c: Rounding.apply(v) * c,
    lambda v, c: Doubling.apply(v, Rounding.apply(c).tanh()),
]


def plain(rng: random.Random) -> Program:
    chosen = [rng.choice(PLAIN if rng.random() < 0.85 else FUNCTIONS) for _ in range(rng.randint(1, 3))]

    def program(o, v, c):
        for operator in chosen:
            v = operator(v, c)
        return v

    return program


def branch(rng: random.Random, depth: int) -> Program:
    left, right, limit = nest(rng, depth), nest(rng, depth), rng.uniform(-1, 1)
    closes = rng.random() < 0.5

    def program(o, v, c):
        if closes:
            inner = v * 0.5
            return o.cond(v.sum() > limit, lambda u: left(o, u, inner), lambda u: right(o, u, c), (v,))
        return o.cond(v.sum() > limit, lambda u, d: left(o, u, d), lambda u, d: right(o, u, d), (v, c * 1))

    return program


def loop(rng: random.Random, depth: int) -> Program:
    body, most, kind = nest(rng, depth), rng.randint(0, 3), rng.choice(["count", "sum", "both"])

    def program(o, v, c):
        def goes_on(i, u):
            if kind == "count":
                return i < most
            return (u.sum() < 1.5) & (i < most + 2) if kind == "both" else (u.abs().sum() > 1) & (i < 4)

        return o.while_loop(goes_on, lambda i, u: (i + 1, body(o, u, c).sin()), (torch.tensor(0), v))[1]

    return program


def scan(rng: random.Random, depth: int) -> Program:
    body, reverse, closes = nest(rng, depth), rng.random() < 0.5, rng.random() < 0.5
    gives = rng.choice(["rows", "carry", "both"])

    def program(o, v, c):
        def combine(carry, row):
            new = body(o, carry, c + row if closes else c)
            return new.tanh(), (new * row)[0]

        carry, rows = o.scan(combine, v * 1, torch.stack([v[0], c[1], v[2]]), reverse=reverse)
        return carry if gives == "carry" else rows if gives == "rows" else (carry + rows) * 0.5

    return program


def rows(rng: random.Random, depth: int) -> Program:
    body = nest(rng, depth)

    def program(o, v, c):
        return o.map(lambda row: body(o, torch.outer(row, c[0]).tanh(), c)[0], v)

    return program


def checkpointed(rng: random.Random, depth: int) -> Program:
    body = nest(rng, depth)
    return lambda o, v, c: o.checkpoint(lambda u: body(o, u, c), v)


def batched(rng: random.Random, depth: int) -> Program:
    body, closes = nest(rng, depth), rng.random() < 0.5

    def program(o, v, c):
        inner = c if closes else v * 0.5
        return o.vmap(lambda u: body(o, u, inner), torch.stack([v, v.t() * 0.5])).sum(0) * 0.5

    return program


def differentiated(rng: random.Random, depth: int) -> Program:
    body = nest(rng, depth)
    return lambda o, v, c: o.grad(lambda u: body(o, u, c).sin().sum(), v).tanh()


AROUND = [branch, branch, loop, loop, scan, scan, rows, rows, checkpointed, batched, differentiated]


def nest(rng: random.Random, depth: int) -> Program:
    if depth == 0 or rng.random() < 0.2:
        return plain(rng)
    first, second = plain(rng), rng.choice(AROUND)(rng, depth - 1)
    after = plain(rng) if rng.random() < 0.5 else None

    def program(o, v, c):
        v = second(o, first(o, v, c), c)
        return after(o, v, c) if after else v

    return program


def outcome(function: Callable, x: torch.Tensor, w: torch.Tensor, grad: bool) -> list[torch.Tensor | None]:
    x, w = x.clone().requires_grad_(grad), w.clone().requires_grad_(grad)
    y = function(x, w)
    found = list(torch.autograd.grad(y.sin().sum(), (x, w), allow_unused=True)) if y.requires_grad else [None, None]
    return [y.detach(), *found]


def same(found: list, expected: list) -> bool:
    """A gradient that is nothing is zero."""
    for one, other in zip(found, expected, strict=True):
        one = torch.zeros(3, 3) if one is None else one
        other = torch.zeros(3, 3) if other is None else other
        if not torch.allclose(one, other, rtol=1e-3, atol=1e-4):
            return False
    return True


def difference(seed: int) -> str | None:
    """What is wrong with the program of this seed; None: nothing."""
    rng = random.Random(seed)
    program = nest(rng, rng.randint(1, 3))
    grad, way = rng.random() < 0.7, rng.choice(["compile", "compile", "aot_function"])
    compiled = getattr(saker, way)(lambda x, w: program(operators, x, w))
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(3, 3, generator=generator).tanh()
    for turn in range(3):
        x = torch.randn(3, 3, generator=generator) + turn - 1
        expected = outcome(lambda x, w: program(reference, x, w), x, w, grad)
        found = outcome(compiled, x, w, grad)
        if not same(found, expected):
            return f"seed {seed}, {way}, turn {turn}, gradients {grad}: {found} instead of {expected}"
    return None


def main() -> None:
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    differences = 0
    for seed in range(first, first + count):
        try:
            text = difference(seed)
        except Exception as error:
            text = f"seed {seed}: {type(error).__name__}: {str(error)[:300]}"
        if text:
            differences += 1
            print(text, flush=True)
        saker.reset()
    stats = saker.stats()
    print(f"{count} programs, {differences} differ; {stats['replays']} replays, stops {stats['stops']}")
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()
