"""Operators that give nothing and raise because of data are recorded, and raise in replays what eager mode raises."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import saker
from differential import assert_same


def caught(a: torch.Tensor) -> torch.Tensor:
    try:
        return torch.linalg.inv(a)
    except RuntimeError:
        return a * 0


def written(a: torch.Tensor) -> torch.Tensor:
    a.add_(0)
    return torch.linalg.inv(a)


PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "solve": lambda a: torch.linalg.solve(a, a.sum(0)),
    "inv": torch.linalg.inv,
    "inverse": lambda a: a.inverse() + 1,
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mT),
    "lu": lambda a: torch.linalg.lu_factor(a)[0],
    "power": lambda a: torch.linalg.matrix_power(a, -2),
    "eigenvalues": lambda a: torch.linalg.eigvalsh(a + a.mT),
    "assertion": lambda a: (torch._assert_async(a[0, 0] != 0), a * 2)[1],
    "caught": caught,
    "written": written,
}


def outcome(call: Callable, singular: bool, grad: bool, seed: int) -> tuple:
    torch.manual_seed(seed)
    a = torch.zeros(3, 3) if singular else torch.randn(3, 3) + 3 * torch.eye(3)
    a.requires_grad_(grad)
    try:
        y = call(a)
        gradient = torch.autograd.grad(y.sum(), a)[0] if grad else None
        return y.detach(), gradient, y._version, a._version
    except RuntimeError as error:
        return str(error).splitlines()[0], a._version


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("backend", ["aten", "eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_checks_of_data(name: str, backend: str, grad: bool) -> None:
    program, grad = PROGRAMS[name], grad and name != "written"
    compiled = saker.compile(program, backend=backend)
    before = saker.stats()["replays"]
    for seed, singular in enumerate((False, False, True, False)):
        expected = outcome(program, singular, grad, seed)
        assert_same(outcome(compiled, singular, grad, seed), expected)
    assert saker.stats()["replays"] - before >= 2
