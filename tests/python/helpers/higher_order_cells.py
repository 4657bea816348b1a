"""Columns of the table of higher-order operators: how a program is run in each, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import saker

X = torch.linspace(0.1, 1.3, 9).view(3, 3)
Program = Callable[[torch.Tensor], torch.Tensor]

# The first ones load PyTorch's decompositions, which is not recorded.
torch.vmap(torch.sin)(X)
torch.func.jvp(torch.sin, (X,), (X,))


class NotReplayed(AssertionError):
    """``saker.compile`` ran calls eagerly, with the results of eager mode."""


class RecordedAgain(AssertionError):
    """``saker.compile`` made a recording for each size, with the results of eager mode."""


def entered(entry: str, program: Program, example: torch.Tensor, **options: Any) -> Program:
    """``program`` as it is called through one of the ways to record."""
    if entry == "eager":
        return program
    if entry == "compile":
        return saker.compile(program, **options)
    if entry == "aot_function":
        return saker.aot_function(program, **options)
    if entry == "capture":
        graphs = {}

        def captured(x: torch.Tensor) -> torch.Tensor:
            if not graphs:
                sizes = {0: {0: "rows"}} if options else None
                graphs[0] = saker.capture(program, example.clone().requires_grad_(x.requires_grad), dynamic=sizes)
            return graphs[0](x)

        return captured

    def deferred(x: torch.Tensor) -> torch.Tensor:
        with saker.deferred():
            made = program(x)
        return made

    return deferred


def _first(program: Program) -> Program:
    def gradient(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x if x.requires_grad else x.detach().requires_grad_()
            return torch.autograd.grad((program(x) * 1.5).sin().sum(), x)[0]

    return gradient


def _second(program: Program) -> Program:
    def gradient(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x if x.requires_grad else x.detach().requires_grad_()
            (first,) = torch.autograd.grad((program(x) * 1.5).sin().sum(), x, create_graph=True)
            return torch.autograd.grad((first * first).sum(), x)[0]

    return gradient


# The first call may make what later ones find (PyTorch makes objects of operators when they are first asked for).
INPUTS = (X, X * 0.5, X + 0.25)


def _differentiated(order: Callable[[Program], Program], entry: str, program: Program) -> Program:
    """Derivatives of what was recorded; a capture has no derivatives of its own, and holds them."""
    return entered(entry, order(program), X) if entry == "capture" else order(entered(entry, program, X))


def forward(entry: str, program: Program, plain: Program) -> None:
    with torch.no_grad():
        compare(entered(entry, program, X), plain, INPUTS)


def backward(entry: str, program: Program, plain: Program) -> None:
    compare(_differentiated(_first, entry, program), _first(plain), INPUTS)


def double_backward(entry: str, program: Program, plain: Program) -> None:
    compare(_differentiated(_second, entry, program), _second(plain), INPUTS)


def vmap(entry: str, program: Program, plain: Program) -> None:
    batch = torch.stack([X, X * 0.5, X - 1])
    with torch.no_grad():
        call = entered(entry, torch.vmap(program, randomness="same"), batch)
        compare(call, lambda xs: torch.stack([plain(x) for x in xs]), (batch, batch * 0.5, batch + 0.25))


def nested(entry: str, program: Program, plain: Program) -> None:
    """Inside of a branch."""

    def choose(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, program, lambda v: program(v * 2), (x,))

    call = entered(entry, choose, X)
    with torch.no_grad():
        compare(call, lambda x: plain(x if x.sum() > 0 else x * 2), (X, X - 2, X * 0.5))


def dynamic(entry: str, program: Program, plain: Program) -> None:
    """Sizes are symbols: one graph for all of them."""
    inputs = [torch.cat([X, X * 0.5])[:size] for size in (4, 5, 6, 3, 4, 5)]
    with torch.no_grad():
        compare(entered(entry, program, inputs[0], dynamic=True), plain, inputs)


def compare(found: Program, plain: Program, inputs: Sequence[torch.Tensor]) -> None:
    for x in inputs:
        one, other = found(x).detach(), plain(x).detach()
        torch.testing.assert_close(one, other, rtol=tolerance[0], atol=1e-5)


tolerance = [1e-4]


EVERYWHERE = ("compile", "capture", "aot_function", "deferred")
COLUMNS: dict[str, tuple[Callable[[str, Program, Program], None], tuple[str, ...]]] = {
    "forward": (forward, EVERYWHERE),
    "backward": (backward, EVERYWHERE),
    "double backward": (double_backward, EVERYWHERE),
    "vmap": (vmap, EVERYWHERE),
    "nested": (nested, EVERYWHERE),
    "dynamic": (dynamic, ("compile", "capture", "aot_function")),  # deferred knows all sizes
}


def run(column: str, entry: str, program: Program, plain: Program, relative: float = 1e-4) -> None:
    """Raises what differs from ``plain``."""
    saker.reset(counts=True)
    torch.manual_seed(0)
    tolerance[0] = relative
    COLUMNS[column][0](entry, program, plain)
    if entry == "compile":
        stats = saker.stats()
        if not stats["replays"]:
            raise NotReplayed(", ".join(stats["stops"]))
        if column == "dynamic" and stats["recompiles"]:
            raise RecordedAgain(f"{stats['recompiles']} times")
