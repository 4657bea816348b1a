"""Functions that the user wrote (torch.autograd.Function), inside of what is compiled ahead of time. Where one would be
differentiated, the program runs in eager mode: recording its backward ahead would run code of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils import _pytree as pytree

import saker
from differential import Halved, later_writes


class Flat(Function):
    """A view of its argument."""

    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.view(2, 3) * 3


class Detached(Function):
    @staticmethod
    def forward(ctx, x):
        return x.detach()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 7


class Doubling(Function):
    """Writes to its argument."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 5


class Sorted(Function):
    """A result without a gradient."""

    @staticmethod
    def forward(ctx, x):
        values, order = x.sort(dim=-1)
        ctx.mark_non_differentiable(order)
        ctx.save_for_backward(order)
        return values, order

    @staticmethod
    def backward(ctx, gradient, _order):
        (order,) = ctx.saved_tensors
        return torch.zeros_like(gradient).scatter(-1, order, gradient)


class Product(Function):
    """Saves arguments, a result and an intermediate value; computes what is needed."""

    @staticmethod
    def forward(ctx, x, y, scale):
        inner = (x * y).sin()
        result = inner * scale
        ctx.scale = scale
        ctx.save_for_backward(x, y, inner, result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        x, y, inner, result = ctx.saved_tensors
        common = gradient * ((x * y).cos() * ctx.scale + 0.1 * inner * result)
        left = common * y if ctx.needs_input_grad[0] else None
        right = common * x if ctx.needs_input_grad[1] else None
        return left, right, None


class Pair(Function):
    """Two results, in the newer style; a backward that is not linear."""

    @staticmethod
    def forward(x):
        return x.sin(), x.cos()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], *output)

    @staticmethod
    def backward(ctx, left, right):
        x, sine, cosine = ctx.saved_tensors
        return left * cosine - right * sine + x * (left == 0)


class Unmaterialized(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, left, right):
        if left is None:
            return right * 100
        return left * 2 if right is None else left * 2 + right * 3


class Rounded(Function):
    """Straight through."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient.clamp(-1, 1)


class Cube(Function):
    """A backward with a Function in it, which can be differentiated."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * Halved.apply(x) * x


def identity(x, y):
    return Halved.apply(x)


def identity_of_intermediate(x, y):
    z = x * y
    return Halved.apply(z), z


def identity_viewed(x, y):
    out = Halved.apply(x)
    return out, out.t(), out.sum()


def view(x, y):
    return Flat.apply(x), y * 2


def view_of_intermediate(x, y):
    return Flat.apply(x.exp())


def detached(x, y):
    return Detached.apply(x)


def dirty(x, y):
    z = x * 1
    return Doubling.apply(z), z.cos()


def dirty_argument(x, y):
    Doubling.apply(x)
    return x * y


def without_gradient(x, y):
    values, order = Sorted.apply(x)
    return values * y, order


def saved(x, y):
    return Product.apply(x, y, 3.0).exp() + x


def twice_saved(x, y):
    z = Product.apply(x, y, 2.0)
    return Product.apply(z, x, 0.5)


def pair(x, y):
    return Pair.apply(x * y)


def one_of_a_pair(x, y):
    return Pair.apply(x)[1] * y


def unmaterialized(x, y):
    left, right = Unmaterialized.apply(x)
    return left * y, right


def straight_through(x, y):
    return Rounded.apply(x * 3) * y


def in_the_backward(x, y):
    return Cube.apply(x) * y


PROGRAMS = [
    *(identity, identity_of_intermediate, identity_viewed, view, view_of_intermediate, detached, dirty),
    *(dirty_argument, without_gradient, saved, twice_saved, pair, one_of_a_pair, unmaterialized),
    *(straight_through, in_the_backward),
]


def arguments(leaves: bool, which: tuple[bool, bool]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    x = torch.arange(6.0).reshape(2, 3).sin().requires_grad_(which[0])
    y = (torch.arange(6.0) + 1).reshape(2, 3).cos().requires_grad_(which[1])
    return [x, y], [x, y] if leaves else [x * 1, y * 1]


def facts(tensor: torch.Tensor, args: list[torch.Tensor]) -> list[Any]:
    """What a tensor is to the arguments."""
    base = tensor._base
    return [
        *(tensor.detach().clone(), tensor.requires_grad, tensor.is_leaf, tensor._is_view(), tensor._version),
        None if base is None else [base is arg for arg in args],
        [saker._C.share_memory(tensor, arg) for arg in args],
    ]


def outcome(
    fn: Callable, leaves: bool, which: tuple[bool, bool], used: Callable[[int], bool], twice: bool
) -> list[Any]:
    """Results, gradients (for some of the results), gradients of these, and what later writes do."""
    given, args = arguments(leaves, which)
    try:
        results, _ = pytree.tree_flatten(fn(*args))
    except RuntimeError as error:
        return [type(error)]
    found: list[Any] = [facts(result, args) for result in results] + [facts(arg, args) for arg in args]
    roots = [result for i, result in enumerate(results) if result.requires_grad and used(i)]
    wanted = [tensor for tensor in given if tensor.requires_grad]
    if roots and wanted:
        total = sum((result.sin() * (i + 1)).sum() for i, result in enumerate(roots))
        try:
            gradients = torch.autograd.grad(total, wanted, create_graph=twice, allow_unused=True)
            found.append([None if g is None else g.detach() for g in gradients])
            again = [g for g in gradients if g is not None and g.requires_grad]
            if twice and again:
                second = torch.autograd.grad(sum(g.cos().sum() for g in again), wanted, allow_unused=True)
                found.append([Close(g) for g in second])
        except RuntimeError as error:
            found.append(type(error))
    return found + later_writes([*results, *args], lambda tensor: tensor.detach().clone())


class Close(NamedTuple):
    """A gradient of gradients, which are summed up in another order."""

    gradient: torch.Tensor | None


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, Close) and expected.gradient is not None:
        return torch.allclose(found.gradient, expected.gradient, rtol=1e-3, atol=1e-3, equal_nan=True)
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(same(f, e) for f, e in zip(found, expected, strict=True))
    if isinstance(expected, torch.Tensor):
        return isinstance(found, torch.Tensor) and torch.equal(found.nan_to_num(9.5), expected.nan_to_num(9.5))
    return found == expected


