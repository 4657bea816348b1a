"""torch.autograd.Function in compiled code: once its backward has run, what forward and backward do are operators of
compiled graphs, and replays run no Python for them. Where that would differ from eager mode, the Function is called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd.function import once_differentiable

import saker
from differential import same

Tensor = torch.Tensor


def function(forward: Callable, backward: Callable, **more: Any) -> Any:
    names = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    names.update({name: staticmethod(each) for name, each in more.items()})
    return type(torch.autograd.Function)("Made", (torch.autograd.Function,), names)


def weights() -> list[Tensor]:
    torch.manual_seed(7)
    return [torch.randn(4, 4, requires_grad=True), torch.randn(4, requires_grad=True)]


def outcome(call: Callable, seed: int, gradient: Callable | None = None) -> tuple[list[Any], bool]:
    """Results and gradients of a call, and whether its gradients came from a compiled graph."""
    parameters = weights()
    torch.manual_seed(seed)
    x = torch.randn(3, 4, requires_grad=True)
    made = call(x, *parameters)
    results = [each for each in (made if isinstance(made, tuple) else (made,)) if each is not None]
    followed = [each for each in results if each.requires_grad]
    compiled = "CompiledFunction" in type(followed[0].grad_fn).__name__
    if gradient:
        extra = gradient(followed, [x, *parameters])
    else:
        extra = None
        sum((each.sin() * torch.arange(4.0)).sum() for each in followed).backward()
    grads = [each.grad for each in (x, *parameters)]
    return [[each.detach() for each in results], [each.requires_grad for each in results], grads, extra], compiled


def check(call: Callable, opened: bool, gradient: Callable | None = None, calls: int = 6) -> Any:
    compiled = saker.compile(call)
    seen = []
    for step in range(calls):
        expected, _ = outcome(call, step, gradient)
        got, how = outcome(compiled, step, gradient)
        same(got, expected)
        seen.append(how)
    assert seen == [False, False] + [opened] * (calls - 2)
    return compiled


# --- Functions that people write ---


def rounds(ctx: Any, x: Tensor) -> Tensor:
    return x.round()


StraightThrough = function(rounds, lambda ctx, g: g)


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return -ctx.scale * g, None


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 0.5 * (1 + torch.erf(x / 2**0.5))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        density = torch.exp(-0.5 * x * x) / (2 * torch.pi) ** 0.5
        return g * (0.5 * (1 + torch.erf(x / 2**0.5)) + x * density)


class Silu(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * x.sigmoid()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        return g * (x.sigmoid() * (1 - y) + y)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, scale)
        return x * scale * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight, scale = ctx.saved_tensors
        normal = x * scale
        inner = g * weight
        dx = scale * (inner - normal * (inner * normal).mean(-1, keepdim=True)) if ctx.needs_input_grad[0] else None
        return dx, (g * normal).sum(0), None


class ClipsGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, low: float, high: float) -> Tensor:
        ctx.bounds = (low, high)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        low, high = ctx.bounds
        return g.clamp(low, high), None, None


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> Tensor:
        logs = torch.log_softmax(logits, -1)
        ctx.save_for_backward(logs, target)
        return -logs.gather(1, target[:, None]).squeeze(1).mean()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        logs, target = ctx.saved_tensors
        grad = logs.exp()
        one = torch.zeros_like(grad).scatter(1, target[:, None], 1.0)
        return (grad - one) * (g / target.shape[0]), None


class Quantized(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bits: int) -> Tensor:
        top = 2 ** (bits - 1) - 1
        scale = x.abs().amax() / top
        inside = (x / scale).abs() <= top - 1
        ctx.save_for_backward(inside)
        return torch.clamp((x / scale).round(), -top, top) * scale

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (inside,) = ctx.saved_tensors
        return g * inside, None


class LowRank(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, *more: Any) -> Tensor:
        a, b, alpha = more
        ctx.save_for_backward(x, weight, a, b)
        ctx.alpha = alpha
        return x @ weight + alpha * (x @ a) @ b

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight, a, b = ctx.saved_tensors
        back = g @ b.t()
        dx = g @ weight.t() + ctx.alpha * back @ a.t()
        return dx, None, ctx.alpha * x.t() @ back, ctx.alpha * (x @ a).t() @ g, None


USUAL = {
    "straight-through": lambda x, m, w: StraightThrough.apply(x @ m) * w,
    "reversal": lambda x, m, w: Reversal.apply(x @ m, 0.5) * w,
    "gelu": lambda x, m, w: Gelu.apply(x @ m) * w,
    "silu": lambda x, m, w: Silu.apply(x @ m) * w,
    "norm": lambda x, m, w: RMSNorm.apply(x, w) @ m,
    "norm of itself": lambda x, m, w: RMSNorm.apply(x @ m, w, 1e-3),
    "clipping": lambda x, m, w: ClipsGradient.apply(x @ m, -0.1, 0.1) * w,
    "cross entropy": lambda x, m, w: CrossEntropy.apply(x @ m * w, torch.tensor([0, 3, 1])),
    "quantisation": lambda x, m, w: Quantized.apply(x @ m, 4) * w,
    "low rank": lambda x, m, w: LowRank.apply(x, m.detach(), m[:, :2].clone(), m[2:].clone(), 0.3) * w,
    "several": lambda x, m, w: Gelu.apply(RMSNorm.apply(Reversal.apply(x @ m, 2.0), w)) @ Silu.apply(m),
    "only it": lambda x, m, w: Gelu.apply(x),
}


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
    check(lambda x, m, w: outer.apply(x @ m) * w, opened=False)


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


def draws(ctx: Any, g: Tensor) -> Tensor:
    return g * torch.rand_like(g)


def asks(ctx: Any, g: Tensor) -> Tensor:
    return g * 2 if g.is_contiguous() else g * 3


@pytest.mark.parametrize("backward", [appends, counts, prints, branches, hooks, remembers, writes, draws, asks])
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
