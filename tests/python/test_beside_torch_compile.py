"""saker.compile in a process in which torch.compile has been used: that replaces functions of PyTorch's by wrappers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import saker
from alone import alone

MAKERS: dict[str, Callable] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1, foreach=False),
    "Adam, foreach": lambda p: torch.optim.Adam(p, lr=0.1, foreach=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.1),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
}


def check_steps(make: Callable) -> None:
    ours, theirs = (torch.nn.Linear(3, 2) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    optimizers = [make(list(each.parameters())) for each in (ours, theirs)]
    step = saker.compile(lambda: optimizers[0].step())
    x = torch.randn(4, 3)
    before = saker.stats()["replays"]
    for _ in range(6):
        for module in (ours, theirs):
            module.zero_grad()
            module(x).square().sum().backward()
        step()
        optimizers[1].step()
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(one, other)
    assert saker.stats()["replays"] - before >= 3


@alone
def test_steps_of_optimizers() -> None:
    assert torch.compile(torch.sin, backend="eager")(torch.ones(2)).sum() > 0
    assert "fn" in torch.optim.Adam._init_group.__code__.co_freevars  # it is wrapped now
    for make in MAKERS.values():
        check_steps(make)


def test_functions_that_the_program_keeps_out() -> None:
    @torch.compiler.disable
    def kept_out(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def call(x: torch.Tensor) -> torch.Tensor:
        return kept_out(x.sin()) + 1

    with pytest.raises(saker.CaptureError, match=r"torch\.compiler\.disable keeps out"):
        saker.compile(call, fullgraph=True)(torch.ones(3))
