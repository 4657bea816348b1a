"""torch.autograd.Function that calls others, writes to what it is given, or draws random numbers in its backward: what
forward and backward do are operators of compiled graphs all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker
from differential import same
from function_outcomes import check, function, outcome
from torch_versions import KEPT_APPLY_IS_SEEN
from usual_functions import USUAL, Gelu, Reversal, RMSNorm, Silu, StraightThrough

Tensor = torch.Tensor


def saves(inner: Callable) -> Any:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return inner(x) * 2

    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return inner(g * x)

    return function(forward, backward)


def needs(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
    return x * (2.0 if ctx.needs_input_grad[0] else 3.0) + y * (5.0 if ctx.needs_input_grad[1] else 7.0)


Asking = function(needs, lambda ctx, g: (g, g))
Identity = function(lambda ctx, x: x, lambda ctx, g: g * 2)
Sorted = function(lambda ctx, x: tuple(x.sort(-1)), lambda ctx, g, _: g)

INNER: dict[str, Callable] = {
    "plain": Gelu.apply,
    "in two parts": Silu.apply,
    "with a number": lambda x: Reversal.apply(x, 0.5),
    "with a default": lambda x: RMSNorm.apply(x, torch.ones(4)),
    "gives what it is given": lambda x: Identity.apply(x) + 1,
    "several results": lambda x: Sorted.apply(x)[0],
    "asks what is needed": lambda x: Asking.apply(x, torch.ones(4)),
    "two in a row": lambda x: StraightThrough.apply(Gelu.apply(x) * 3),
}


@pytest.mark.parametrize("name", INNER)
def test_a_function_in_a_function(name: str) -> None:
    outer = saves(INNER[name])
    check(lambda x, m, w: outer.apply(x @ m) * w, opened=True)


def test_three_deep() -> None:
    outer = saves(saves(saves(Gelu.apply).apply).apply)
    check(lambda x, m, w: outer.apply(x @ m) * w, opened=True)


def test_second_gradients_of_a_function_in_a_function() -> None:
    def second(results: list[Tensor], wanted: list[Tensor]) -> Any:
        first = torch.autograd.grad(results[0].sin().sum(), wanted, create_graph=True, allow_unused=True)
        total = sum((each * each).sum() for each in first if each is not None)
        return [None if g is None else g.clone() for g in torch.autograd.grad(total, wanted, allow_unused=True)]

    outer = saves(Gelu.apply)
    call = lambda x, m, w: outer.apply(x @ m) * w  # noqa: E731
    compiled = saker.compile(call)
    for step in range(7):
        gradient = second if step % 2 else None
        got, expected = outcome(compiled, step, gradient)[0], outcome(call, step, gradient)[0]
        same(got[:3], expected[:3])
        for one, other in zip(got[3] or [], expected[3] or [], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


FACTOR = [2.0]


def test_what_the_inner_one_reads_is_guarded() -> None:
    inner = function(lambda ctx, x: x * FACTOR[0], lambda ctx, g: g)
    outer = saves(inner.apply)
    call = lambda x, m, w: outer.apply(x @ m) * w  # noqa: E731
    compiled = saker.compile(call)
    for step in range(10):
        seen = []
        for run in (call, compiled):
            FACTOR[0] = 3.0 if step == 6 else 2.0

            def gradient(results: list[Tensor], _: Any, step: int = step) -> None:
                if step == 4:
                    FACTOR[0] = 5.0
                results[0].sum().backward()

            seen.append(outcome(run, step, gradient))
        same(seen[1][0], seen[0][0])
        assert seen[1][1] == (step >= 2 and step != 6)


# --- writes ---


def doubles(ctx: Any, x: Tensor) -> Tensor:
    ctx.mark_dirty(x)
    return x.mul_(2)


Doubling = function(doubles, lambda ctx, g: g * 3)


def writes_one(ctx: Any, x: Tensor, y: Tensor) -> Any:
    ctx.mark_dirty(y)
    y.add_(x)
    ctx.save_for_backward(x)
    return x * 2, y


Second = function(writes_one, lambda ctx, g, h: (g * 2 + h * ctx.saved_tensors[0], h * 5))


def saves_written(ctx: Any, x: Tensor) -> Tensor:
    ctx.mark_dirty(x)
    x.exp_()
    ctx.save_for_backward(x)
    return x


Exp = function(saves_written, lambda ctx, g: g * ctx.saved_tensors[0] * 2)


def unwritten(ctx: Any, x: Tensor) -> Tensor:
    ctx.mark_dirty(x)
    return x


Unwritten = function(unwritten, lambda ctx, g: g * 3)


def read_before(x: Tensor, m: Tensor, w: Tensor) -> Any:
    y = x @ m
    z = y.cos()  # its backward needs the old value only where it was kept apart
    kept = y * 1
    made = Doubling.apply(kept)
    return made * w, z


def of_a_view(x: Tensor, m: Tensor, w: Tensor) -> Any:
    y = x @ m
    Doubling.apply(y[0])
    return y * w


WRITES: dict[str, Callable] = {
    "a value inside": lambda x, m, w: Doubling.apply(x @ m) * w,
    "one of two": lambda x, m, w: (lambda a, b: a * w + b)(*Second.apply(x @ m, (x + 1) @ m)),
    "what it saves": lambda x, m, w: Exp.apply(x @ m) * w,
    "nothing in fact": lambda x, m, w: Unwritten.apply(x @ m) * w,
    "read before": read_before,
    "a view": of_a_view,
    "twice": lambda x, m, w: Doubling.apply(Doubling.apply(x @ m)) * w,
    "in place behind": lambda x, m, w: Doubling.apply(x @ m).add_(1) * w,
}


@pytest.mark.parametrize("name", WRITES)
def test_functions_that_write(name: str) -> None:
    call = WRITES[name]
    compiled = saker.compile(call)
    opened = []
    for step in range(7):
        got, expected = outcome(compiled, step), outcome(call, step)
        same(got[0], expected[0])
        opened.append(got[1])
    if name != "a view":  # gradients pass CopySlices, which asks for the Function itself
        assert opened == [False] * 2 + [True] * 5


def test_an_argument_is_written() -> None:
    def run(call: Callable, step: int) -> Any:
        torch.manual_seed(step)
        x, w = torch.randn(3, 4), torch.randn(4, requires_grad=True)
        y = x * w
        before = y._version
        made = call(y, w)
        made.sin().sum().backward()
        return [y.detach(), made.detach(), w.grad, y._version - before, y.requires_grad, made.is_leaf]

    call = lambda y, w: Doubling.apply(y) * w  # noqa: E731
    compiled = saker.compile(call)
    for step in range(6):
        same(run(compiled, step), run(call, step))


def test_a_leaf_may_not_be_written() -> None:
    call = lambda w: Doubling.apply(w) * 2  # noqa: E731
    compiled = saker.compile(call)
    for _ in range(4):
        errors = []
        for run in (call, compiled):
            with pytest.raises(RuntimeError) as caught:
                run(torch.ones(3, requires_grad=True))
            errors.append(str(caught.value))
        assert errors[0] == errors[1]


def test_a_write_that_is_not_marked() -> None:
    hides = function(lambda ctx, x: x.mul_(2).clone(), lambda ctx, g: g * 2)
    check(lambda x, m, w: hides.apply(x @ m) * w, opened=False)


# --- random numbers ---


@pytest.mark.parametrize("forward", [False, True])
def test_a_backward_draws(forward: bool) -> None:
    """In the order of eager mode, also among what others draw."""

    def draws(ctx: Any, x: Tensor) -> Tensor:
        return x * torch.rand_like(x) if forward else x * 2

    drops = function(draws, lambda ctx, g: g * torch.rand_like(g))

    def gradient(results: list[Tensor], _: Any) -> Any:
        results[0].sin().sum().backward()
        return torch.rand(3)

    check(lambda x, m, w: drops.apply(drops.apply(x @ m) + torch.rand(4)) * w, opened=True, gradient=gradient)


def test_a_second_backward_draws_again() -> None:
    drops = function(lambda ctx, x: x * 2, lambda ctx, g: g * torch.rand_like(g))

    def gradient(results: list[Tensor], _: Any) -> Any:
        results[0].sin().sum().backward(retain_graph=True)
        results[0].sin().sum().backward()
        return torch.rand(3)

    check(lambda x, m, w: drops.apply(x @ m) * w, opened=True, gradient=gradient)


# --- where no gradient is asked for ---


def test_one_of_two_is_not_differentiated() -> None:
    """Its backward never runs, and keeps nobody waiting."""

    def call(x: Tensor, m: Tensor, w: Tensor) -> Tensor:
        with torch.no_grad():
            scale = Gelu.apply(m).sum()
        return StraightThrough.apply(x @ m) * w * scale

    check(call, opened=True)


# --- compiled ahead of time ---


@pytest.mark.parametrize("name", [*USUAL, *[f"writes: {each}" for each in WRITES if each != "a view"]])
def test_aot_function(name: str) -> None:
    """The first call runs in eager mode; once the backward has run, the others are compiled."""
    call = WRITES[name.removeprefix("writes: ")] if name.startswith("writes: ") else USUAL[name]
    compiled = saker.aot_function(call)
    for step in range(5):
        before = saker.stats()["fallbacks"]
        got, how = outcome(compiled, step)
        same(got, outcome(call, step)[0])
        assert (how, saker.stats()["fallbacks"] - before) == ((False, 1) if step == 0 else (True, 0))


def test_aot_functions_that_only_run_forward() -> None:
    compiled = saker.aot_function(USUAL["gelu"])
    before = saker.stats()["fallbacks"]
    for step in range(5):
        outcome(lambda *args, step=step: USUAL["gelu"](*args) * 1, step)
        x = torch.randn(3, 4, requires_grad=True)
        same(compiled(x, torch.eye(4), torch.ones(4)).detach(), USUAL["gelu"](x, torch.eye(4), torch.ones(4)).detach())
    assert saker.stats()["fallbacks"] - before == 5
    got, _ = outcome(compiled, 1)
    same(got, outcome(USUAL["gelu"], 1)[0])


def test_aot_function_keeps_names_of_apply() -> None:
    """Programs often keep ``F.apply`` under a name of its own."""
    apply = Gelu.apply
    call = lambda x, m, w: apply(x @ m) * w  # noqa: E731
    compiled = saker.aot_function(call)
    for step in range(3):
        got, how = outcome(compiled, step)
        same(got, outcome(call, step)[0])
        assert how == (step > 0 and KEPT_APPLY_IS_SEEN)


def test_aot_function_fills_in_defaults() -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor, factor: float = 2.0) -> Tensor:
            return x.round() * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
            return gradient * ctx.factor, None

    call = lambda x, m, w: Scaled.apply(x @ m) * Scaled.apply(w, 3.0)  # noqa: E731
    compiled = saker.aot_function(call)
    for step in range(3):
        got, how = outcome(compiled, step)
        same(got, outcome(call, step)[0])
        assert how == (step > 0)


def test_aot_function_where_the_backward_does_more() -> None:
    told: list[Any] = []

    def backward(ctx: Any, g: Tensor) -> Tensor:
        told.append(tuple(g.shape))
        return g * 2

    tells = function(lambda ctx, x: x * 2, backward)
    call = lambda x, m, w: tells.apply(x @ m) * w  # noqa: E731
    compiled = saker.aot_function(call)
    for step in range(4):
        told.clear()
        got, how = outcome(compiled, step)
        assert told == [(3, 4)] and not how
        same(got, outcome(call, step)[0])


def test_aot_module() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return x + Gelu.apply(self.linear(x))

    seen = []
    for wrap in (lambda each: each, saker.aot_module):
        torch.manual_seed(0)
        model = torch.nn.Sequential(*[Layer() for _ in range(3)])
        run = wrap(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            result = run(torch.randn(5, 4))
            result.pow(2).mean().backward()
            optimizer.step()
            losses.append(result.detach())
        seen.append((losses, [each.detach() for each in model.parameters()]))
        name = type(result.grad_fn).__name__
    same(seen[1], seen[0])
    assert "CompiledFunction" in name
