"""Objects of pybind11: their properties are asked again before a replay."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

import saker
from differential import same

X = torch.arange(3.0)


def settings(rank: int) -> Any:
    made = c10d.AllreduceOptions()
    made.asyncOp = bool(rank % 2)
    return made


def test_properties_decide():
    def fn(x: torch.Tensor, options: Any) -> torch.Tensor:
        return x * 2 if options.asyncOp else x + 1

    fast = saker.compile(fn)
    before = saker.stats()
    for i in (0, 1, 0, 1, 1, 0):
        same(fast(X, settings(i)), fn(X, settings(i)))
    after = saker.stats()
    assert after["graphs"] - before["graphs"] == 2, after["stops"]
    assert after["replays"] - before["replays"] == 4


def test_an_object_that_changes():
    options = settings(0)

    def fn(x: torch.Tensor) -> tuple:
        return x * 3, options.asyncOp

    fast = saker.compile(fn)
    for i in (0, 1, 1, 0):
        options.asyncOp = bool(i)
        same(fast(X), fn(X))


def test_setting_one_runs_eagerly():
    options = settings(0)

    def fn(x: torch.Tensor) -> torch.Tensor:
        options.asyncOp = not options.asyncOp
        return x + 1 if options.asyncOp else x - 1

    fast = saker.compile(fn)
    for i in range(4):
        same(fast(X), X + 1 if i % 2 == 0 else X - 1)