def check(program: Callable, compiled: Callable, *how: Any) -> None:
    expected = outcome(program, *how)
    for _ in range(2):
        found = outcome(compiled, *how)
        assert same(found, expected), f"{found} is not {expected}"


def passed(module: torch.fx.GraphModule, _examples: list[Any]) -> Callable:
    return module


@pytest.mark.parametrize("which", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_are_those_of_eager_mode(program: Callable, leaves: bool, which: tuple[bool, bool]) -> None:
    before = saker.stats()["fallbacks"]
    compiled = saker.aot_function(program)
    for twice in (False, True):
        check(program, compiled, leaves, which, lambda i: True, twice)
    if not any(which):
        assert saker.stats()["fallbacks"] == before


@pytest.mark.parametrize("used", [0, 1])
@pytest.mark.parametrize("program", [pair, unmaterialized, identity_of_intermediate, identity_viewed, view])
def test_results_without_a_gradient(program: Callable, used: int) -> None:
    compiled = saker.aot_function(program)
    for twice in (False, True):
        check(program, compiled, True, (True, True), lambda i: i == used, twice)


def test_under_autocast() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return Product.apply(x @ y.t(), torch.ones(2, 2, dtype=torch.bfloat16), 2.0).float()

    def within(fn: Callable) -> Callable:
        def call(*args: torch.Tensor) -> Any:
            with torch.autocast("cpu", torch.bfloat16):
                return fn(*args)

        return call

    compiled = saker.aot_function(program)
    for twice in (False, True):
        check(within(program), within(compiled), True, (True, True), lambda i: True, twice)


def test_parameters_that_are_closed_over() -> None:
    weight = torch.nn.Parameter(torch.arange(3.0).cos())

    def program(x: torch.Tensor) -> torch.Tensor:
        return Product.apply(x, weight.expand(2, 3), 2.0)

    compiled = saker.aot_function(program)
    for twice in (False, True):
        found = []
        for fn in (program, compiled, compiled):
            x = torch.arange(6.0).reshape(2, 3).sin().requires_grad_()
            first = torch.autograd.grad(fn(x).sin().sum(), [x, weight], create_graph=twice)
            found.append([g.detach() for g in first])
            if twice:
                found[-1] += torch.autograd.grad(sum(g.sum() for g in first), [x, weight])
        torch.testing.assert_close(found[1], found[0])
        torch.testing.assert_close(found[2], found[0])


def test_random_numbers_of_a_function_are_drawn_once() -> None:
    class Noise(Function):
        @staticmethod
        def forward(ctx, x):
            noise = torch.rand_like(x)
            ctx.save_for_backward(noise, x)
            return x * noise * x

        @staticmethod
        def backward(ctx, gradient):
            noise, x = ctx.saved_tensors
            return 2 * gradient * noise * x

    def outcome(fn: Callable, twice: bool) -> list[torch.Tensor]:
        torch.manual_seed(3)
        x = torch.arange(4.0).requires_grad_()
        result = fn(x)
        (first,) = torch.autograd.grad(result.sum(), x, create_graph=twice)
        found = [result.detach(), first.detach(), torch.rand(3)]
        return [*found, *torch.autograd.grad(first.sum(), x)] if twice else found

    compiled = saker.aot_function(Noise.apply)
    for twice in (False, True):
        torch.testing.assert_close(outcome(compiled, twice), outcome(Noise.apply, twice), rtol=0, atol=0)


def test_a_backward_runs_when_the_user_asks_for_it() -> None:
    told = []

    class Tells(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            told.append(gradient.tolist())
            return gradient * gradient.sum().item()

    compiled = saker.aot_function(lambda x: Tells.apply(x.sin()))
    x = torch.arange(2.0).requires_grad_()
    results = [compiled(x), compiled(x)]
    assert told == []
    results[1].sum().backward()
    assert told == [[1.0, 1.0]]
    (results[0] * 2).sum().backward()
    assert told == [[1.0, 1.0], [2.0, 2.0]]
    torch.testing.assert_close(x.grad, x.detach().cos() * (2 + 8))
    with torch.no_grad():
        compiled(x)
    assert len(told) == 2
