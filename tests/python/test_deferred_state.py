"""When a deferred block flushes, and how it is left: errors, threads, forks, nesting."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import saker
from differential import check, dispatch_state, error_of, matrices, same


def test_rule3_input_is_read_as_it_was() -> None:
    """What an operator reads is what was there when it was called, whatever is assigned to the tensor afterwards."""

    def program(x, w):
        y = x * 2
        x.data = torch.zeros(2)
        z = x + 1
        return y, z

    check(program, matrices)


def test_rule2_no_key_is_left() -> None:
    with saker.deferred():
        w = torch.ones(2, requires_grad=True)
        y = w.exp()
        made = [y, y[0], y.detach(), y.view(2, 1), torch.zeros(2), y.double()]
        y.sum().backward(retain_graph=True)
    for tensor in (*made, w.grad, y.grad_fn._saved_result):
        assert "Fake" not in str(torch._C._dispatch_keys(tensor))


def test_rule5_nothing_runs_before_it_must() -> None:
    x = torch.randn(3, 4)
    with saker.deferred() as block:
        y = (x + 1).relu().sum()
        assert block.pending == 3
        assert block.stats()["flushes"] == 0
        assert y.item() > 0
        assert block.pending == 0
    assert block.stats()["flushes"] == 1


def test_rule10_step_counters_need_no_flush() -> None:
    model = nn.Linear(3, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        with saker.deferred() as block:
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            flushes = block.stats()["flushes"]
    assert flushes == 0


def test_rule11_a_later_read_of_a_storage_sees_data() -> None:
    with saker.deferred():
        y = torch.ones(3) + 1
    storage = y.untyped_storage()
    assert storage.nbytes() == 12
    assert y.data_ptr() == storage.data_ptr()
    assert "TraceTensor" not in repr(y)


def test_rule12_fork_leaves_the_mode() -> None:
    with saker.deferred() as block:
        x = torch.ones(3) + 1
        block.flush()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                ok = saker._C.trace_mode() is None and (torch.ones(2) * 3).sum().item() == 6 and x.sum().item() == 6
                os.write(write, b"1" if ok else b"0")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 1) == b"1"
        assert (x + 1).sum().item() == 9
        os.close(read)
        os.close(write)


def test_rule12_tensor_of_another_thread() -> None:
    results = []
    with saker.deferred() as block:
        y = torch.ones(3) + 1

        def use() -> None:
            results.append((y * 2).sum().item())
            results.append(saker._C.trace_mode())

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        assert results == [12.0, None]
        z = y + 1
    assert block.pending == 0
    assert z.tolist() == [3.0, 3.0, 3.0]


def test_rule12_two_threads_at_once() -> None:
    def work(seed: int, results: dict[int, Any], block: Callable[[], Any]) -> None:
        generator = torch.Generator().manual_seed(seed)
        w = torch.randn(8, 8, generator=generator, requires_grad=True)
        for _ in range(20):
            with block():
                y = (torch.randn(4, 8, generator=generator) @ w).tanh()
                y.sum().backward()
                with torch.no_grad():
                    w.sub_(w.grad * 0.1)
                    w.grad = None
        results[seed] = w.detach()

    expected: dict[int, Any] = {}
    got: dict[int, Any] = {}
    threads = [threading.Thread(target=work, args=(seed, got, saker.deferred)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        work(seed, expected, contextlib.nullcontext)
    same([got[seed] for seed in range(4)], [expected[seed] for seed in range(4)])


def test_rule13_error_at_a_flush_names_the_line() -> None:
    with pytest.raises(IndexError, match="out of") as raised, saker.deferred():
        index = torch.ones(2, dtype=torch.long) * 7
        torch.zeros(3)[index]
    assert "test_deferred_state.py" in str(raised.value)


def test_rule14_flush_that_fails_in_the_middle() -> None:
    before = dispatch_state()
    block = saker.deferred()
    with pytest.raises(IndexError, match="index out of range"), block:
        first = torch.ones(3) + 1
        index = (first * 4).long()
        bad = torch.ones(3, 3).index_select(0, index)
        later = first * 3
        dependent = bad + 1
        view = dependent[0]
    assert dispatch_state() == before
    assert block.pending == 0
    assert first.tolist() == [2.0, 2.0, 2.0]
    text = str(error_of(lambda: bad + 1))
    for tensor in (bad, later, dependent, view):
        for use in (lambda t: t + 1, lambda t: t.sum().item(), lambda t: t.tolist(), lambda t: t.numpy(), repr):
            error = error_of(lambda: use(tensor))
            assert isinstance(error, (IndexError, RuntimeError))
            assert text.splitlines()[0] in str(error)
    gc.collect()
    assert dispatch_state() == before
    with saker.deferred():
        fine = torch.ones(2) + 1
    assert fine.tolist() == [2.0, 2.0]


def test_rule14_the_trace_goes_on_after_a_failed_flush() -> None:
    with saker.deferred() as block:
        bad = torch.zeros(3)[torch.ones(2, dtype=torch.long) * 7]
        with pytest.raises(IndexError):
            bad.tolist()
        assert block.pending == 0
        good = torch.ones(2) * 2
    assert good.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("pending", [True, False])
def test_exception_that_leaves_the_block(pending: bool) -> None:
    before = dispatch_state()
    with pytest.raises(KeyError), saker.deferred() as block:
        y = torch.ones(2) + 1
        if not pending:
            block.flush()
        raise KeyError("mine")
    assert dispatch_state() == before
    assert saker._C.trace_mode() is None
    assert y.tolist() == [2.0, 2.0]


def test_exception_of_the_program_wins_over_that_of_the_flush() -> None:
    with pytest.raises((KeyError, IndexError)) as raised, saker.deferred():
        torch.zeros(3)[torch.ones(2, dtype=torch.long) * 7]
        raise KeyError("mine")
    seen = {type(raised.value), type(raised.value.__context__)}
    assert KeyError in seen


def test_nested_blocks() -> None:
    with saker.deferred() as outer:
        a = torch.ones(2) + 1
        with saker.deferred() as inner:
            b = a * 2
            c = torch.ones(2) * 5
        assert c.tolist() == [5.0, 5.0]
        assert b.tolist() == [4.0, 4.0]
        d = b + c
        assert outer.pending == 1
    assert inner.pending == 0
    assert d.tolist() == [9.0, 9.0]


def test_block_is_entered_once() -> None:
    block = saker.deferred()
    with block:
        pass
    with pytest.raises(ValueError, match="entered"):
        block.__enter__()


def test_tensors_outlive_the_block_and_the_block_them() -> None:
    with saker.deferred() as block:
        y = torch.ones(2) + 1
        del y
        gc.collect()
        assert block.pending >= 0
    with saker.deferred():
        w = torch.ones(2, requires_grad=True)
        loss = (w * 3).sum()
    loss.backward()
    assert w.grad.tolist() == [3.0, 3.0]


def test_backward_after_the_block_uses_saved_tensors() -> None:
    w = torch.randn(4, 4, requires_grad=True)
    x = torch.randn(3, 4)
    expected = torch.autograd.grad((x @ w).tanh().exp().sum(), w)
    with saker.deferred():
        loss = (x @ w).tanh().exp().sum()
    same(torch.autograd.grad(loss, w), expected)


def test_data_loader_and_queue() -> None:
    def program(x, w):
        dataset = torch.utils.data.TensorDataset(x + 1, torch.arange(3))
        return [batch for batch in torch.utils.data.DataLoader(dataset, batch_size=2, shuffle=True)]

    check(program, matrices)


def test_doors_are_shut_again() -> None:
    numpy, tensor, start = torch.Tensor.numpy, torch.tensor, threading.Thread.start
    with saker.deferred():
        assert torch.tensor is not tensor
    assert torch.Tensor.numpy is numpy
    assert torch.tensor is tensor
    assert threading.Thread.start is start
