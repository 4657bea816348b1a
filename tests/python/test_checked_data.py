"""Questions about data whose other answer raises: they are recorded, and asked again by replays. Where the answer is
another one the program itself runs, and raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import distributions

import saker

Tensor = torch.Tensor


# pytest rewrites the assertions of a test's own file.
WITH_ASSERTION: dict[str, Any] = {}
exec(
    """
def asserted(x, b, seen):
    assert x.isfinite().all(), f"bad numbers in {tuple(x.shape)}"
    return x * 2
""",
    WITH_ASSERTION,
)
asserted = WITH_ASSERTION["asserted"]


def either(x: Tensor, b: Tensor, seen: list) -> Tensor:
    if (x < 0).any() or x.isnan().any():
        raise ValueError("negative: " + str(tuple(x.shape)))
    return x.sqrt()


def written_behind(x: Tensor, b: Tensor, seen: list) -> Tensor:
    if not (x > 0).all():
        raise ValueError("not positive")
    b.add_(1)
    return x * b


def written_before(x: Tensor, b: Tensor, seen: list) -> Tensor:
    b.add_(1)
    if not (x > 0).all():
        raise ValueError("not positive")
    return x * b


def caught(x: Tensor, b: Tensor, seen: list) -> Tensor:
    try:
        if not (x > 0).all():
            raise ValueError("not positive")
        return x + 1
    except ValueError:
        seen.append("caught")
        return -x


def noted(x: Tensor, b: Tensor, seen: list) -> Tensor:
    seen.append(1)
    if not (x > 0).all():
        raise ValueError("not positive")
    seen.append(2)
    return x + 1


def drawn(x: Tensor, b: Tensor, seen: list) -> Tensor:
    y = torch.rand(3)
    if not (x > 0).all():
        raise ValueError("not positive")
    return x + y * torch.rand(3)


def holds(question: Tensor) -> bool:
    return bool(question.all())


def asked_elsewhere(x: Tensor, b: Tensor, seen: list) -> Tensor:
    if not holds(x > 0):
        raise ValueError("not positive")
    return x + 1


def asked_by_a_function_that_is_given(x: Tensor, b: Tensor, seen: list) -> Tensor:
    """Its answers go to C code."""
    if not all(map(holds, [x > 0, x < 9])):
        raise ValueError("not between")
    return x + 2


def normal(x: Tensor, b: Tensor, seen: list) -> Tensor:
    made = distributions.Normal(x, x.abs() + 0.1)
    return made.log_prob(made.rsample())


def categorical(x: Tensor, b: Tensor, seen: list) -> Tensor:
    return distributions.Categorical(logits=x).log_prob(torch.tensor(1))


def bernoulli(x: Tensor, b: Tensor, seen: list) -> Tensor:
    return distributions.Bernoulli(x.sigmoid()).entropy()


def gamma(x: Tensor, b: Tensor, seen: list) -> Tensor:
    return distributions.Gamma(x, 1.0).log_prob(x + 1)


def decided(x: Tensor, b: Tensor, seen: list) -> Tensor:
    if x.sum() > 2:
        x = x * 2
    return x


PROGRAMS = [
    *(asserted, either, written_behind, written_before, caught, noted, drawn),
    *(asked_elsewhere, asked_by_a_function_that_is_given),
    *(normal, categorical, bernoulli, gamma, decided),
]
# What was done cannot be taken back; the other answer does not raise, or is not known to.
EAGER = {"written_before", "decided", "asked_by_a_function_that_is_given"}


def outcome(call: Callable, step: int, grad: bool) -> list[Any]:
    torch.manual_seed(step)
    x, b, seen = torch.rand(3) + 0.5, torch.zeros(3), []
    if step == 3:
        x[1] = -1
    if step == 4:
        x[0] = float("nan")
    x.requires_grad_(grad)
    found: list[Any] = []
    try:
        y = call(x, b, seen)
        found = [str(y.tolist()), y._version]
        if y.requires_grad:
            found.append(str(torch.autograd.grad(y.sum(), x)[0].tolist()))
    except (ValueError, AssertionError) as error:
        found = [type(error), str(error)]
    return [*found, b.tolist(), b._version, seen, torch.rand(1).item()]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("backend", ["aten", "eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_checks_of_data(program: Callable, backend: str, grad: bool) -> None:
    compiled = saker.compile(program, backend=backend)
    before = saker.stats()["replays"]
    for step in range(6):
        assert outcome(compiled, step, grad) == outcome(program, step, grad)
    replays = saker.stats()["replays"] - before
    assert replays == 0 if program.__name__ in EAGER else replays >= 3


def test_a_first_call_that_raises_is_not_the_last_word() -> None:
    compiled = saker.compile(asserted)
    bad = torch.tensor([1.0, float("inf")])
    with pytest.raises(AssertionError, match="bad numbers"):
        compiled(bad, bad, [])
    before = saker.stats()["replays"]
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2), bad, []), torch.full((2,), 2.0))
    assert saker.stats()["replays"] - before == 2
