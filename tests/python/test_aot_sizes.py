"""saker.aot_function with other sizes than those it was compiled for: refused, or one graph for all of them."""

from __future__ import annotations

import pytest
import torch

import saker


@pytest.fixture(autouse=True)
def counts() -> None:
    saker.reset(counts=True)


def test_other_sizes_are_refused() -> None:
    compiled = saker.aot_function(lambda x: x.sin())
    compiled(torch.ones(3))
    with pytest.raises(saker.RunError, match=r"argument 0 has sizes \(4\)"):
        compiled(torch.ones(4))
    with pytest.raises(saker.RunError, match="dtype"):
        compiled(torch.ones(3, dtype=torch.float64))
    compiled(torch.ones(5)[1:4])  # starts elsewhere


@pytest.mark.parametrize("partition", ["default", "min_cut"])
def test_dynamic_sizes(partition: str) -> None:
    def fn(x, w):
        h = torch.tanh(x @ w)
        return h.sum(0, keepdim=True).expand(x.shape[0], -1) * 2, h.t(), x.view(-1)

    compiled = saker.aot_function(fn, dynamic=True, partition_fn=partition)
    for rows, inner, columns in ((3, 4, 5), (7, 4, 5), (2, 6, 3), (9, 2, 2)):
        found = []
        for call in (fn, compiled):
            torch.manual_seed(0)
            x = torch.randn(rows, inner, dtype=torch.float64, requires_grad=True)
            w = torch.randn(inner, columns, dtype=torch.float64, requires_grad=True)
            results = call(x, w)
            loss = sum(r.square().sum() for r in results)
            grads = torch.autograd.grad(loss, [x, w], create_graph=True)
            again = torch.autograd.grad(grads[0].square().sum(), [x, w])
            found.append([*results, *grads, *again])
        torch.testing.assert_close(found[1], found[0])
    assert saker.stats() == {**saker.stats(), "graphs": 1, "fallbacks": 0}


def test_dynamic_size_as_a_number() -> None:
    compiled = saker.aot_function(lambda x: x.sin() / x.shape[0], dynamic=True)
    for size in (3, 5):
        x = torch.randn(size, requires_grad=True)
        y = compiled(x)
        torch.testing.assert_close(y, x.sin() / size)
        y.sum().backward()
        torch.testing.assert_close(x.grad, x.detach().cos() / size)


def test_dynamic_sizes_that_break_a_guard() -> None:
    def fn(x):
        return x * 2 if x.shape[0] > 4 else x * 3

    compiled = saker.aot_function(fn, dynamic=True)
    assert torch.equal(compiled(torch.ones(6)), torch.full((6,), 2.0))
    assert torch.equal(compiled(torch.ones(9)), torch.full((9,), 2.0))
    with pytest.raises(saker.RunError, match="compiled for sizes"):
        compiled(torch.ones(3))
    with pytest.raises(saker.RunError, match="size"):
        compiled(torch.ones(1))
