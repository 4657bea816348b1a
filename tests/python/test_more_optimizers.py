"""Steps of optimizers that decide by their count of steps, or whose learning rate is a tensor, compiled: replayed from
the third step on at the latest, bit by bit as in eager mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn, optim
from torch.optim import lr_scheduler

import saker
from alone import alone
from differential import same
from trained import Make, Trained, step_both

STEPS = 14


def made(kind: Any, **options: Any) -> Make:
    return lambda parameters: kind(parameters, **{"lr": 0.1, **options})


def rated(kind: Any, **options: Any) -> Make:
    """With a learning rate that is a tensor, one for each optimizer."""
    return lambda parameters: kind(parameters, lr=torch.tensor(0.1), **options)


# How many recordings there may be: one for the first step, which makes the state, one for a rate that stands still, and
# one for each way that a step goes.
OPTIMIZERS: dict[str, tuple[Make, int]] = {
    "radam": (made(optim.RAdam), 5),
    "radam decoupled": (made(optim.RAdam, weight_decay=0.01, decoupled_weight_decay=True), 5),
    "radam foreach": (made(optim.RAdam, foreach=True), 5),
    "nadam": (made(optim.NAdam), 4),
    "nadam foreach": (made(optim.NAdam, weight_decay=0.01, foreach=True), 4),
    "asgd": (made(optim.ASGD), 4),
    "asgd from a step on": (made(optim.ASGD, t0=6), 6),
    "asgd foreach": (made(optim.ASGD, foreach=True), 4),
    "asgd foreach from a step on": (made(optim.ASGD, t0=6, foreach=True), 6),
    "adafactor": (made(optim.Adafactor), 4),
    "adafactor foreach": (made(optim.Adafactor, weight_decay=0.01, foreach=True), 4),
    "adadelta": (made(optim.Adadelta), 4),
    "adagrad": (made(optim.Adagrad, lr_decay=0.1), 4),
    "adamax": (made(optim.Adamax), 4),
    "rmsprop": (made(optim.RMSprop, momentum=0.9, centered=True), 4),
    "rprop": (made(optim.Rprop), 4),
    "sgd, rate a tensor": (rated(optim.SGD, momentum=0.9, weight_decay=0.01), 3),
    "sgd foreach, rate a tensor": (rated(optim.SGD, momentum=0.9, foreach=True), 3),
    "adam, rate a tensor": (rated(optim.Adam, weight_decay=0.01), 3),
    "adamw, rate a tensor": (rated(optim.AdamW), 3),
    "nadam, rate a tensor": (rated(optim.NAdam), 3),
    "nadam foreach, rate a tensor": (rated(optim.NAdam, foreach=True), 3),
    "radam, rate a tensor": (rated(optim.RAdam), 4),
    "rmsprop, rate a tensor": (rated(optim.RMSprop), 3),
    "rmsprop foreach, rate a tensor": (rated(optim.RMSprop, foreach=True), 3),
    "adamax, rate a tensor": (rated(optim.Adamax), 3),
    "adagrad, rate a tensor": (rated(optim.Adagrad), 3),
    "adadelta, rate a tensor": (rated(optim.Adadelta), 3),
    "adadelta foreach, rate a tensor": (rated(optim.Adadelta, foreach=True), 3),
    "rprop, rate a tensor": (rated(optim.Rprop), 3),
    "asgd, rate a tensor": (rated(optim.ASGD), 3),
}

# Where other threads live, versions of what fused operators write are told from schemas, which say too much
# (test_known_differences.py): these have a process of their own.
FUSED: dict[str, tuple[Make, int]] = {
    "adagrad fused, rate a tensor": (rated(optim.Adagrad, fused=True), 3),
    "adam fused, rate a tensor": (rated(optim.Adam, fused=True), 3),
}


def versions(trained: Trained) -> list[int]:
    tensors = list(trained.model.parameters())
    for state in trained.optimizer.state.values():
        tensors += [each for each in state.values() if isinstance(each, torch.Tensor)]
    return [each._version for each in tensors]


@pytest.mark.parametrize("scheduler", ["none", "steps", "warm-up"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_step(name: str, scheduler: str) -> None:
    check(name, scheduler, *OPTIMIZERS[name])


@pytest.mark.parametrize("scheduler", ["none", "steps", "warm-up"])
@pytest.mark.parametrize("name", FUSED)
@alone
def test_fused_step(name: str, scheduler: str) -> None:
    check(name, scheduler, *FUSED[name])


def check(name: str, scheduler: str, make: Make, recordings: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "tensor" in name and scheduler == "warm-up":
            scheduler = "cosine"  # the other one puts floats in place of the tensor
        given, expected = Trained(make, scheduler), Trained(make, scheduler)
        before = saker.stats()
        step = saker.compile(lambda: given.optimizer.step())
        for _ in range(STEPS):
            step_both(given, expected, step)
            same(given.optimizer.state_dict(), expected.optimizer.state_dict())
            assert versions(given) == versions(expected)
    assert saker.stats()["replays"] - before["replays"] >= STEPS - recordings - 1
    assert saker.stats()["graphs"] - before["graphs"] <= recordings


def test_a_step_that_is_set_back() -> None:
    """The counts of steps are tensors, which others may write to: the way that a step goes is asked each time."""
    given, expected = Trained(made(optim.RAdam), "none"), Trained(made(optim.RAdam), "none")
    step = saker.compile(lambda: given.optimizer.step())
    counts = [1, 2, 3, 4, 7, 8, 9, 2, 3, 8, 1, 12, 5, 6]
    for count in counts:
        x = torch.randn(3, 4)
        for trained in (given, expected):
            trained.gradients(x)
            for state in trained.optimizer.state.values():
                state["step"].fill_(count)
        step()
        expected.optimizer.step()
        same(given.state(), expected.state())


def test_one_parameter_is_behind() -> None:
    given, expected = Trained(made(optim.RAdam), "none"), Trained(made(optim.RAdam), "none")
    step = saker.compile(lambda: given.optimizer.step())
    for count in range(12):
        x = torch.randn(3, 4)
        for trained in (given, expected):
            trained.gradients(x)
            if count == 8:
                next(iter(trained.optimizer.state.values()))["step"].fill_(0)
        step()
        expected.optimizer.step()
        same(given.state(), expected.state())


DECISIONS: dict[str, Callable[[torch.Tensor, torch.Tensor, float], Any]] = {
    "a count": lambda x, t, r: x * 2 if t.add_(1).item() > 4 else x * 3,
    "twice": lambda x, t, r: x * 2 if t.add_(1).add_(1).item() > 4 else x * t.item(),
    "an expression": lambda x, t, r: x * 2 if 1 - r**2 < t.item() / 8 else x * 3,
    "two numbers": lambda x, t, r: x * 2 if t.item() > 10 * r else x * 3,
    "a chain": lambda x, t, r: x * 2 if 2 < t.item() + 1 <= 5 else x * 3,
    "the truth": lambda x, t, r: x * 2 if (t.item() - 3) else x * 3,
    "the least": lambda x, t, r: x * min(t.item() / 8, r),
    "the most of a number": lambda x, t, r: x * max(0.5, t.item() / 8) * max(r, 0.5),
    "the most of an int": lambda x, t, r: x * max(4, t.item()),
    "nested": lambda x, t, r: x * max(0.1, min(1.0, t.item() * r)),
    "of what is computed": lambda x, t, r: x * max(0.5, x.abs().sum().item()),
    "an int of it": lambda x, t, r: x * max(1, t.item() - 3),
    "the same object": lambda x, t, r: x * 2 if max(r, 0.5) is r else x * 3,
}


@pytest.mark.parametrize("name", DECISIONS)
def test_decisions(name: str) -> None:
    function = DECISIONS[name]
    compiled = saker.compile(function)
    mine, other = torch.tensor(0.0), torch.tensor(0.0)
    for step in range(24):
        x, rate = torch.randn(3), [0.3, 0.4, 0.9, 0.5, float("nan"), 0.1][step % 6]
        if step % 7 == 0:
            for each in (mine, other):
                each.fill_(step % 5)
        mine.add_(1)
        other.add_(1)
        same(compiled(x, mine, rate), function(x, other, rate))
        same(mine, other)


@pytest.mark.parametrize("write", ["a view", "data", "another name", "a product", "numpy"])
def test_what_writes_otherwise_is_seen(write: str) -> None:
    """Only additions of numbers are computed before a replay; all else is left to eager mode."""
    memory = [torch.zeros(2), torch.zeros(2)]

    def function(x: torch.Tensor, count: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
        if write == "a view":
            whole[0:1].add_(1)
        elif write == "data":
            count.data.add_(1)
        elif write == "another name":
            whole.add_(1)
        elif write == "a product":
            count.mul_(2).add_(1)
        else:
            array = count.numpy()
            array += 1
        return x * 2 if count.item() > 5 else x * 3

    compiled = saker.compile(function)
    for _ in range(12):
        x = torch.randn(3)
        same(compiled(x, memory[0][0], memory[0]), function(x, memory[1][0], memory[1]))
        same(memory[0], memory[1])


NUMBERS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "alpha": lambda x, t: torch.add(x, x, alpha=t),
    "alpha of what is computed": lambda x, t: torch.add(x, x, alpha=-t * 2),
    "in place": lambda x, t: x.clone().sub_(x, alpha=t),
    "value": lambda x, t: torch.addcdiv(x, x, x.abs() + 1, value=t),
    "full": lambda x, t: x + torch.full((4,), t),
    "full_like": lambda x, t: torch.full_like(x, t),
    "foreach": lambda x, t: torch._foreach_add([x, x + 1], [x, x], alpha=t),
    "clamp": lambda x, t: x.clamp(-abs(t), abs(t)),
    "two numbers": lambda x, t: torch.addcmul(torch.add(x, x, alpha=t), x, x, value=t + 1),
    "dropout": lambda x, t: torch.nn.functional.leaky_relu(x, t.item()),
    "an operand": lambda x, t: x * t + t,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_tensors_that_are_given_for_numbers(name: str) -> None:
    function = NUMBERS[name]
    compiled, before = saker.compile(function), saker.stats()["replays"]
    for _ in range(6):
        x, t = torch.randn(4), torch.randn(())
        same(compiled(x, t), function(x, t))
    assert saker.stats()["replays"] - before >= 4


def test_a_tensor_for_a_number_that_fails() -> None:
    def function(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        try:
            return torch.add(x, x[:2], alpha=t)
        except RuntimeError:
            return x * 2

    compiled = saker.compile(function)
    for _ in range(4):
        x, t = torch.randn(3), torch.randn(())
        same(compiled(x, t), function(x, t))


def test_a_whole_step_of_training() -> None:
    def train(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
        loss = model(x).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = nn.Linear(4, 2)
        optimizer = optim.RAdam(model.parameters(), lr=0.1)
        schedule = lr_scheduler.ExponentialLR(optimizer, 0.9)
        step = saker.compile(train) if compiled else train
        losses.append([])
        for _ in range(9):
            losses[-1].append(step(model, optimizer, torch.randn(3, 4)))
            schedule.step()
        losses[-1].append(model.weight)
    same(losses[0], losses[1])


def test_lbfgs_says_why_it_runs_eagerly(capfd: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    models = [nn.Linear(4, 2), nn.Linear(4, 2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [optim.LBFGS(model.parameters(), lr=0.1) for model in models]
    x = torch.randn(3, 4)
    saker.set_logs()

    def step(which: int) -> torch.Tensor:
        def closure() -> torch.Tensor:
            optimizers[which].zero_grad()
            loss = models[which](x).pow(2).sum()
            loss.backward()
            return loss

        return optimizers[which].step(closure)

    compiled = saker.compile(step)
    for _ in range(3):
        same(compiled(0), step(1))
        assert torch.equal(models[0].weight, models[1].weight)
    assert "runs eagerly" in capfd.readouterr().err
