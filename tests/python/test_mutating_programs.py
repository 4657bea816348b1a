"""Arguments that are written: the histories they have after a replay, and random programs with such writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import mutating_programs
import saker


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return y.fill_(2.0)


def written_and_view(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.mul_(x.detach())
    return y[0]


def nothing_returned(x: torch.Tensor, y: torch.Tensor) -> None:
    y.mul_(x)


def by_a_view(x: torch.Tensor, y: torch.Tensor) -> None:
    y[0].copy_(x[0])


def copied_and_written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = y * 2
    y.copy_(z)
    y[0].mul_(0.5)
    return z


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("program", [written, written_and_view, nothing_returned, by_a_view, copied_and_written])
def test_history_of_a_written_argument(program: Callable, backend: str) -> None:
    """A replay gives it one even where no result requires grad."""

    def observe(run: Callable) -> list:
        torch.manual_seed(0)
        x, leaf = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
        y = leaf * 1
        run(x, y)
        gradients = torch.autograd.grad((y * 3).sum(), [x, leaf], allow_unused=True)
        return [y._version, y.tolist(), *(g if g is None else g.tolist() for g in gradients)]

    want = observe(program)
    fast = saker.compile(program, backend=backend)
    assert observe(fast) == want
    before = saker.stats()["replays"]
    assert observe(fast) == want
    assert observe(fast) == want
    assert saker.stats()["replays"] == before + 2


def test_random_programs() -> None:
    for seed in range(150):
        mutating_programs.compare(seed)
