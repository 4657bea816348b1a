"""Training with sizes that change: one recording with symbolic sizes, whose backward is compiled too, equals eager."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import saker
from torch_versions import SYMBOLIC_MATMUL

MATMULS = ("attention", "language", "padded", "gathered", "random", "strided input")
SIZES = [(3, 5), (4, 7), (2, 6), (6, 3), (5, 5), (3, 9)]


class Attention(nn.Module):
    def __init__(self, d=8, heads=2):
        super().__init__()
        self.qkv, self.out, self.norm, self.heads = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d), heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm(x)).split(d, -1))
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        scores = (q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5).masked_fill(~mask, float("-inf"))
        return x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.block, self.head = nn.Embedding(20, 8), Attention(), nn.Linear(8, 20)

    def forward(self, ids):
        x, y = ids[:, :-1], ids[:, 1:]
        return F.cross_entropy(self.head(self.block(self.embed(x))).flatten(0, 1), y.flatten())


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv1d(8, 4, 3, padding=1), nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.norm(self.conv(x.transpose(1, 2))).relu().mean(-1)).pow(2).sum()


class Count(nn.Module):
    """Sizes as numbers beside tensors, in shapes, in ranges."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8))

    def forward(self, x):
        n, t, _ = x.shape
        y = (x * self.w).sum(-1) * n + torch.arange(t) / t
        return (y / (n * t) - t).sum() + n


class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        y = F.pad(x @ self.w, (0, 0, 1, 2))
        z = torch.cat([y, y.flip(1)[:, : x.shape[1]]], 1)
        return z.unfold(1, 2, 1).amax(-1).norm(dim=-1).mean()


class Gathered(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 4))

    def forward(self, x):
        y = (x @ self.w).log_softmax(1)
        order = torch.arange(x.shape[1]).flip(0)
        picked = y[:, order].gather(1, torch.zeros(x.shape[0], x.shape[1], 4, dtype=torch.long))
        return -(picked.cumsum(1) * y).mean() + y.index_select(1, order)[:, 0].sum()


