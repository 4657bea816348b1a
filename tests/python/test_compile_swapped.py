"""Parameters that are swapped for a while inside of transforms, and torch.autograd.Function with sizes that change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

import saker


def layer() -> nn.Linear:
    made = nn.Linear(3, 3)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))
    return made


LAYER = layer()
MODELS = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(3)]


def each_with_its_own_bias(x: torch.Tensor) -> torch.Tensor:
    return vmap(lambda row: functional_call(LAYER, {"bias": row}, (row,)).sin())(x)


def ensemble(x: torch.Tensor) -> torch.Tensor:
    parameters, buffers = stack_module_state(MODELS)
    return vmap(lambda p, b, v: functional_call(MODELS[0], (p, b), (v,)), in_dims=(0, 0, None))(parameters, buffers, x)


def per_sample_gradients(x: torch.Tensor) -> torch.Tensor:
    def loss(parameters: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
        return functional_call(LAYER, parameters, (row,)).square().sum()

    parameters = {name: each.detach() for name, each in LAYER.named_parameters()}
    found = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    return found["weight"].sum((1, 2)) + found["bias"].sum(1)


@pytest.mark.parametrize("program", [each_with_its_own_bias, ensemble, per_sample_gradients])
def test_swapped_parameters_are_replayed(program: Callable) -> None:
    compiled = saker.compile(program)
    before = {name: each for name, each in LAYER.named_parameters()}
    with torch.no_grad():
        saker.reset(counts=True)
        for number in range(4):
            x = torch.linspace(-1, 1, 12).view(4, 3) + number
            torch.testing.assert_close(compiled(x), program(x))
        assert saker.stats()["replays"] >= 2
        LAYER.weight.mul_(2)
        x = torch.linspace(-1, 1, 12).view(4, 3)
        torch.testing.assert_close(compiled(x), program(x))
        LAYER.weight.div_(2)
    assert all(before[name] is each for name, each in LAYER.named_parameters())
    assert list(LAYER._parameters) == ["weight", "bias"]


# --- torch.autograd.Function, with symbolic sizes ---


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.scale = scale if ctx.needs_input_grad[0] else -scale
        return x.sin() * ctx.scale

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient * ctx.saved_tensors[0].cos() * 7, None


class Given(torch.autograd.Function):
    """Gives back what it is given, and something beside."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.mark_non_differentiable(x)
        return x, x.cos(), x.shape[1]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gradients[1]


class Written(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


class Looked(torch.autograd.Function):
    """Decides by data."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.sin() if x.sum() > 0 else x.cos()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def given(x: torch.Tensor) -> torch.Tensor:
    same, other, size = Given.apply(x)
    assert same is not x
    return same * other + size


FUNCTIONS: dict[str, Callable] = {
    "scaled": lambda x: Scaled.apply(x * 2, 3.0) + 1,
    "given": given,
    "written": lambda x: Written.apply(x + 1) * 3,
    "looked": lambda x: Looked.apply(x) * 3,
}


@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_and_sizes_that_change(name: str, wants: bool) -> None:
    plain = FUNCTIONS[name]
    compiled = saker.compile(plain, dynamic=True)
    saker.reset(counts=True)
    for number, rows in enumerate((3, 5, 4, 3, 6)):
        x = torch.linspace(-1, 1, rows * 3).view(rows, 3) + number - 2
        with torch.set_grad_enabled(wants):
            one, other = x.clone().requires_grad_(wants), x.clone().requires_grad_(wants)
            made, wanted = compiled(one), plain(other)
            torch.testing.assert_close(made, wanted)
            assert made.requires_grad == wanted.requires_grad
            if wanted.requires_grad:
                torch.testing.assert_close(
                    torch.autograd.grad(made.sum(), one), torch.autograd.grad(wanted.sum(), other)
                )
    if name in ("scaled", "given") and not wants:
        assert saker.stats()["recompiles"] == 0 and not saker.stats()["stops"]
