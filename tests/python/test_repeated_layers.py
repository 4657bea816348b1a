"""What a program repeats without marks is differentiated once, with the gradients of the operators one by one."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import saker
from layers import Block, same_bits
from saker import _C


class Attention(nn.Module):
    """Linear layers of one size, called from one line; a mask that all layers read."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm = nn.LayerNorm(width)

    def forward(self, x, mask):
        h = self.norm(x)
        q, k, v = self.q(h), self.k(h), self.v(h)
        return x + self.out((q @ k.t() + mask).softmax(-1) @ v)


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(5))

    def forward(self, x):
        mask = torch.ones(len(x), len(x)).triu(1) * -1e9
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Coder(nn.Module):
    """Two kinds of layers, one stack after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ModuleList(Block() for _ in range(4))
        self.second = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)) for _ in range(5))

    def forward(self, x):
        for layer in self.first:
            x = layer(x)
        x = x.sin()
        for layer in self.second:
            x = layer(x) * x.cos()
        return x


class Skips(nn.Module):
    """Each layer's result is read at the end, too."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(6))

    def forward(self, x):
        kept = []
        for layer in self.layers:
            x = layer(x)
            kept.append(x)
        return sum(kept), kept[2]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = Block()

    def forward(self, x):
        for _ in range(6):
            x = self.layer(x)
        return x


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Writes(Plain):
    """Layers that write to what is theirs, and a result that is written between two of them."""

    def forward(self, x):
        x = x * 1
        for i, layer in enumerate(self.layers):
            y = layer(x)
            y.mul_(2).clamp_(-3, 3)
            x = y + x
            if i == 3:
                x.add_(1)
        return x


class Dropped(Plain):
    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.dropout(layer(x), 0.3)
        return x


class Numbered(Plain):
    """A constant that differs from layer to layer."""

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x) * (1 + i)
        return x


class Frozen(Plain):
    def __init__(self) -> None:
        super().__init__()
        for layer in list(self.layers)[::2]:
            layer.requires_grad_(False)


class Watched(Plain):
    """Gradients of what is between the layers are asked for by hooks."""

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if x.requires_grad:
                x.register_hook(lambda gradient: gradient * 0.5)
        return x


def step(model, function, x):
    x = x.clone().requires_grad_()
    model.zero_grad()
    torch.manual_seed(1)
    results = function(x)
    results = results if isinstance(results, tuple) else (results,)
    sum(each.square().sum() for each in results).backward()
    return [*(each.detach() for each in results), x.grad, *(each.grad for each in model.parameters())]


MODELS = [Plain, Masked, Coder, Skips, Tied, Writes, Dropped, Numbered, Frozen, Watched]


@pytest.mark.parametrize("options", [{}, {"dynamic": True}], ids=["static", "dynamic"])
@pytest.mark.parametrize("kind", MODELS)
def test_results_and_gradients_are_those_of_eager_mode_bit_by_bit(kind, options):
    torch.manual_seed(0)
    model = kind()
    plain = copy.deepcopy(model)
    saker.reset(counts=True)
    compiled = saker.compile(model, **options)
    for rows in (4, 4, 4, 6, 5) if options else (4, 4, 4):
        x = torch.randn(rows, 8)
        same_bits(step(model, compiled, x), step(plain, plain, x))
    if kind is not Watched:
        assert saker.stats()["replays"] >= 2, saker.stats()["stops"]


@pytest.mark.parametrize(("kind", "times"), [(Plain, 1), (Masked, 1), (Coder, 2), (Tied, 1), (Skips, 0), (Dropped, 0)])
def test_equal_layers_are_differentiated_once(kind, times):
    model, before = kind(), _C.derivatives_made()
    step(model, saker.compile(model), torch.randn(4, 8))
    assert _C.derivatives_made() == before + times


def test_the_graphs_are_those_of_the_operators_one_by_one():
    """What is differentiated once is put in its place again: nothing more is computed or kept."""
    torch.manual_seed(0)
    model = Plain()
    x = torch.randn(4, 8, requires_grad=True)
    found = saker.explain(saker.compile(model))(x)

    apart = copy.deepcopy(model)
    for i, layer in enumerate(apart.layers):  # no two layers are equal
        layer.norm.eps = 1e-5 + i * 1e-6
    before = _C.derivatives_made()
    whole = saker.explain(saker.compile(apart))(x)
    assert _C.derivatives_made() == before
    assert found.backward_operators == whole.backward_operators
    assert found.saved == whole.saved


def test_second_derivatives():
    torch.manual_seed(0)
    model = Plain().double()
    compiled = saker.compile(model)

    def second(function, x):
        x = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(x).sin().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), [x, *model.parameters()])

    for _ in range(3):
        x = torch.randn(4, 8, dtype=torch.float64)
        for one, other in zip(second(compiled, x), second(model, x), strict=True):
            torch.testing.assert_close(one, other)