class Written(nn.Module):
    """Writes to what the call makes, and to a buffer."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        y = torch.zeros(x.shape[0], x.shape[1] + 1, 8)
        y[:, 1:] = x * self.w
        y[:, 0] += self.w
        self.seen.add_(x.shape[0])
        return y.add_(1).relu_().sum()


class Random(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        return (F.dropout(x @ self.w, 0.3, True) + torch.randn(x.shape[0], 1, 1)).sum()


MODELS = {
    "attention": (Attention, lambda b, t: torch.randn(b, t, 8)),
    "language": (Language, lambda b, t: torch.randint(0, 20, (b, t + 1))),
    "convolution": (Convolution, lambda b, t: torch.randn(b, t, 8)),
    "count": (Count, lambda b, t: torch.randn(b, t, 8)),
    "padded": (Padded, lambda b, t: torch.randn(b, t, 8)),
    "gathered": (Gathered, lambda b, t: torch.randn(b, t, 8)),
    "written": (Written, lambda b, t: torch.randn(b, t, 8)),
    "random": (Random, lambda b, t: torch.randn(b, t, 8)),
    "strided input": (Attention, lambda b, t: torch.randn(t, b, 8).transpose(0, 1)),
    "input that requires grad": (Count, lambda b, t: torch.randn(b, t, 8, requires_grad=True)),
}


def step(call, model, x, seed):
    """One step: results, gradients with their strides, buffers, the gradient of the input, the random state."""
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_(x.requires_grad)
    torch.manual_seed(seed)
    result = call(x)
    result.sum().backward()
    out = [result.detach(), torch.get_rng_state()] + ([] if x.grad is None else [x.grad])
    for p in model.parameters():
        out += [p.grad, torch.tensor(p.grad.stride())]
        p.grad = None
    return out + [b.detach().clone() for b in model.buffers()], type(result.grad_fn).__name__


@pytest.mark.parametrize("name", MODELS)
def test_one_recording_trains_all_sizes(name):
    make, data = MODELS[name]
    torch.manual_seed(0)
    eager = make()
    model = copy.deepcopy(eager)
    compiled = saker.compile(model)
    saker.reset(counts=True)
    nodes = []
    for seed, (b, t) in enumerate(SIZES):
        torch.manual_seed(seed)
        x = data(b, t)
        expected, _ = step(eager, eager, x, seed)
        got, node = step(compiled, model, x, seed)
        nodes.append(node)
        assert len(expected) == len(got)
        for a, c in zip(expected, got, strict=False):
            torch.testing.assert_close(c, a, rtol=1e-5, atol=1e-6)
    if not SYMBOLIC_MATMUL and name in MATMULS:
        pytest.skip("matmul of this torch makes dynamic sizes static: the results are equal")
    assert saker.stats()["recompiles"] == 1, saker.stats()
    assert nodes[2:] == ["CompiledFunctionBackward"] * (len(SIZES) - 2), nodes


def test_what_only_the_backward_asks_of_sizes_is_guarded():
    """A broadcast is undone by the backward: whether a size is one other decides what it does."""

    def f(x, y):
        return (x.unsqueeze(1) * y).sum()

    compiled = saker.compile(f)
    for n, m in [(3, 4), (4, 5), (5, 5), (4, 4), (1, 3), (3, 1), (1, 1), (6, 2)]:
        leaves = [torch.randn(n, requires_grad=True), torch.randn(n, m, requires_grad=True)]
        again = [leaf.detach().clone().requires_grad_() for leaf in leaves]
        f(*leaves).backward()
        compiled(*again).backward()
        for a, b in zip(leaves, again, strict=False):
            torch.testing.assert_close(b.grad, a.grad)
            assert b.grad.stride() == a.grad.stride()


def test_differentiated_twice():
    def f(x, w):
        return ((x @ w).tanh() * x.shape[0]).sum()

    compiled = saker.compile(f)
    w = torch.randn(4, 3, dtype=torch.double, requires_grad=True)
    for n in (3, 5, 4, 7):
        x = torch.randn(n, 4, dtype=torch.double, requires_grad=True)
        both = []
        for call in (f, compiled):
            (g,) = torch.autograd.grad(call(x, w), x, create_graph=True)
            both.append([g, *torch.autograd.grad(g.pow(2).sum(), (x, w))])
        for a, b in zip(*both, strict=False):
            torch.testing.assert_close(b, a)


def test_backward_runs_later_and_with_other_sizes_between():
    def f(x, w):
        return (x.t() @ w[: x.shape[0]]).relu()

    compiled = saker.compile(f)
    w = torch.randn(9, 3, requires_grad=True)
    for n in (3, 5):
        compiled(torch.randn(n, 4), w)
    xs = [torch.randn(n, 4) for n in (2, 7, 4, 2)]
    results = [compiled(x, w) for x in xs]
    expected = [f(x, w) for x in xs]
    for i in (2, 0, 3, 1):
        got, eager = (torch.autograd.grad(r[i].sum(), w, retain_graph=True)[0] for r in (results, expected))
        torch.testing.assert_close(got, eager)
        torch.testing.assert_close(torch.autograd.grad(results[i].sum(), w)[0], eager)
        with pytest.raises(RuntimeError, match="second time"):
            torch.autograd.grad(results[i].sum(), w)


def test_results_that_are_views_and_arguments():
    def f(x, w):
        y = x * w
        return y, y[1:], x, x[:, None], y.shape[0]

    compiled = saker.compile(f)
    w = torch.randn(4, requires_grad=True)
    for n in (3, 5, 4, 6):
        x = torch.randn(n, 4)
        a, b = f(x, w), compiled(x, w)
        assert b[4] == n and b[2] is x and b[3]._base is x
        assert b[1]._base is b[0] and b[1]._is_view() and [t._version for t in b[:4]] == [t._version for t in a[:4]]
        for p, q in zip(a[:4], b[:4], strict=False):
            torch.testing.assert_close(q, p)
            assert q.requires_grad == p.requires_grad
        (g,), (h,) = (torch.autograd.grad(r[1].sum() + r[0].prod(), w) for r in (a, b))
        torch.testing.assert_close(h, g)


def test_a_write_to_an_argument_is_kept():
    def f(x, w):
        x.mul_(2)
        return (x * w).sum()

    compiled = saker.compile(f)
    w = torch.randn(4, requires_grad=True)
    for n in (3, 5, 4, 6):
        x = torch.randn(n, 4)
        y = x.clone()
        torch.testing.assert_close(compiled(y, w), f(x, w))
        assert torch.equal(x, y) and x._version == y._version
        (g,), (h,) = (torch.autograd.grad((z * w).sum(), w) for z in (x, y))
        torch.testing.assert_close(h, g)


def test_arguments_may_share_memory_in_other_ways():
    """Nothing is written: views of one batch, at other places of it in every call, are recorded once."""

    def f(a, b, w):
        return ((a @ w) * b.sum(-1, keepdim=True)).sum()

    compiled = saker.compile(f)
    saker.reset(counts=True)
    w = torch.randn(4, 3, requires_grad=True)
    for n, shift in [(6, 1), (8, 2), (7, 0), (9, 3), (5, 1)]:
        batch = torch.randn(n + shift, 4)
        a, b = batch[:n], batch[shift:]
        x, y = f(a, b, w), compiled(a, b, w)
        torch.testing.assert_close(y, x)
        torch.testing.assert_close(*(torch.autograd.grad(z, w)[0] for z in (y, x)))
    assert saker.stats()["recompiles"] == 1


def test_optimizer_loop_ends_at_the_same_weights():
    torch.manual_seed(0)
    eager = Language()
    model = copy.deepcopy(eager)
    compiled = saker.compile(model)
    both = [(m, c, torch.optim.Adam(m.parameters(), lr=0.05)) for m, c in ((eager, eager), (model, compiled))]
    for i in range(12):
        ids = torch.randint(0, 20, (2 + i % 3, 4 + i % 5))
        for _, call, optimizer in both:
            optimizer.zero_grad()
            call(ids).backward()
            optimizer.step()
    for p, q in zip(eager.parameters(), model.parameters(), strict=False):
        torch.testing.assert_close(q, p, rtol=1e-4, atol=1e-5)
