"""Random nests of control flow and plain operators, compared with loops and branches of plain Python.

    PYTHONPATH=python:tests/python/helpers python tests/python/helpers/control_flow_programs.py 5000 [first seed]

A program maps a square matrix, and a weight that its functions close over, to a matrix. It is compared forward, with
gradients or with gradients of these, for one size or for several that are symbols.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable
from typing import NamedTuple

import torch

import saker
from control_flow import operators, reference

# (operators, matrix, what is closed over) -> matrix. Values stay between -2 and 2, so that nothing grows.
Program = Callable


class Choices(random.Random):
    batches = 0  # that are around what is chosen
    gradients = 0  # of torch.func, likewise
    checkpoints = 0
    needs_data = False  # a branch or loop inside of gradients is Python code
    functions = False  # does it call one of torch.autograd?

    def nest(self, around: str, depth: int) -> Program:
        setattr(self, around, getattr(self, around) + 1)
        body = nest(self, depth)
        setattr(self, around, getattr(self, around) - 1)
        return body

    def around(self) -> Callable:
        """PyTorch computes no checkpoint again outside of a batch that it was in, and has none beside gradients."""
        known = [*AROUND]
        if not self.batches and not self.gradients:
            known.append(checkpointed)
        if not self.checkpoints:
            known.append(differentiated)
        chosen = self.choice(known)
        self.needs_data = self.needs_data or (self.gradients > 0 and chosen in (branch, loop))
        return chosen


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
    lambda v, c: (v.sum(0, keepdim=True) * 0.3).expand_as(v) + c * 0.1,
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


def plain(rng: Choices) -> Program:
    # Of a batch that shares what it is given, a backward that clips sees the sum of all gradients.
    functions = FUNCTIONS[:1] if rng.batches else FUNCTIONS
    chosen = [rng.choice(PLAIN if rng.random() < 0.85 else functions) for _ in range(rng.randint(1, 3))]
    rng.functions = rng.functions or any(each in FUNCTIONS for each in chosen)

    def program(o, v, c):
        for operator in chosen:
            v = operator(v, c)
        return v

    return program


def branch(rng: Choices, depth: int) -> Program:
    left, right, limit = nest(rng, depth), nest(rng, depth), rng.uniform(-1, 1)
    closes = rng.random() < 0.5

    def program(o, v, c):
        if closes:
            inner = v * 0.5
            return o.cond(v.sum() > limit, lambda u: left(o, u, inner), lambda u: right(o, u, c), (v,))
        return o.cond(v.sum() > limit, lambda u, d: left(o, u, d), lambda u, d: right(o, u, d), (v, c * 1))

    return program


def loop(rng: Choices, depth: int) -> Program:
    body, most, kind = nest(rng, depth), rng.randint(0, 3), rng.choice(["count", "sum", "both"])

    def program(o, v, c):
        def goes_on(i, u):
            if kind == "count":
                return i < most
            return (u.sum() < 1.5) & (i < most + 2) if kind == "both" else (u.abs().sum() > 1) & (i < 4)

        return o.while_loop(goes_on, lambda i, u: (i + 1, body(o, u, c).sin()), (torch.tensor(0), v))[1]

    return program


def scan(rng: Choices, depth: int) -> Program:
    body, reverse, closes = nest(rng, depth), rng.random() < 0.5, rng.random() < 0.5
    gives = rng.choice(["rows", "carry", "both"])

    def program(o, v, c):
        def combine(carry, row):
            new = body(o, carry, c + row if closes else c)
            return new.tanh(), (new * row)[0]

        carry, rows = o.scan(combine, v * 1, torch.cat([v[:1], c[1:2], v[2:]]), reverse=reverse)
        return carry if gives == "carry" else rows if gives == "rows" else (carry + rows) * 0.5

    return program


def rows(rng: Choices, depth: int) -> Program:
    body = nest(rng, depth)

    def program(o, v, c):
        return o.map(lambda row: body(o, torch.outer(row, c[0]).tanh(), c)[0], v)

    return program


def checkpointed(rng: Choices, depth: int) -> Program:
    body = rng.nest("checkpoints", depth)
    return lambda o, v, c: o.checkpoint(lambda u: body(o, u, c), v)


def batched(rng: Choices, depth: int) -> Program:
    body, closes = rng.nest("batches", depth), rng.random() < 0.5

    def program(o, v, c):
        inner = c if closes else v * 0.5
        return o.vmap(lambda u: body(o, u, inner), torch.stack([v, v.t() * 0.5])).sum(0) * 0.5

    return program


def differentiated(rng: Choices, depth: int) -> Program:
    body = rng.nest("gradients", depth)
    return lambda o, v, c: o.grad(lambda u: body(o, u, c).sin().sum(), v).tanh()


AROUND = [branch, branch, loop, loop, scan, scan, rows, rows, batched]


def nest(rng: Choices, depth: int) -> Program:
    if depth == 0 or rng.random() < 0.2:
        return plain(rng)
    first, second = plain(rng), rng.around()(rng, depth - 1)
    after = plain(rng) if rng.random() < 0.5 else None

    def program(o, v, c):
        v = second(o, first(o, v, c), c)
        return after(o, v, c) if after else v

    return program


def derivatives(result: torch.Tensor, inputs: list[torch.Tensor], again: bool) -> list[torch.Tensor]:
    """What is nothing is zero."""
    if not result.requires_grad:
        return [torch.zeros_like(each) for each in inputs]
    return list(torch.autograd.grad(result, inputs, create_graph=again, allow_unused=True, materialize_grads=True))


def outcome(function: Callable, x: torch.Tensor, w: torch.Tensor, order: int) -> list[torch.Tensor]:
    """The result, and derivatives up to this order."""
    inputs = [x.clone().requires_grad_(order > 0), w.clone().requires_grad_(order > 0)]
    y = function(*inputs)
    found = [y]
    for i in range(1, order + 1):
        found += derivatives(sum(each.sin().sum() for each in found[-2:]), inputs, again=i < order)
    return [each.detach() for each in found]


def same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    return all(
        one.shape == other.shape and torch.allclose(one, other, rtol=1e-3, atol=1e-4)
        for one, other in zip(found, expected, strict=True)
    )


class Chosen(NamedTuple):
    program: Program
    order: int  # of derivatives
    way: str
    dynamic: bool
    functions: bool


def choose(seed: int) -> Chosen:
    rng = Choices(seed)
    program = nest(rng, rng.randint(1, 3))
    order, way = rng.choice([0, 0, 1, 1, 1, 1, 2]), rng.choice(["compile", "compile", "aot_function"])
    dynamic = rng.random() < 0.25
    # Ahead of time there is no data.
    return Chosen(program, order, "compile" if rng.needs_data else way, dynamic, rng.functions)


def difference(seed: int) -> str | None:
    """What is wrong with the program of this seed; None: nothing."""
    program, order, way, dynamic, _ = choose(seed)
    options = {"dynamic": True} if dynamic else {}
    compiled = getattr(saker, way)(lambda x, w: program(operators, x, w), **options)
    generator = torch.Generator().manual_seed(seed)
    # Second derivatives of float32 lose too many places.
    new = functools.partial(torch.randn, generator=generator, dtype=torch.float64 if order == 2 else torch.float32)
    w = new(3, 3).tanh()
    # Of 3 rows one is left behind the second one, and a single row is another program than several.
    for turn, size in enumerate((5, 4, 6, 7, 4) if dynamic else (3, 3, 3)):
        w = w if size == len(w) else new(size, size).tanh()
        x = new(size, size) + turn % 3 - 1
        expected = outcome(lambda x, w: program(reference, x, w), x, w, order)
        found = outcome(compiled, x, w, order)
        if not same(found, expected):
            return f"seed {seed}, {way}, dynamic {dynamic}, turn {turn}, order {order}: {found} instead of {expected}"
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
