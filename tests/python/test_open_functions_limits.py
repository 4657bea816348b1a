"""torch.autograd.Function in compiled code: what forwards and backwards read, what keeps one from being opened, and
what autograd does around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker
from differential import same
from function_outcomes import check, function, outcome, weights
from usual_functions import USUAL, Gelu, RMSNorm, StraightThrough

Tensor = torch.Tensor


# --- what is read ---

WORLD = {"forward": 1.0, "backward": 1.0}


class Reads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.factor = WORLD["forward"]
        return x * ctx.factor

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * ctx.factor * WORLD["backward"]


@pytest.mark.parametrize("between", ["backward", "forward", "both"])
def test_globals_that_change(between: str) -> None:
    def call(x: Tensor, m: Tensor, w: Tensor) -> Tensor:
        return Reads.apply(x @ m) * w

    compiled = saker.compile(call)
    for step in range(12):
        seen = []
        for run in (call, compiled):
            WORLD.update(forward=2.0 if step == 7 else 1.0, backward=3.0 if step == 8 else 1.0)

            def gradient(results: list[Tensor], _: Any, step: int = step) -> None:
                if step in (5, 9):
                    WORLD.update({name: 5.0 for name in WORLD if between in (name, "both")})
                results[0].sum().backward()

            seen.append(outcome(run, step, gradient))
        same(seen[1][0], seen[0][0])
        assert seen[1][1] == (step >= 2 and step != 7)


def test_the_backward_is_replaced() -> None:
    made = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2)

    def call(x: Tensor, m: Tensor, w: Tensor) -> Tensor:
        return made.apply(x @ m) * w

    compiled = check(call, opened=True)
    made.backward = staticmethod(lambda ctx, g: g * 3)
    for step in range(4):
        same(outcome(compiled, step)[0], outcome(call, step)[0])


# --- what is not opened ---

EVENTS: list[Any] = []
TOTALS = {"count": 0}


def appends(ctx: Any, g: Tensor) -> Tensor:
    EVENTS.append(g.shape)
    return g * 2


def counts(ctx: Any, g: Tensor) -> Tensor:
    TOTALS["count"] += 1
    return g * TOTALS["count"]


def prints(ctx: Any, g: Tensor) -> Tensor:
    print("backward", tuple(g.shape))
    return g * 2


def branches(ctx: Any, g: Tensor) -> Tensor:
    return g * 2 if g.sum() > 0 else g * 3


def hooks(ctx: Any, g: Tensor) -> Tensor:
    made = g * 2
    made.register_hook(lambda each: each * 5) if made.requires_grad else None
    EVENTS.append(float(made.sum()))
    return made


def remembers(ctx: Any, g: Tensor) -> Tensor:
    ctx.times = getattr(ctx, "times", 0) + 1
    return g * ctx.times


def writes(ctx: Any, g: Tensor) -> Tensor:
    return g.mul_(2)


def asks(ctx: Any, g: Tensor) -> Tensor:
    return g * 2 if g.is_contiguous() else g * 3


@pytest.mark.parametrize("backward", [appends, counts, prints, branches, hooks, remembers, writes, asks])
def test_backwards_that_do_more(backward: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    made = function(lambda ctx, x: x * 2, backward)

    def call(x: Tensor, m: Tensor, w: Tensor) -> Tensor:
        return made.apply(x @ m) * w

    compiled = saker.compile(call)
    for step in range(5):
        seen: list[Any] = []
        for run in (call, compiled):
            EVENTS.clear()
            TOTALS["count"] = step
            capsys.readouterr()

            def gradient(results: list[Tensor], _: Any) -> None:
                results[0].sin().sum().backward(retain_graph=True)
                results[0].cos().sum().backward()

            got, how = outcome(run, step, gradient)
            seen.append((got, list(EVENTS), dict(TOTALS), capsys.readouterr().out))
        same(seen[1], seen[0])
        assert not how


@pytest.mark.parametrize("kind", ["prints", "branches", "writes", "returns it", "gives a view"])
def test_forwards_that_do_more(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        if kind == "prints":
            print("forward")
        if kind == "branches" and x.sum() > 0:
            return x * 3
        if kind == "writes":
            ctx.mark_dirty(x)
            return x.mul_(2)
        if kind == "returns it":
            return x
        return x[:2] if kind == "gives a view" else x * 2

    def backward(ctx: Any, g: Tensor) -> Tensor:
        return torch.nn.functional.pad(g, (0, 0, 0, 1)) if kind == "gives a view" else g * 2

    made = function(forward, backward)

    def call(x: Tensor, m: Tensor, w: Tensor) -> Tensor:
        return made.apply(x @ m) * w

    compiled = saker.compile(call)
    for step in range(5):
        seen = []
        for run in (call, compiled):
            capsys.readouterr()
            seen.append((outcome(run, step)[0], capsys.readouterr().out))
        same(seen[1], seen[0])


# --- autograd ---


def second(results: list[Tensor], wanted: list[Tensor]) -> Any:
    first = torch.autograd.grad(results[0].sin().sum(), wanted, create_graph=True, allow_unused=True)
    total = sum((each * each).sum() for each in first if each is not None)
    again = torch.autograd.grad(total, wanted, allow_unused=True)
    return [first[0].detach(), *(None if each is None else each.clone() for each in again)]


@pytest.mark.parametrize("name", ["straight-through", "reversal", "gelu", "silu", "clipping", "low rank", "several"])
def test_second_gradients(name: str) -> None:
    call = USUAL[name]
    compiled = saker.compile(call)
    for step in range(7):
        gradient = second if step % 2 and name != "several" else None
        got, expected = outcome(compiled, step, gradient)[0], outcome(call, step, gradient)[0]
        same(got[:3], expected[:3])
        # Sums of second gradients are added up in another order.
        for one, other in zip(got[3] or [], expected[3] or [], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert outcome(compiled, 8)[1]


def test_once_differentiable() -> None:
    def twice(results: list[Tensor], wanted: list[Tensor]) -> None:
        first = torch.autograd.grad(results[0].sin().sum(), wanted, create_graph=True)
        sum((each * each).sum() for each in first).backward()

    call = USUAL["norm"]
    compiled = saker.compile(call)
    for step in range(5):
        errors = []
        for run in (call, compiled):
            if step < 3:
                outcome(run, step)
                continue
            with pytest.raises(RuntimeError) as caught:
                outcome(run, step, twice)
            errors.append(str(caught.value))
        assert step < 3 or errors[0] == errors[1]


@pytest.mark.parametrize("name", ["straight-through", "gelu", "only it"])
def test_a_second_backward(name: str) -> None:
    """Is it refused where the first one has freed what was saved?"""

    def twice(results: list[Tensor], _: Any) -> str:
        results[0].backward(torch.ones_like(results[0]))
        try:
            results[0].backward(torch.ones_like(results[0]))
        except RuntimeError as error:
            return str(error)[:40]
        return ""

    check(USUAL[name], opened=True, gradient=twice)
    check(lambda x, m, w: StraightThrough.apply(x), opened=True, gradient=twice)
    plain = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    check(lambda x, m, w: plain.apply(x + w), opened=True, gradient=twice)


def test_what_is_saved_was_written_to() -> None:
    def writes(results: list[Tensor], wanted: list[Tensor]) -> str:
        with torch.no_grad():
            wanted[0].add_(1)
        try:
            results[0].sum().backward()
        except RuntimeError as error:
            return str(error)
        return ""

    call = USUAL["only it"]
    compiled = saker.compile(call)
    for step in range(6):
        gradient = writes if step > 2 else None
        same(outcome(compiled, step, gradient)[0], outcome(call, step, gradient)[0])


def test_strides_of_gradients() -> None:
    def gradient(results: list[Tensor], _: Any) -> None:
        results[0].sum().backward()

    def turned(results: list[Tensor], _: Any) -> None:
        (results[0].t() @ torch.ones(3, 2)).exp().sum().backward()

    call = lambda x, m, w: Gelu.apply(RMSNorm.apply(x @ m, w))  # noqa: E731
    check(call, True, gradient)
    check(call, True, turned)
    compiled = saker.compile(call)
    for step in range(8):
        now = (gradient, gradient, None, turned)[step % 4]
        same(outcome(compiled, step, now)[0], outcome(call, step, now)[0])


def test_autocast_around() -> None:
    def call(x: Tensor, m: Tensor, w: Tensor) -> Tensor:
        return Gelu.apply(x @ m) * w

    def around(run: Callable) -> Callable:
        def inner(*args: Any) -> Any:
            with torch.autocast("cpu", torch.bfloat16):
                return run(*args)

        return inner

    compiled = saker.compile(call)
    for step in range(5):
        same(outcome(around(compiled), step)[0], outcome(around(call), step)[0])

    def casts(results: list[Tensor], _: Any) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            results[0].sum().backward()

    compiled = saker.compile(call)
    for step in range(5):
        gradient = casts if step > 2 else None
        same(outcome(compiled, step, gradient)[0], outcome(call, step, gradient)[0])


def test_a_model_that_is_trained() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)
            self.weight = torch.nn.Parameter(torch.ones(8))

        def forward(self, x: Tensor) -> Tensor:
            return x + Gelu.apply(RMSNorm.apply(self.linear(x), self.weight))

    seen = []
    for wrap in (lambda each: each, saker.compile):
        torch.manual_seed(0)
        model = torch.nn.Sequential(*[Layer() for _ in range(3)])
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        run = wrap(model)
        losses = []
        for _ in range(6):
            optimizer.zero_grad()
            result = run(torch.randn(5, 8))
            loss = result.pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        seen.append((losses, [each.detach() for each in model.parameters()]))
        name = type(result.grad_fn).__name__
    same(seen[1], seen[0])
    assert "CompiledFunction" in name


def test_functions_only_forward() -> None:
    """Without a backward nothing is opened."""
    compiled = saker.compile(USUAL["gelu"])
    for _ in range(5):
        x = torch.randn(3, 4)
        same(compiled(x, *weights()).detach(), USUAL["gelu"](x, *weights()).detach())
    assert [outcome(compiled, step)[1] for step in range(8)].count(True) > 1


FACTORS: dict[str, Any] = {"list": [1.0], "dict": {0: 1.0}, "nested": ([1.0],)}


def first(factors: Any) -> float:
    return factors[0][0] if isinstance(factors, tuple) else factors[0]


@pytest.mark.parametrize("kind", FACTORS)
def test_containers_that_change(kind: str) -> None:
    """A context that keeps a container sees what becomes of it."""
    numbers = FACTORS[kind][0] if kind == "nested" else FACTORS[kind]

    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.factors = FACTORS[kind]
        return x * first(ctx.factors)

    made = function(forward, lambda ctx, g: g * first(ctx.factors))

    def call(x: Tensor, m: Tensor, w: Tensor) -> Tensor:
        return made.apply(x @ m) * w

    compiled = saker.compile(call)
    for step in range(12):
        seen = []
        for run in (call, compiled):
            numbers[0] = 2.0 if step == 7 else 1.0

            def gradient(results: list[Tensor], _: Any, step: int = step) -> None:
                if step in (5, 9):
                    numbers[0] = 5.0
                results[0].sum().backward()

            seen.append(outcome(run, step, gradient))
        same(seen[1][0], seen[0][0])
        assert seen[1][1] or step < 2 or step == 7


def test_containers_of_tensors_stay_outside() -> None:
    scale = torch.tensor(2.0)
    made = function(lambda ctx, x, factors: x * factors[0], lambda ctx, g: (g * 2, None))
    check(lambda x, m, w: made.apply(x @ m, [scale]) * w, opened=False)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        return g @ w.t().to(g.dtype), x.t().to(g.dtype) @ g


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_casts_in_a_forward(dtype: torch.dtype, inside: bool, grad: bool) -> None:
    """A Function that is called from a replay finds the autocast of the call that was recorded."""

    def call(x: Tensor, w: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype, enabled=inside or torch.is_autocast_enabled("cpu")):
            return Product.apply(x, w) * 2

    compiled = saker.compile(call)
    for step in range(6):
        seen = []
        for run in (call, compiled):
            torch.manual_seed(step)
            x, w = torch.randn(3, 4, requires_grad=grad), torch.randn(4, 4, requires_grad=grad)
            with torch.autocast("cpu", dtype, enabled=not inside):
                y = run(x, w)
            if grad:
                y.float().sin().sum().backward()
            seen.append([y.detach(), x.grad, w.grad, (x.detach() @ w.detach()).dtype, torch.get_autocast_dtype("cpu")])
        same(seen[1], seen[0])
