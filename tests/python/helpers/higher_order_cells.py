"""Columns of the table of higher-order operators: how a program is run in each, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import saker

X = torch.linspace(0.1, 1.3, 9).view(3, 3)
Program = Callable[[torch.Tensor], torch.Tensor]

torch.vmap(torch.sin)(X)  # the first one loads PyTorch's decompositions, which is not recorded


class NotReplayed(AssertionError):
    """``saker.compile`` ran a call eagerly that it should have replayed."""


def entered(entry: str, program: Program, example: torch.Tensor, **options: Any) -> Program:
    """``program`` as it is called through one of the ways to record."""
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


def _differentiated(order: Callable[[Program], Program], entry: str, program: Program, x: torch.Tensor) -> list[Any]:
    """Derivatives of what was recorded; a capture has no derivatives of its own, and holds them."""
    if entry == "capture":
        inside = entered(entry, order(program), x)
        return [inside(x), inside(x * 0.5)]
    recorded = order(entered(entry, program, x))
    return [recorded(x), recorded(x * 0.5)]


def forward(entry: str, program: Program, plain: Program) -> None:
    with torch.no_grad():
        call = entered(entry, program, X)
        compare([call(X), call(X * 0.5)], [plain(X), plain(X * 0.5)])


def backward(entry: str, program: Program, plain: Program) -> None:
    compare(_differentiated(_first, entry, program, X), [_first(plain)(X), _first(plain)(X * 0.5)])


def double_backward(entry: str, program: Program, plain: Program) -> None:
    compare(_differentiated(_second, entry, program, X), [_second(plain)(X), _second(plain)(X * 0.5)])


def vmap(entry: str, program: Program, plain: Program) -> None:
    batch = torch.stack([X, X * 0.5, X - 1])
    with torch.no_grad():
        call = entered(entry, torch.vmap(program, randomness="same"), batch)
        compare([call(batch), call(batch * 0.5)], [torch.stack([plain(x) for x in xs]) for xs in (batch, batch * 0.5)])


def nested(entry: str, program: Program, plain: Program) -> None:
    """Inside of a branch."""

    def choose(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, program, lambda v: program(v * 2), (x,))

    call = entered(entry, choose, X)
    with torch.no_grad():
        compare([call(X), call(X - 2)], [plain(X), plain((X - 2) * 2)])


def dynamic(entry: str, program: Program, plain: Program) -> None:
    """Sizes are symbols: one graph for all of them."""
    inputs = [torch.cat([X, X * 0.5])[:size] for size in (4, 5, 6, 3)]
    before = saker.stats()["recompiles"]
    with torch.no_grad():
        call = entered(entry, program, inputs[0], dynamic=True)
        compare([call(x) for x in inputs], [plain(x) for x in inputs])
    if entry == "compile":
        again = saker.stats()["recompiles"] - before
        assert again == 0, f"recorded {again} times more"


def compare(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.detach(), other.detach(), rtol=1e-4, atol=1e-5)


EVERYWHERE = ("compile", "capture", "aot_function", "deferred")
COLUMNS: dict[str, tuple[Callable[[str, Program, Program], None], tuple[str, ...]]] = {
    "forward": (forward, EVERYWHERE),
    "backward": (backward, EVERYWHERE),
    "double backward": (double_backward, EVERYWHERE),
    "vmap": (vmap, EVERYWHERE),
    "nested": (nested, EVERYWHERE),
    "dynamic": (dynamic, ("compile", "capture", "aot_function")),  # deferred knows all sizes
}


def run(column: str, entry: str, program: Program, plain: Program, eagerly: str | None = None) -> None:
    """Raises what differs. ``eagerly``: the reason for which ``saker.compile`` may run calls eagerly."""
    saker.reset(counts=True)
    torch.manual_seed(0)
    COLUMNS[column][0](entry, program, plain)
    if entry == "compile":
        stats = saker.stats()
        if eagerly is None and not stats["replays"]:
            raise NotReplayed(f"nothing was replayed: {stats['stops']}")
        if eagerly is not None:
            assert eagerly in stats["stops"], f"not {eagerly}, but {stats['stops']}, {stats['replays']} replays"
