"""Random tensor programs: operators, views, writes in place, backward passes, random numbers, data read now and then.

A program is drawn once, as a list of steps with fixed choices, and may be run any number of times.

    python tests/python/helpers/random_programs.py 5000 [first seed]    # compare that many, deferred and eagerly
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import torch

from differential import check

Step = Callable[["State"], None]
MOST = 12  # tensors that a program holds


class State:
    """The tensors that a program holds, and what it saw."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self.tensors = tensors
        self.seen: list[Any] = []

    def pick(self, number: int) -> torch.Tensor:
        return self.tensors[number % len(self.tensors)]

    def put(self, number: int, tensor: torch.Tensor) -> None:
        if len(self.tensors) < MOST:
            self.tensors.append(tensor)
        else:
            self.tensors[number % MOST] = tensor


UNARY: list[Callable[[torch.Tensor], torch.Tensor]] = [
    torch.sin,
    torch.tanh,
    torch.relu,
    torch.neg,
    lambda t: t * 0.5 + 1,
    lambda t: t.sum(-1, keepdim=True) if t.dim() else t.sum(),
    lambda t: t.mean() if t.numel() else t.sum(),
    lambda t: t.softmax(-1) if t.dim() else t.sigmoid(),
    lambda t: t.clone(),
    lambda t: t.contiguous(),
    lambda t: t.detach(),
    lambda t: t.to(torch.float64).to(t.dtype),
    lambda t: t.flip(0) if t.dim() else t.exp().clamp(max=3),
    lambda t: t.cumsum(0) if t.dim() else t.abs(),
    lambda t: t @ t.t() if t.dim() == 2 else t * t,
    lambda t: torch.where(t > 0, t, t * 0.1),
    lambda t: torch.nn.functional.dropout(t, 0.3),
    lambda t: torch.rand_like(t.detach()),
    lambda t: t.detach().sort(-1).values if t.dim() else t.cos(),
    lambda t: torch.cat([t, t]) if t.dim() and t.numel() < 64 else t.sqrt().nan_to_num(),
]

VIEWS: list[Callable[[torch.Tensor, int], torch.Tensor]] = [
    lambda t, n: t.t() if t.dim() == 2 else t,
    lambda t, n: t[n % t.shape[0]] if t.dim() and t.shape[0] else t,
    lambda t, n: t[n % t.shape[0] :] if t.dim() and t.shape[0] else t,
    lambda t, n: t[..., ::2] if t.dim() else t,
    lambda t, n: t.unsqueeze(n % (t.dim() + 1)) if t.dim() < 3 else t.squeeze(),
    lambda t, n: t.view(-1) if t.is_contiguous() else t.permute(*reversed(range(t.dim()))),
    lambda t, n: t.expand(2, *t.shape) if t.dim() < 3 else t[0],
    lambda t, n: t.chunk(2)[n % len(t.chunk(2))] if t.dim() and t.shape[0] else t,
    lambda t, n: t.diagonal() if t.dim() == 2 else t.detach(),
    lambda t, n: t.view_as(t),
    lambda t, n: t.narrow(0, 0, (t.shape[0] + 1) // 2) if t.dim() else t,
    lambda t, n: t.reshape(-1),
    lambda t, n: t.unbind(0)[0] if t.dim() and t.shape[0] else t,
]

WRITES: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
    lambda t, o: t.add_(1),
    lambda t, o: t.mul_(0.5),
    lambda t, o: t.tanh_(),
    lambda t, o: t.add_(o.sum()),
    lambda t, o: t.copy_(o.mean().nan_to_num()),
    lambda t, o: t.zero_(),
    lambda t, o: t.uniform_(),
    lambda t, o: t.masked_fill_(t > 0.5, 0.25),
    lambda t, o: t.clamp_(min=-1),
    lambda t, o: t.__setitem__(..., 2),
    lambda t, o: t.__setitem__(0, o.sum()) if t.dim() and t.shape[0] else t.neg_(),
    lambda t, o: torch.sin(t.detach().clone(), out=t) if not t.requires_grad else t.sin_(),
    lambda t, o: torch._foreach_mul_([t], 0.5) if t.dim() else t.neg_(),
    lambda t, o: t.t_() if t.dim() == 2 and not t._is_view() and not t.requires_grad else t.neg_(),
]

