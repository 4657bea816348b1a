"""What a compiled function may ask of storages: which one a tensor has, and how large it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.fsdp import _flat_param

import saker
from differential import same


def size(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + 1 if x.untyped_storage().nbytes() == 16 else x - 1


def by_fsdp(x: torch.Tensor, y: torch.Tensor) -> Any:
    x = x + 1 if _flat_param._same_storage_size(x, 4) else x - 1
    y = y + 1 if _flat_param._same_storage_size(y, 8) else y - 1
    return x, y


def shared(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x * 2 if x.untyped_storage() is y.untyped_storage() else x * 3


def keyed(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x * len({t.untyped_storage() for t in (x, y)})


def equal(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x * (2 if x.untyped_storage() == y.untyped_storage() else 5)


PROGRAMS: list[Callable] = [size, by_fsdp, shared, keyed, equal]


def inputs() -> list[tuple[torch.Tensor, torch.Tensor]]:
    base = torch.arange(8.0)
    return [
        (torch.ones(4), torch.ones(4)),
        (torch.zeros(4), torch.ones(4)),
        (base[:4], torch.ones(4)),
        (base[:4], base[4:].clone()),
        (base[:4], base[:4]),
        (base[:4], base[0:4]),
        (torch.ones(4), torch.ones(8)[:4]),
        (torch.ones(4), torch.ones(4)),
    ]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_mode(program: Callable) -> None:
    compiled = saker.compile(program)
    before = saker.stats()["replays"]
    for _ in range(3):
        for x, y in inputs():
            same(compiled(x, y), program(x, y))
    assert saker.stats()["replays"] - before >= 16


def test_a_storage_that_is_resized() -> None:
    compiled = saker.compile(size)
    x = torch.ones(4)
    for count in (16, 16, 64, 64, 16):
        x.untyped_storage().resize_(count)
        same(compiled(x, x), size(x, x))


@pytest.mark.parametrize("what", ["made", "data", "resize", "pointer", "element", "returned", "set"])
def test_other_questions_run_eagerly(what: str) -> None:
    def program(x: torch.Tensor) -> Any:
        if what == "made":
            return x + (x * 2).untyped_storage().nbytes()
        storage = x.untyped_storage()
        if what == "data":
            return x + storage[0]
        if what == "resize":
            return x + (storage.resize_(16) is storage)
        if what == "pointer":
            return x + (storage.data_ptr() == 0)
        if what == "element":
            return x + storage.element_size()
        if what == "set":
            return torch.empty(0).set_(storage) + x
        return x + 1, storage

    compiled = saker.compile(program)
    for value in (0.0, 1.0, 2.0):
        x = torch.full((4,), value)
        got, expected = compiled(x), program(x)
        if what == "returned":
            assert got[1] is expected[1]
            got, expected = got[0], expected[0]
        same(got, expected)
