"""Gradients that are sparse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import saker


def embedding(weight: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return functional.embedding(index, weight, sparse=True).sin()


def bag(mode: str) -> Callable:
    def program(weight: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return functional.embedding_bag(index, weight, mode=mode, sparse=True).view(-1)

    program.__name__ = f"bag_{mode}"
    return program


def bag_with_offsets(weight: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    offsets = torch.tensor([0, 2, 3])
    return functional.embedding_bag(index.reshape(-1), weight, offsets, sparse=True)


def used_twice(weight: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    rows = functional.embedding(index, weight, sparse=True)
    return rows * functional.embedding(index + 1, weight, sparse=True)


def beside_dense(weight: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return functional.embedding(index, weight, sparse=True), weight.sum(0)


def ignoring_a_row(weight: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return functional.embedding(index, weight, padding_idx=1, sparse=True)


PROGRAMS = [embedding, bag("sum"), bag("mean"), bag_with_offsets, used_twice, beside_dense, ignoring_a_row]
INDEX = torch.tensor([[1, 3, 1], [0, 2, 5]])


def outcome(fn: Callable, rows: int, steps: int = 1) -> list[Any]:
    weight = torch.arange(rows * 4.0).reshape(rows, 4).cos().requires_grad_()
    for _ in range(steps):
        results = fn(weight, INDEX)
        results = results if isinstance(results, tuple) else (results,)
        sum((result * (i + 1)).sum() for i, result in enumerate(results)).backward()
    gradient = weight.grad
    kind = [gradient.layout, gradient.shape, gradient.dtype]
    if gradient.is_sparse:
        kind += [gradient.is_coalesced(), gradient._indices().tolist(), gradient._values().tolist()]
    return [*(result.tolist() for result in results), *kind, gradient.to_dense().tolist()]


@pytest.mark.parametrize("how", [{}, {"partition_fn": "default"}, {"fw_compiler": lambda module, _: module}])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_sparse_gradients(program: Callable, how: dict[str, Any]) -> None:
    compiled = saker.aot_function(program, **how)
    for steps in (1, 2):
        assert outcome(compiled, 8, steps) == outcome(program, 8, steps)


@pytest.mark.parametrize("program", [embedding, bag_with_offsets], ids=lambda program: program.__name__)
def test_they_are_compiled(program: Callable) -> None:
    before = saker.stats()["fallbacks"]
    outcome(saker.aot_function(program), 8)
    assert saker.stats()["fallbacks"] == before


def test_sizes_that_change() -> None:
    compiled = saker.aot_function(embedding, dynamic=True)
    for rows in (8, 9):
        assert outcome(compiled, rows) == outcome(embedding, rows)


def test_twice() -> None:
    def outcome(fn: Callable) -> list[Any]:
        weight = torch.arange(32.0).reshape(8, 4).cos().requires_grad_()
        scale = torch.full((), 2.0, requires_grad=True)
        result = fn(weight * 1, INDEX) * scale
        (first,) = torch.autograd.grad(result.sum(), scale, create_graph=True)
        (second,) = torch.autograd.grad(first, weight)
        return [first.tolist(), second.layout, second.to_dense().tolist()]

    assert outcome(saker.aot_function(embedding)) == outcome(embedding)
