"""What tests of notices and of the report have in common: functions that run eagerly, and where their lines are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import saker


@pytest.fixture(autouse=True)
def default_logs() -> Iterator[None]:
    saker.set_logs()
    yield
    saker.set_logs()


def decides(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:  # the line of decides
        return x + 1
    return x - 1


def reads_item(x: torch.Tensor) -> torch.Tensor:
    return x * x.long().sum().item()


def line_of(marker: str, file: str) -> int:
    with open(file) as lines:
        return next(number for number, text in enumerate(lines, 1) if text.rstrip().endswith(f"# {marker}"))


DECIDES = (__file__, line_of("the line of decides", __file__))


def functions(name: str) -> list[dict[str, Any]]:
    return [each for each in saker.stats()["functions"] if name in each["name"]]
