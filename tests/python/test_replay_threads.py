"""One recording replayed by several threads at once: what belongs to a call is not shared between calls.

The interpreter's lock is released while the tensor program of a replay runs, so that another thread can begin, end or
fail a replay of the same recording in between.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker

SIZE = 500


def picks(x: torch.Tensor, index: torch.Tensor) -> Any:
    """Fails on data behind a long computation; the program catches that and goes on."""
    y = x
    for _ in range(8):
        y = y @ x / SIZE
    try:
        return y.flatten()[index]
    except IndexError:
        return "caught"


def draws(x: torch.Tensor, index: torch.Tensor) -> Any:
    """Draws a number that is an input of the program, and one more behind it."""
    factor = random.random()
    y = x * factor
    for _ in range(8):
        y = y @ x / SIZE
    return y.flatten()[index], factor, random.random()


def together(calls: list[tuple[float, Callable[[], Any]]]) -> list[Any]:
    """The results of calls that begin after so many seconds, each in a thread of its own."""
    results: list[Any] = [None] * len(calls)

    def run(number: int) -> None:
        wait, call = calls[number]
        time.sleep(wait)
        try:
            results[number] = call()
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.fixture
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_replay_fails_behind_one_that_ends(one_thread: None) -> None:
    x = torch.rand(SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    good, bad = torch.tensor([0, 3]), torch.tensor([SIZE * SIZE, 0])
    compiled = saker.compile(picks)
    expected = picks(x, good)
    torch.testing.assert_close(compiled(x, good), expected, rtol=0, atol=0)
    start, before = time.perf_counter(), saker.stats()["replays"]
    torch.testing.assert_close(compiled(x, good), expected, rtol=0, atol=0)
    length = time.perf_counter() - start
    assert saker.stats()["replays"] == before + 1
    for _ in range(5):
        # The second one fails after the first has ended.
        first, second, third = together(
            [
                (0, lambda: compiled(x, good)),
                (length / 2, lambda: compiled(x, bad)),
                (length * 3 / 4, lambda: compiled(x, good)),
            ]
        )
        torch.testing.assert_close(first, expected, rtol=0, atol=0)
        torch.testing.assert_close(third, expected, rtol=0, atol=0)
        assert second == "caught"


def test_drawn_numbers_belong_to_a_call(one_thread: None) -> None:
    x = torch.rand(SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    index = torch.tensor([0, 3])
    compiled = saker.compile(draws)
    compiled(x, index)
    before = saker.stats()["replays"]
    results = together([(0.002 * number, lambda: compiled(x, index)) for number in range(6)])
    assert saker.stats()["replays"] == before + 6
    factors = set()
    for values, factor, second in results:
        y = x * factor
        for _ in range(8):
            y = y @ x / SIZE
        torch.testing.assert_close(values, y.flatten()[index], rtol=0, atol=0)
        factors |= {factor, second}
    assert len(factors) == 12
