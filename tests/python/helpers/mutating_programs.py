"""Random programs that write to their arguments, to views and to intermediates, with gradients behind and before them.

python tests/python/helpers/mutating_programs.py 2000 [first seed]    # compare that many under aot_function and compile
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import saker
from random_programs import VIEWS, main

UNARY: list[Callable[[torch.Tensor], torch.Tensor]] = [
    torch.sin,
    lambda t: t * 2,
    lambda t: t * t,
    lambda t: t.exp().clamp(max=3),
    lambda t: t.clone(),
    torch.tanh,
    lambda t: t + 1,
    lambda t: t.sum(0) if t.dim() else t,
    lambda t: t.t() * 3 if t.dim() == 2 else t * 3,
]
WRITES: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
    lambda t, o: t.mul_(0.5),
    lambda t, o: t.add_(1),
    lambda t, o: t.copy_(o.mean()),
    lambda t, o: t.tanh_(),
    lambda t, o: t.zero_(),
    lambda t, o: t.add_(o.sum()),
    lambda t, o: t.fill_(2.0),
    lambda t, o: t.__setitem__(0, o.sum()) if t.dim() else t.neg_(),
    lambda t, o: t.copy_(o) if t.shape == o.shape else t.sin_(),
    lambda t, o: t.masked_fill_(t > 0.3, 0.2),
    lambda t, o: t.detach().mul_(2),
]
LOSSES: list[Callable[[torch.Tensor], torch.Tensor]] = [
    torch.sum,
    lambda t: (t * t).sum(),
    lambda t: t.t().sin().sum() if t.dim() == 2 else t.mean(),
]


class Drawn(NamedTuple):
    run: Callable[[torch.Tensor, torch.Tensor], list[torch.Tensor]]
    behind: bool  # is the first argument computed from a leaf?
    strided: bool  # is the second one transposed?
    losses: list[Callable[[torch.Tensor], torch.Tensor]]


def draw(seed: int) -> Drawn:
    choose = random.Random(seed)
    steps: list[tuple] = []
    for _ in range(choose.randrange(2, 9)):
        kind, a, b = choose.random(), choose.randrange(1000), choose.randrange(1000)
        if kind < 0.35:
            steps.append(("unary", choose.choice(UNARY), a, b, True))
        elif kind < 0.55:
            steps.append(("view", choose.choice(VIEWS), a, b, True))
        elif kind < 0.65:
            steps.append(("binary", choose.choice([torch.mul, torch.add, torch.sub]), a, b, True))
        else:
            steps.append(("write", choose.choice(WRITES), a, b, choose.random() > 0.15))
    returned = [choose.randrange(1000) for _ in range(choose.randrange(1, 4))]

    def run(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        held = [x, y]
        for kind, op, a, b, grad in steps:
            t = held[a % len(held)]
            if kind == "unary":
                held.append(op(t))
            elif kind == "view":
                held.append(op(t, b))
            elif kind == "binary":
                other = held[b % len(held)]
                if t.shape == other.shape or not t.dim() or not other.dim():
                    held.append(op(t, other))
            else:
                with torch.set_grad_enabled(grad):
                    op(t, held[b % len(held)])
        return [held[r % len(held)] for r in returned]

    losses = [choose.choice(LOSSES) for _ in range(8)]
    return Drawn(run, choose.random() < 0.5, choose.random() < 0.3, losses)


def observe(drawn: Drawn, run: Callable) -> list[Any]:
    """Everything that can be seen, or the error that is raised."""
    torch.manual_seed(0)
    leaves = [torch.randn(3, 3, requires_grad=True) for _ in range(2)]
    x = leaves[0] * 1 if drawn.behind else leaves[0]
    y = leaves[1].t() + 0 if drawn.strided else leaves[1] * 1
    seen: list[Any] = []
    try:
        out = run(x, y)
        seen += [(t.detach().tolist(), t.stride(), t._version, t.requires_grad, t.is_leaf) for t in [*out, x, y]]
        sources = [*leaves, x, y, *(t for t in out if t.requires_grad)]
        terms = [loss(t) for loss, t in zip(drawn.losses, [*out, x, y], strict=False) if t.requires_grad]
        if terms:
            gradients = torch.autograd.grad(sum(terms), sources, allow_unused=True)
            seen.append([None if g is None else (g.tolist(), g.stride()) for g in gradients])
    except RuntimeError as error:
        seen.append(str(error).splitlines()[0])
    return seen


def compare(seed: int) -> None:
    drawn = draw(seed)
    want = observe(drawn, drawn.run)
    for make in (saker.aot_function, saker.compile):
        fast = make(drawn.run)
        for call in range(2):
            got = observe(drawn, fast)
            assert got == want, f"seed {seed}, {make.__name__}, call {call}: {got} is not {want}"


if __name__ == "__main__":
    sys.exit(main(compare))
