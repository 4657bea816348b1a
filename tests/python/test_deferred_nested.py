"""Deferred blocks inside of each other, of captures and of compiled functions are one order of events."""

from __future__ import annotations

import contextlib
import random
import threading

import pytest
import torch

import saker


def test_an_inner_block_sees_what_the_outer_one_wrote() -> None:
    a = torch.ones(3)
    with saker.deferred():
        a.add_(1)
        with saker.deferred():
            b = a * 2
    assert torch.equal(b, torch.full((3,), 4.0))


def test_an_outer_block_sees_what_the_inner_one_wrote() -> None:
    a = torch.ones(3)
    with saker.deferred():
        b = a * 2
        with saker.deferred():
            a.add_(1)
            c = a + b
        d = a * c
        a.zero_()
    assert torch.equal(b, torch.full((3,), 2.0))
    assert torch.equal(c, torch.full((3,), 4.0))
    assert torch.equal(d, torch.full((3,), 8.0))
    assert torch.equal(a, torch.zeros(3))


def test_leaving_an_inner_block_runs_everything() -> None:
    a = torch.ones(3)
    with saker.deferred() as outer:
        a.add_(1)
        with saker.deferred() as inner:
            b = a * 2
            assert inner.pending == outer.pending == 2
        assert outer.pending == 0
        c = b + 1
        assert outer.pending == 1
    assert torch.equal(c, torch.full((3,), 5.0))
    assert inner.stats()["recorded"] >= 1


def test_counts_begin_where_a_block_begins() -> None:
    a = torch.ones(3)
    with saker.deferred() as outer:
        a.add_(1)
        a.mul_(2)
        with saker.deferred() as inner:
            a.add_(1)
            assert inner.stats()["recorded"] == 1
        assert outer.stats()["recorded"] == 3


def test_flushing_an_inner_block_runs_everything() -> None:
    a = torch.ones(3)
    with saker.deferred() as outer, saker.deferred() as inner:
        a.add_(1)
        inner.flush()
        assert outer.pending == 0
    assert torch.equal(a, torch.full((3,), 2.0))


def test_an_error_in_an_inner_block() -> None:
    a = torch.ones(3)
    with saker.deferred():
        a.add_(1)
        with contextlib.suppress(KeyError), saker.deferred():
            a.add_(1)
            raise KeyError
        a.add_(1)
    assert torch.equal(a, torch.full((3,), 4.0))


def test_blocks_that_are_left_in_the_order_of_entering() -> None:
    a = torch.ones(3)
    first, second = saker.deferred(), saker.deferred()
    first.__enter__()
    a.add_(1)
    second.__enter__()
    a.mul_(3)
    first.__exit__(None, None, None)
    a.add_(1)
    assert second.pending == 1
    second.__exit__(None, None, None)
    assert torch.equal(a, torch.full((3,), 7.0))
    a.add_(1)  # nothing is recorded any more
    assert torch.equal(a, torch.full((3,), 8.0))


def test_a_block_is_left_by_its_own_thread() -> None:
    block = saker.deferred()
    block.__enter__()
    raised: list[BaseException] = []

    def leave() -> None:
        try:
            block._scope.leave()
        except ValueError as error:
            raised.append(error)

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    block.__exit__(None, None, None)
    assert "another thread" in str(raised[0])


def test_gradients_across_blocks() -> None:
    def program(outer, inner) -> list[torch.Tensor]:
        w = torch.full((3,), 2.0, requires_grad=True)
        with outer:
            y = (w * w).sum()
            with inner:
                z = y * w
                z.sum().backward()
            w.grad.mul_(2)
            with torch.no_grad():
                w.add_(w.grad)
        return [w.detach(), w.grad, y.detach()]

    expected = program(contextlib.nullcontext(), contextlib.nullcontext())
    assert all(map(torch.equal, program(saker.deferred(), saker.deferred()), expected))


def test_a_block_inside_of_a_capture_belongs_to_it() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with saker.deferred() as block:
            z = y * 2
            assert block.pending == 0
            block.flush()
        return z - y

    x = torch.rand(3)
    assert torch.equal(saker.capture(fn, x)(x), (x + 1) * 2 - (x + 1))


def test_a_capture_inside_of_a_block_finds_data() -> None:
    a = torch.ones(3)
    with saker.deferred():
        a.add_(1)
        b = a * 2
        graph = saker.capture(lambda x: x + a + b, torch.ones(3))
        result = graph(torch.ones(3))
    assert torch.equal(result, torch.full((3,), 7.0))


def test_ahead_of_time_inside_of_a_block() -> None:
    a = torch.ones(3)
    compiled = saker.aot_function(lambda x: x * a)
    with saker.deferred():
        a.add_(1)
        result = compiled(torch.full((3,), 3.0))
        a.add_(1)
    assert torch.equal(result, torch.full((3,), 6.0))


def test_compiled_functions_with_blocks_inside() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with saker.deferred():
            z = y * 2
        return z - x

    compiled = saker.compile(fn)
    for value in (1.0, 2.0, 3.0):
        x = torch.full((3,), value)
        assert torch.equal(compiled(x), fn(x))


@pytest.mark.parametrize("seed", range(30))
def test_random_nesting(seed: int) -> None:
    """Random writes and reads in random nests of blocks."""

    def program(blocks: bool) -> list[torch.Tensor]:
        pick = random.Random(seed)
        tensors = [torch.arange(6.0).add(i) for i in range(4)]
        seen = []

        def go(depth: int) -> None:
            for _ in range(pick.randint(2, 6)):
                what = pick.randint(0, 6)
                a, b = pick.sample(tensors, 2)
                if what == 0 and depth < 4:
                    with saker.deferred() if blocks else contextlib.nullcontext():
                        go(depth + 1)
                elif what == 1:
                    a.add_(b)
                elif what == 2:
                    a[1:3].mul_(0.5)
                elif what == 3:
                    tensors[pick.randrange(4)] = a - b
                elif what == 4:
                    seen.append(a.sum().item())
                elif what == 5:
                    seen.append((a * b).clone())
                else:
                    b.copy_(a.flip(0))

        go(0)
        return [*tensors, *(torch.as_tensor(each) for each in seen)]

    assert all(map(torch.equal, program(True), program(False)))
