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


# The results have sizes of the operands, which a mask in their place would not tell: the backward has to be given them.
INDEXED = {
    "index": lambda x: x[torch.arange(x.shape[0])],
    "index in turns": lambda x: x[torch.arange(x.shape[0]), torch.arange(x.shape[0]) % 3],
    "index_put": lambda x: x.index_put((torch.arange(x.shape[0]),), x * 2),
    "accumulated": lambda x: x.index_put((torch.arange(x.shape[0]) // 2,), x * 2, accumulate=True),
    "of some": lambda x: x.new_zeros(x.shape[0], 2).index_put((torch.arange(x.shape[0]),), x.reshape(-1)[:1]),
    "repeated": lambda x: x.repeat_interleave(2, 0, output_size=2 * x.shape[0]),
}
MASKED = {"masked": lambda x: x[x > 0], "masked and indexed": lambda x: x[x[:, 0] > 0][:, torch.arange(3)]}


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, kind) for name in INDEXED for kind in ("aot", "compile")), *((m, "compile") for m in MASKED)],
)
def test_sizes_of_what_is_indexed(name: str, kind: str) -> None:
    def fn(x):
        return (INDEXED | MASKED)[name](x).mean()

    compiled = saker.aot_function(fn, dynamic=True) if kind == "aot" else saker.compile(fn, dynamic=True)
    for rows in (4, 6, 5, 6):
        leaves = [torch.linspace(-1, 2, 3 * rows).reshape(rows, 3).requires_grad_() for _ in range(2)]
        for call, x in zip((fn, compiled), leaves, strict=True):
            call(x).backward()
        assert torch.equal(leaves[0].grad, leaves[1].grad)


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
