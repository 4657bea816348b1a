"""Memory that two storages see: who shares memory is decided by addresses, not by storages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.utils import dlpack

import saker
from differential import error_of

Pair = tuple[torch.Tensor, torch.Tensor]


def twice_from_numpy() -> Pair:
    array = np.zeros(4, dtype=np.float32)
    return torch.from_numpy(array), torch.from_numpy(array)


def overlapping_numpy() -> Pair:
    array = np.zeros(6, dtype=np.float32)
    return torch.from_numpy(array[:4]), torch.from_numpy(array[2:])


def by_dlpack() -> Pair:
    tensor = torch.zeros(4)
    return tensor, dlpack.from_dlpack(dlpack.to_dlpack(tensor))


def through_a_buffer() -> Pair:
    memory = bytearray(16)
    return torch.frombuffer(memory, dtype=torch.float32), torch.frombuffer(memory, dtype=torch.float32)


def of_two_dtypes() -> Pair:
    array = np.zeros(4, dtype=np.float32)
    return torch.from_numpy(array), torch.from_numpy(array.view(np.int32)).view(torch.float32)


def apart() -> Pair:
    return torch.zeros(4), torch.zeros(4)


def parts_that_lie_apart() -> Pair:
    array = np.zeros(8, dtype=np.float32)
    return torch.from_numpy(array[:4]), torch.from_numpy(array[4:])


PAIRS = [
    *(twice_from_numpy, overlapping_numpy, by_dlpack, through_a_buffer, of_two_dtypes),
    *(apart, parts_that_lie_apart),
]


def write_first(a, b, w):
    a.add_(1)
    return b * w


def write_second(a, b, w):
    y = a * w
    b.mul_(2).add_(1)
    return y, a + 1


def write_both(a, b, w):
    a.add_(1)
    b.mul_(3)
    return (a * w).sum(), b.clone()


def write_a_view(a, b, w):
    a[1:].add_(1)
    return b[:2] * w[:2]


FUNCTIONS = [write_first, write_second, write_both, write_a_view]


def seen(call: Callable, pair: Pair, requires_grad: bool) -> list:
    a, b = pair
    w = torch.full((4,), 2.0, requires_grad=requires_grad)
    results = call(a, b, w)
    found = [results] if isinstance(results, torch.Tensor) else list(results)
    if requires_grad:
        outcome = None
        try:
            sum(t.sum() for t in found if t.requires_grad).backward()
        except RuntimeError as error:
            outcome = str(error)
        found += [w.grad, outcome]
    return [t.tolist() if isinstance(t, torch.Tensor) else t for t in (*found, a, b, a._version, b._version)]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("backend", ["aten", "eager"])
def test_replays_see_writes_through_another_storage(backend: str, function: Callable, requires_grad: bool) -> None:
    """In every order of sharing and not sharing, so that what was recorded for one meets the other."""
    for first in PAIRS:
        compiled = saker.compile(function, backend=backend)
        for _ in range(2):
            for pair in (first, first, *PAIRS):
                expected = seen(function, pair(), requires_grad)
                assert seen(compiled, pair(), requires_grad) == expected, (first.__name__, pair.__name__)
    assert saker.stats()["replays"]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_ahead_of_time_functions_see_writes_through_another_storage(function: Callable, requires_grad: bool) -> None:
    for first in PAIRS:
        compiled = saker.aot_function(function)
        for pair in (first, first, *PAIRS):
            expected = seen(function, pair(), requires_grad)
            assert seen(compiled, pair(), requires_grad) == expected, (first.__name__, pair.__name__)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("pair", PAIRS)
def test_captured_graphs_see_writes_through_another_storage(pair: Callable[[], Pair], function: Callable) -> None:
    w = torch.full((4,), 2.0)
    graph = saker.capture(function, *pair(), w)
    assert seen(graph, pair(), False) == seen(function, pair(), False)
    if pair in {apart, parts_that_lie_apart}:
        assert seen(graph.functional(), pair(), False) == seen(function, pair(), False)
        assert isinstance(error_of(lambda: graph(*twice_from_numpy(), w)), saker.RunError)
    else:
        assert "storage" in str(error_of(graph.functional))


def test_what_a_function_closes_over_may_be_an_argument_later() -> None:
    array = np.zeros(3, dtype=np.float32)
    kept, other = torch.from_numpy(array), torch.from_numpy(array)

    def run(x):
        x.add_(1)
        return kept * 2

    compiled = saker.aot_function(run)
    graph = saker.capture(run, torch.zeros(3))
    assert compiled(torch.zeros(3)).tolist() == [0, 0, 0]
    for x in (kept, other, kept[:]):
        kept.zero_()
        assert compiled(x).tolist() == [2, 2, 2]
        kept.zero_()
        assert graph(x).tolist() == [2, 2, 2]
        assert isinstance(error_of(lambda x=x: graph.functional()(x)), saker.RunError)


def test_memory_that_a_function_closes_over_twice() -> None:
    array = np.zeros(3, dtype=np.float32)
    a, b = torch.from_numpy(array), torch.from_numpy(array)

    def run(x):
        a.add_(x)
        return b * 2

    ones = torch.ones(3)
    assert saker.aot_function(run)(ones).tolist() == [2, 2, 2]
    assert saker.capture(run, ones)(ones).tolist() == [4, 4, 4]
    assert "several tensors" in str(error_of(saker.capture(run, ones).functional))


def test_tensors_without_memory_share_none() -> None:
    compiled = saker.compile(lambda a, b: (a.add_(1), b.sum())[1])
    for _ in range(3):
        a, b = torch.zeros(0), torch.zeros(0)
        assert compiled(a, b).item() == 0
    lazily = torch.zeros(3)
    copies = [torch._lazy_clone(lazily), torch._lazy_clone(lazily)]
    ahead = saker.aot_function(lambda a, b: (a.add_(1), b * 2)[1])
    assert ahead(*copies).tolist() == [0, 0, 0]
    assert copies[0].tolist() == [1, 1, 1]
    assert lazily.tolist() == [0, 0, 0]
