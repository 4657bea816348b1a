"""Arguments that come to see other memory, leaves made inside, and backwards that write, through saker.aot_function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker


def numbers(*sizes: int, requires_grad: bool = False) -> torch.Tensor:
    made = torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))
    return made.requires_grad_(requires_grad).add(1) if requires_grad else made


def captured(call: Callable, *args: Any) -> Any:
    before = saker.stats()["graphs"], saker.stats()["fallbacks"]
    result = call(*args)
    assert saker.stats()["graphs"] > before[0]
    assert saker.stats()["fallbacks"] == before[1]
    return result


# --- set_ ---


def set_to_new(a):
    b = torch.arange(9, dtype=a.dtype).reshape(3, 3)
    with torch.no_grad():
        a.set_(b)
    return a * b


def set_to_a_view(a):
    b = torch.arange(12, dtype=a.dtype).reshape(3, 4) * 2
    with torch.no_grad():
        a.set_(b[1:, ::2])
    return a + 1, b


def set_and_given(a):
    with torch.no_grad():
        a.set_(torch.ones(5))
    return a, a.sum()


def set_of_intermediates(a):
    x, y = a * 2, a * 3
    x.set_(y[0])
    x.mul_(2)  # y sees it
    return x + 1, y


def written_before(a):
    a.mul_(2)
    with torch.no_grad():
        a.set_(a + 1)
    return a * 3


def old_memory_written(a):
    view = a.view(-1)
    with torch.no_grad():
        a.set_(torch.ones(2, 2))
        view.mul_(2)
    return a + 1


SETS = [set_to_new, set_to_a_view, set_and_given, set_of_intermediates, old_memory_written]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("fn", SETS)
def test_set(fn: Callable, requires_grad: bool) -> None:
    if fn is set_of_intermediates and requires_grad:
        pytest.skip("autograd refuses it in eager mode")

    def run(call: Callable) -> Any:
        a = numbers(3, 3, requires_grad=requires_grad)
        whole = a.detach()  # sees the memory that the argument had
        results = call(a)
        results = results if isinstance(results, tuple) else (results,)
        told = [(r.requires_grad, r is a, tuple(r.stride())) for r in results]
        gradients = [r.sum().requires_grad for r in results]
        return [a, whole, *results], [told, gradients, a._version, a.requires_grad, a.is_leaf, tuple(a.shape)]

    expected = run(fn)
    compiled = saker.aot_function(fn)
    # With other sizes than before, no backward is possible: eager mode runs.
    plain = not requires_grad or fn is set_to_new
    for check in (captured if plain else lambda call, f: call(f), lambda call, f: call(f)):
        got = check(run, compiled)
        torch.testing.assert_close(got[0], expected[0])
        assert got[1] == expected[1]


@pytest.mark.parametrize("fn", SETS)
def test_set_in_a_recording(fn: Callable) -> None:
    def run(call: Callable) -> list[torch.Tensor]:
        a = numbers(3, 3)
        whole = a.detach()
        results = call(a)
        return [a, whole, *(results if isinstance(results, tuple) else (results,))]

    expected = run(fn)
    compiled = saker.compile(fn, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(run(compiled), expected)


def test_set_to_another_argument() -> None:
    def fn(a, b):
        with torch.no_grad():
            a.set_(b)
        return a * 2

    compiled = saker.aot_function(fn)
    for _ in range(2):
        a, b = numbers(3), numbers(4)
        torch.testing.assert_close(compiled(a, b), b * 2)
        b.add_(1)
        torch.testing.assert_close(a, b)


def test_gradient_behind_set() -> None:
    def run(call: Callable) -> torch.Tensor:
        leaf = torch.ones(3, 3, requires_grad=True)
        call(leaf * 2).sum().backward()
        return leaf.grad

    torch.testing.assert_close(captured(run, saker.aot_function(set_to_new)), run(set_to_new))


def test_set_and_a_write_that_autograd_sees() -> None:
    def fn(a, b):
        with torch.no_grad():
            a.set_(b)
        a.mul_(2)
        return a + b

    with pytest.raises(AssertionError, match="other mutations") as raised:
        saker.aot_function(fn)(numbers(3, requires_grad=True), numbers(3, requires_grad=True))
    assert isinstance(raised.value, saker.CaptureError)


def test_storage_resized_and_replaced() -> None:
    import torch._inductor

    def fn(a):
        with torch.no_grad():
            torch.ops.inductor.resize_storage_bytes_(a, 0)
            a.set_(torch.ones(2))

    compiled = saker.aot_function(fn)
    for _ in range(2):
        a = torch.zeros(8, requires_grad=True)
        old = a.detach()
        compiled(a)
        torch.testing.assert_close(a.detach(), torch.ones(2))
        assert old.untyped_storage().nbytes() == 0
        assert a.requires_grad


# --- leaves ---

LEAVES: dict[str, Callable] = {
    "a view of an argument": lambda x: x.view(-1).requires_grad_(),
    "detached": lambda x: (x * 2).detach().requires_grad_(),
    "a copy": lambda x: (x.detach().clone().requires_grad_(), x * 2),
    "a new one": lambda x: (torch.ones(3, requires_grad=True), x + 1),
}


@pytest.mark.parametrize("name", LEAVES)
def test_leaf_made_inside(name: str) -> None:
    fn = LEAVES[name]

    def run(call: Callable) -> Any:
        results = call(numbers(3, 2))
        results = results if isinstance(results, tuple) else (results,)
        for result in results:
            if result.requires_grad:
                (result * 3).sum().backward()
        return [[r.detach(), r.grad] for r in results], [(r.is_leaf, r.requires_grad, r._base is None) for r in results]

    expected = run(fn)
    compiled = saker.aot_function(fn)
    for check in (captured, lambda call, f: call(f)):
        got = check(run, compiled)
        torch.testing.assert_close(got[0], expected[0])
        assert got[1] == expected[1]


def test_hidden_leaf() -> None:
    """Nobody gets the leaf, but what depends on it requires grad."""

    def fn(x):
        return x * torch.ones(3, requires_grad=True)

    compiled = saker.aot_function(fn)
    for _ in range(2):
        result = compiled(numbers(3))
        assert result.requires_grad
        assert not result.is_leaf
        result.sum().backward()


def test_leaf_that_a_result_depends_on() -> None:
    def fn(x):
        leaf = torch.ones(3, requires_grad=True)
        return leaf, (leaf * x).sum()

    compiled = saker.aot_function(fn)
    for _ in range(2):
        x = numbers(3)
        leaf, loss = compiled(x)
        loss.backward()
        torch.testing.assert_close(leaf.grad, x)


# --- backwards that write ---


@torch.library.custom_op("saker_test::counting", mutates_args=())
def counting(x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    return x.clone()


@counting.register_fake
def _(x, seen):
    return torch.empty_like(x)


def _backward(ctx, gradient):
    with torch.no_grad():
        ctx.seen.add_(gradient.abs())
        ctx.seen.mul_(2)
    return gradient * 2, None


def _setup(ctx, inputs, output):
    ctx.seen = inputs[1]


counting.register_autograd(_backward, setup_context=_setup)


@pytest.mark.parametrize("partition", ["min_cut", "default"])
def test_backward_writes_to_an_argument(partition: str) -> None:
    def fn(x, seen, other):
        other.mul_(5)
        return counting(x * 2, seen) + other

    def run(call: Callable) -> Any:
        x, seen, other = torch.ones(3, requires_grad=True), torch.zeros(3), torch.full((3,), 2.0)
        y = call(x, seen, other)
        versions = [seen._version]
        first = [seen.clone(), other.clone()]
        y.sin().sum().backward()
        return [y, x.grad, seen, other, *first], [*versions, seen._version]

    expected = run(fn)
    compiled = saker.aot_function(fn, partition_fn=partition)
    for check in (captured, lambda call, f: call(f)):
        got = check(run, compiled)
        torch.testing.assert_close(got[0], expected[0])
        assert got[1] == expected[1]


def test_backward_that_writes_is_not_differentiated() -> None:
    x, seen = numbers(3, requires_grad=True), numbers(3, requires_grad=True)
    y = saker.aot_function(counting)(x, seen)
    with pytest.raises(RuntimeError, match="create_graph=True"):
        torch.autograd.grad(y.sum(), x, create_graph=True)
