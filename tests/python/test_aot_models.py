"""Models through saker.aot_module and saker.aot_function: training steps equal to eager ones, with dropout on and the
same seed, under both partitioners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import saker
from zoo import MODELS, Case

torch.set_num_threads(1)

# Models that look at data: the batch sizes of a sequence; a random number that says whether to skip a layer.
READS_DATA = {"packed lstm", "whisper encoder"}
STEPS = 3


def case_of(name: str) -> Case:
    torch.manual_seed(0)
    case = MODELS[name]()
    case.module.train()
    return case


class Loss(nn.Module):
    """A model and its loss as one module."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.inner = case.module
        self.loss_of = case.loss_of

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.loss_of(self.inner, *inputs)


def train(case: Case, call: Callable[..., torch.Tensor], steps: int = STEPS) -> dict[str, Any]:
    """The state after some steps on changing inputs."""
    module = case.module
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    torch.manual_seed(1)
    losses = []
    for step in range(steps):
        torch.manual_seed(step)
        inputs = case.make_inputs(7, 11)
        optimizer.zero_grad()
        loss = call(*inputs)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {
        "losses": losses,
        "gradients": {name: p.grad for name, p in module.named_parameters()},
        "parameters": dict(module.named_parameters()),
        "buffers": dict(module.named_buffers()),
        "versions": {name: p._version for name, p in module.named_parameters()},
        "random state": torch.get_rng_state(),
    }


def check(got: dict[str, Any], expected: dict[str, Any], exact: bool = False) -> None:
    tolerance = {"rtol": 0, "atol": 0} if exact else {}
    torch.testing.assert_close(got, expected, equal_nan=True, **tolerance)


@pytest.mark.parametrize("partition", ["min_cut", "default"])
@pytest.mark.parametrize("name", sorted(set(MODELS) - READS_DATA))
def test_training_is_eager_training(name: str, partition: str) -> None:
    case, other = case_of(name), case_of(name)
    expected = train(case, Loss(case))
    saker.reset(counts=True)
    got = train(other, saker.aot_module(Loss(other), partition_fn=partition))
    check(got, expected, exact=partition == "default")
    assert saker.stats()["graphs"] == 1


@pytest.mark.parametrize("name", ["gpt2", "convnet", "transformer"])
def test_a_function_that_closes_over_its_model(name: str) -> None:
    case, other = case_of(name), case_of(name)
    expected = train(case, lambda *inputs: case.loss_of(case.module, *inputs))
    got = train(other, saker.aot_function(lambda *inputs: other.loss_of(other.module, *inputs)))
    check(got, expected)


@pytest.mark.parametrize("budget", [0.0, 0.5])
@pytest.mark.parametrize("name", ["gpt2", "convnet", "bert"])
def test_memory_budget_changes_no_result(name: str, budget: float) -> None:
    case, other = case_of(name), case_of(name)
    expected = train(case, Loss(case))
    check(train(other, saker.aot_module(Loss(other), memory_budget=budget)), expected)


@pytest.mark.parametrize("name", ["mlp", "convnet", "lstm"])
def test_evaluation(name: str) -> None:
    case = case_of(name)
    case.module.eval()
    compiled = saker.aot_module(Loss(case))
    with torch.no_grad():
        for _ in range(2):
            inputs = case.make_inputs(7, 11)
            torch.testing.assert_close(compiled(*inputs), case.loss_of(case.module, *inputs))
