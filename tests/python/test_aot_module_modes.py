"""Modules compiled ahead of time follow ``train()`` and ``eval()``, of the whole and of parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker


def make() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 4),
        torch.nn.BatchNorm1d(4),
        torch.nn.Dropout(0.5),
        torch.nn.Sequential(torch.nn.Dropout(0.2)),
    )


def simplified(module: torch.nn.Module) -> Callable:
    return saker.aot_module_simplified(module, (torch.ones(3, 4),))


def steps(module: torch.nn.Module, call: Callable) -> list[Any]:
    torch.manual_seed(1)
    x = torch.rand(3, 4)
    seen = []
    for change in (
        lambda: None,
        module.eval,
        lambda: None,
        module.train,
        lambda: module[2].eval(),
        lambda: module[3].eval(),
        lambda: module[1].eval(),
        module.eval,
    ):
        change()
        for _ in range(2):
            y = call(x)
            module.zero_grad()
            y.sum().backward()
            seen += [y.detach().clone(), module[0].weight.grad.clone(), module[1].running_mean.clone()]
    return seen


@pytest.mark.parametrize("wrap", [saker.aot_module, simplified], ids=["aot_module", "aot_module_simplified"])
def test_modes_are_followed(wrap: Callable) -> None:
    expected = make()
    found = make()
    for a, b in zip(steps(found, wrap(found)), steps(expected, expected), strict=True):
        torch.testing.assert_close(a, b)


def test_the_wrapper_passes_it_on() -> None:
    module = torch.nn.Dropout(0.5)
    compiled = saker.aot_module(module)
    compiled(torch.ones(100))
    compiled.eval()
    assert not module.training
    assert torch.equal(compiled(torch.ones(100)), torch.ones(100))
    compiled.train()
    assert (compiled(torch.ones(100)) == 0).any()


def test_each_mode_is_compiled_once() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    compiled = saker.aot_module(module)
    before = saker.stats()["graphs"]
    for _ in range(3):
        module.train()
        compiled(torch.rand(3, 4))
        module.eval()
        compiled(torch.rand(3, 4))
    assert saker.stats()["graphs"] == before + 2