READS: list[Callable[[torch.Tensor], Any]] = [
    lambda t: t.sum().item(),
    lambda t: t.tolist(),
    repr,
    lambda t: t.detach().numpy().tolist(),
    lambda t: bool((t > 0).any()),
    lambda t: (t._version, tuple(t.shape), t.stride(), t.requires_grad, t.is_leaf),
    lambda t: torch.get_rng_state().sum().item(),
    lambda t: t.detach().nonzero().shape,
]


def attempt(state: State, action: Callable[[], Any]) -> Any:
    """An error is a result like others."""
    try:
        return action()
    except (RuntimeError, IndexError, ValueError) as error:
        state.seen.append((type(error).__name__, str(error).splitlines()[0]))
        return None


def unary(draw: random.Random) -> Step:
    op, a, place = draw.choice(UNARY), draw.randrange(1000), draw.randrange(MOST)

    def step(state: State) -> None:
        made = attempt(state, lambda: op(state.pick(a)))
        if made is not None:
            state.put(place, made)

    return step


def binary(draw: random.Random) -> Step:
    op = draw.choice([torch.add, torch.mul, torch.sub, torch.maximum, lambda x, y: x * y.sum(), torch.matmul])
    a, b, place = draw.randrange(1000), draw.randrange(1000), draw.randrange(MOST)

    def step(state: State) -> None:
        made = attempt(state, lambda: op(state.pick(a), state.pick(b)))
        if made is not None and made.numel() < 512:
            state.put(place, made)

    return step


def view(draw: random.Random) -> Step:
    op, a, n, place = draw.choice(VIEWS), draw.randrange(1000), draw.randrange(1000), draw.randrange(MOST)

    def step(state: State) -> None:
        made = attempt(state, lambda: op(state.pick(a), n))
        if made is not None:
            state.put(place, made)

    return step


def write(draw: random.Random) -> Step:
    op, a, b, quiet = draw.choice(WRITES), draw.randrange(1000), draw.randrange(1000), draw.random() < 0.4

    def step(state: State) -> None:
        with torch.set_grad_enabled(not quiet):
            attempt(state, lambda: op(state.pick(a), state.pick(b)))

    return step


def backward(draw: random.Random) -> Step:
    a, twice, retain = draw.randrange(1000), draw.random() < 0.2, draw.random() < 0.7

    def step(state: State) -> None:
        def go() -> None:
            loss = state.pick(a).sum()
            leaf = state.tensors[0]
            if twice and leaf.requires_grad and leaf.is_leaf:
                (g,) = torch.autograd.grad(loss, leaf, create_graph=True, allow_unused=True)
                if g is not None:
                    state.put(a, g)
            elif loss.requires_grad:
                loss.backward(retain_graph=retain)

        attempt(state, go)

    return step


def read(draw: random.Random) -> Step:
    op, a = draw.choice(READS), draw.randrange(1000)
    return lambda state: state.seen.append(attempt(state, lambda: op(state.pick(a))))


def assign(draw: random.Random) -> Step:
    a, b = draw.randrange(1000), draw.randrange(1000)

    def step(state: State) -> None:
        def go() -> None:
            state.pick(a).data = state.pick(b).detach()

        attempt(state, go)

    return step


def drop(draw: random.Random) -> Step:
    a = draw.randrange(1000)

    def step(state: State) -> None:
        if len(state.tensors) > 4:
            del state.tensors[1 + a % (len(state.tensors) - 1)]

    return step


KINDS = [(unary, 10), (binary, 8), (view, 10), (write, 8), (backward, 2), (read, 2), (assign, 0.5), (drop, 1)]


def draw_steps(seed: int, most: int = 30) -> list[Step]:
    draw = random.Random(seed)
    makers, weights = zip(*KINDS, strict=True)
    return [draw.choices(makers, weights)[0](draw) for _ in range(draw.randrange(4, most))]


def program(steps: list[Step]) -> Callable[..., Any]:
    def run(*tensors: torch.Tensor) -> Any:
        state = State([*tensors, tensors[0] * 1.5])
        for step in steps:
            step(state)
        return state.tensors, state.seen

    return run


def inputs() -> tuple[torch.Tensor, ...]:
    return torch.randn(3, 3, requires_grad=True), torch.randn(3, 3), torch.randn(4), torch.randn(2, 3, 2)[:, 1:]


def compare(seed: int) -> dict[str, int]:
    return check(program(draw_steps(seed)), inputs)


def main(compare: Callable[[int], Any]) -> int:
    """Compares as many programs as the command line says, from the seed that it says."""
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    failed = 0
    for seed in range(first, first + count):
        try:
            compare(seed)
        except Exception as error:
            failed += 1
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:400]}")
    print(f"{count} programs, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(compare))
