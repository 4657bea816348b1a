"""torch.autograd.Function in compiled code: once its backward has run, what forward and backward do are operators of
compiled graphs, and replays run no Python for them. Where that would differ from eager mode, the Function is called."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

import saker
from differential import same
from function_outcomes import check, function, outcome
from usual_functions import USUAL, Gelu, RMSNorm, StraightThrough

Tensor = torch.Tensor


# --- Functions that people write (helpers/usual_functions.py) ---


@pytest.mark.parametrize("name", USUAL)
def test_usual_functions(name: str) -> None:
    check(USUAL[name], opened=True)


def test_a_backward_runs_no_python() -> None:
    ran: list[str] = []
    codes = (Gelu.backward.__code__, RMSNorm.backward.__wrapped__.__code__)

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in codes:
            ran.append(frame.f_code.co_name)

    def gradient(results: list[Tensor], _: Any) -> None:
        sys.setprofile(profile)
        try:
            results[0].sum().backward()
        finally:
            sys.setprofile(None)

    def call(x: Tensor, m: Tensor, w: Tensor) -> Tensor:
        return Gelu.apply(RMSNorm.apply(x @ m, w))

    compiled = check(call, opened=True)
    for run, expected in ((compiled, []), (call, ["backward", "backward"])):
        ran.clear()
        outcome(run, 3, gradient)
        assert ran == expected


# --- what a context can do ---


def test_outputs_that_are_not_differentiable() -> None:
    def forward(ctx: Any, x: Tensor) -> Any:
        values, order = x.sort(-1)
        ctx.mark_non_differentiable(order)
        ctx.save_for_backward(order)
        return values, order

    def backward(ctx: Any, g: Tensor, none: Tensor) -> Tensor:
        return torch.zeros_like(g).scatter(-1, ctx.saved_tensors[0], g)

    sorts = function(forward, backward)
    check(lambda x, m, w: (lambda v, o: (v * w, o))(*sorts.apply(x @ m)), opened=True)


def test_an_apply_of_its_own() -> None:
    """It is the program's code around the call, and runs once for each."""

    class Flat(torch.autograd.Function):
        @classmethod
        def apply(cls, tensors: list[Tensor], scale: float) -> list[Tensor]:
            return list(super().apply(scale, *(each * 2 for each in tensors)))

        @staticmethod
        def forward(ctx: Any, scale: float, *tensors: Tensor) -> tuple[Tensor, ...]:
            ctx.scale = scale
            return tuple(each.sin() * scale for each in tensors)

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
            return (None, *(each * ctx.scale * 5 for each in gradients))

    check(lambda x, m, w: sum(Flat.apply([x @ m, w], 3.0)), opened=True)


@pytest.mark.parametrize("zeros", [True, False])
def test_gradients_that_are_missing(zeros: bool) -> None:
    def forward(ctx: Any, x: Tensor) -> Any:
        ctx.set_materialize_grads(zeros)
        return x * 2, x.exp()

    def backward(ctx: Any, first: Any, second: Any) -> Any:
        if first is None:
            return second * 7
        return first * 3 if second is None else first * 3 + second * 5

    both = function(forward, backward)

    def first_only(results: list[Tensor], _: Any) -> None:
        results[0].sum().backward()

    def second_only(results: list[Tensor], _: Any) -> None:
        results[1].sum().backward()

    call = lambda x, m, w: both.apply(x @ m)  # noqa: E731
    inside = lambda x, m, w: both.apply(x @ m)[1] * w  # noqa: E731
    check(call, True)
    check(inside, True)
    compiled = saker.compile(call)
    for step in range(8):
        gradient = (None, None, None, first_only, second_only, None, first_only, second_only)[step]
        same(outcome(compiled, step, gradient)[0], outcome(call, step, gradient)[0])


def test_no_gradient_for_an_argument() -> None:
    def backward(ctx: Any, g: Tensor) -> Any:
        return g * 2, None

    drops = function(lambda ctx, x, y: x * y, backward)
    check(lambda x, m, w: drops.apply(x @ m, w) * w, opened=True)
    check(lambda x, m, w: drops.apply(x, w) * m.sum(), opened=True)


def test_tensors_in_attributes() -> None:
    def forward(ctx: Any, x: Tensor, own: bool) -> Tensor:
        ctx.mask = x > 0 if own else x
        ctx.shape = x.shape
        ctx.names = {"a": [1, 2.5, None], "dtype": x.dtype}
        return x.relu()

    def backward(ctx: Any, g: Tensor) -> Any:
        assert ctx.names["a"][1] == 2.5 and ctx.names["dtype"] is torch.float32
        return (g * ctx.mask).reshape(ctx.shape), None

    keeps = function(forward, backward)
    check(lambda x, m, w: keeps.apply(x @ m, True) * w, opened=True)
    # What it was given may be written to in between, and no version is looked at.
    check(lambda x, m, w: keeps.apply(x @ m, False) * w, opened=False)


def test_a_function_in_a_function() -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return Gelu.apply(x) * 2

    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return StraightThrough.apply(g * x)

    outer = function(forward, backward)
    check(lambda x, m, w: outer.apply(x @ m) * w, opened=True)


def test_gradients_inside_of_a_backward() -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin() * x

    def backward(ctx: Any, g: Tensor) -> Tensor:
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            y = x.sin() * x
        return torch.autograd.grad(y, x, g)[0]

    again = function(forward, backward)
    check(lambda x, m, w: again.apply(x @ m) * w, opened=False)


def test_random_numbers_of_a_forward() -> None:
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        mask = (torch.rand_like(x) > p).to(x.dtype) / (1 - p)
        ctx.save_for_backward(mask)
        return x * mask

    drop = function(forward, lambda ctx, g: (g * ctx.saved_tensors[0], None))
    check(lambda x, m, w: drop.apply(torch.rand_like(x) + x @ m, 0.5) * torch.rand(4), opened=True)
