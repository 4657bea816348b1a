"""A small model with its optimizer and its scheduler, for tests of compiled steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import lr_scheduler

from differential import same

Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]

SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Callable[[], None]]] = {
    "none": lambda optimizer: lambda: None,
    "steps": lambda optimizer: lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.9).step,
    "cosine": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, T_max=20).step,
    "warm-up": lambda optimizer: WarmUp(optimizer),
}


class WarmUp:
    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer, self.count = optimizer, 0

    def __call__(self) -> None:
        self.count += 1
        for group in self.optimizer.param_groups:
            group["lr"] = 0.2 * min(1.0, self.count / 8)


class Trained:
    """A small model, its optimizer and its scheduler, always from the same start."""

    def __init__(self, optimizer: Make, scheduler: str) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
        self.optimizer = optimizer(list(self.model.parameters()))
        self.schedule = SCHEDULERS[scheduler](self.optimizer)

    def gradients(self, x: torch.Tensor) -> None:
        self.model.zero_grad()
        self.model(x).pow(2).sum().backward()

    def state(self) -> list[Any]:
        kept = [list(self.model.parameters())]
        for state in self.optimizer.state.values():
            kept.append(dict(state))
        return kept


def step_both(given: Trained, expected: Trained, step: Callable[[], None]) -> None:
    """One step of each on the same data, the first by ``step``: what they keep is equal behind it."""
    x = torch.randn(3, 4)
    given.gradients(x)
    expected.gradients(x)
    step()
    expected.optimizer.step()
    given.schedule()
    expected.schedule()
    same(given.state(), expected.state())
