"""Whatever fails while something is compiled or captured, the user's objects are as before; modules may occur twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import saker
from differential import error_of


class Tied(nn.Module):
    """One module under two names, one parameter in two modules, one buffer twice."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.again = self.a
        self.b = nn.Linear(3, 3, bias=False)
        self.b.weight = self.a.weight
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("same_steps", self.steps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps.add_(1)
        return self.b(self.again(self.a(x).relu())) + self.same_steps


def sequential() -> nn.Module:
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, nn.ReLU(), layer)


def normalised() -> nn.Module:
    norm = nn.BatchNorm1d(3)
    return nn.Sequential(norm, nn.Linear(3, 3), norm)


def nested() -> nn.Module:
    inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    return nn.Sequential(inner, nn.Sequential(inner, nn.Linear(3, 3)), inner)


def everything(module: nn.Module) -> list[Any]:
    """Objects, not values."""
    found: list[Any] = []
    for part in module.modules():
        for kind in ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            found += [(kind, name, id(value)) for name, value in getattr(part, kind).items()]
        found.append(part.training)
    found += [(id(p.grad), p._version, p.tolist()) for p in module.parameters()]
    return found


@pytest.mark.parametrize("make", [sequential, Tied, normalised, nested])
def test_modules_that_are_found_twice(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    mine = make()
    torch.manual_seed(0)
    theirs = make()
    objects = [id(t) for t in (*mine.parameters(), *mine.buffers())]
    compiled = saker.aot_module(mine)
    simplified = saker.aot_module_simplified(mine, (torch.randn(4, 3),))
    before = saker.stats()["fallbacks"]
    for call in (compiled, simplified, compiled):
        x = torch.randn(4, 3)
        got, expected = call(x), theirs(x)
        assert got.equal(expected)
        got.square().sum().backward()
        expected.square().sum().backward()
        for (name, p), q in zip(mine.named_parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, msg=name)
            assert type(p) is nn.Parameter
    assert saker.stats()["fallbacks"] == before
    assert [id(t) for t in (*mine.parameters(), *mine.buffers())] == objects
    assert [b.tolist() for b in mine.buffers()] == [b.tolist() for b in theirs.buffers()]


class Fails(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("steps", torch.zeros(()))
        self.fail = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        self.layer.weight.grad = None
        self.eval()
        self.steps = self.steps + 1
        self.register_buffer("more", torch.ones(()) + y.sum())
        self.layer.register_forward_hook(lambda *_: None)
        if self.fail and self.steps.is_leaf:
            return y * float(y.sum())  # a look at data
        return y


def compile_module(module: nn.Module, x: torch.Tensor) -> None:
    saker.aot_module_simplified(module, (x,))


def aot_export(module: nn.Module, x: torch.Tensor) -> None:
    saker.aot_export_module(module, (x,), trace_joint=False)


@pytest.mark.parametrize("way", [compile_module, aot_export])
def test_a_capture_of_a_module_that_fails(way: Callable[[nn.Module, torch.Tensor], None]) -> None:
    module, x = Fails(), torch.randn(2, 3)
    module.layer(x).sum().backward()
    before = everything(module)
    assert isinstance(error_of(lambda: way(module, x)), saker.CaptureError)
    assert everything(module) == before
    module(x)
    assert module.layer.weight.grad is None


def test_capture_that_fails_keeps_grad_and_versions() -> None:
    module, x = nn.Linear(3, 3), torch.randn(2, 3)
    module(x).sum().backward()
    before = everything(module)

    def fails(x):
        module.zero_grad()
        with torch.no_grad():
            module.weight.mul_(2)
        module(x).sum().backward()
        return float(module.weight.sum())

    for way in (saker.capture, lambda fn, x: saker.aot_function(fn)(x)):
        assert isinstance(error_of(lambda way=way: way(fails, x)), saker.CaptureError)
        assert everything(module) == before


def test_eager_calls_of_a_module_leave_what_eager_mode_leaves() -> None:
    """Where compiling gives up, the module itself is called: an error leaves what it has done until then."""

    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps = self.steps + 1
            if x.shape[0] > 2:
                raise KeyError("three")
            y = x * self.steps
            y.register_hook(lambda g: g * 2)
            return y

    mine, theirs = Counts(), Counts()
    compiled = saker.aot_module(mine)
    for size in (2, 3, 2):
        x, z = (torch.ones(size, requires_grad=True) for _ in range(2))
        if size == 3:
            assert isinstance(error_of(lambda z=z: theirs(z)), KeyError)
            error_of(lambda x=x: compiled(x))
            continue
        compiled(x).sum().backward()
        theirs(z).sum().backward()
        assert x.grad.equal(z.grad)
    assert mine.steps.equal(theirs.steps)
