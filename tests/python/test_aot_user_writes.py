"""Operators of the user that write to their arguments, compiled and in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import saker
from differential import assert_same

CALLS: list[str] = []  # what the kernels were given, in their order


def seen(name: str, *tensors: Tensor) -> None:
    CALLS.append(name + "".join(f" {t.double().sum().item():.4f} {tuple(t.stride())}" for t in tensors))


@torch.library.custom_op("saker_writes::scale", mutates_args=("x",))
def scale(x: Tensor, by: float) -> None:
    seen("scale", x)
    x.mul_(by)


@torch.library.custom_op("saker_writes::by_numpy", mutates_args=("x",))
def by_numpy(x: Tensor) -> None:
    seen("by_numpy", x)
    x.detach().numpy()[...] += 1


@torch.library.custom_op("saker_writes::nothing", mutates_args=("x",))
def nothing(x: Tensor) -> None:
    seen("nothing", x)


@torch.library.custom_op("saker_writes::swap", mutates_args=("x", "y"))
def swap(x: Tensor, y: Tensor) -> Tensor:
    seen("swap", x, y)
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)
    y.add_(1)
    return x - y


@swap.register_fake
def _(x, y):
    return torch.empty_like(x)


@torch.library.custom_op("saker_writes::many", mutates_args=("xs", "maybe"))
def many(xs: list[Tensor], maybe: Tensor | None, by: Tensor) -> list[Tensor]:
    seen("many", *xs, by)
    for x in xs:
        x.add_(by)
    if maybe is not None:
        maybe.zero_()
    return [x * 2 for x in xs]


@many.register_fake
def _(xs, maybe, by):
    return [torch.empty_like(x) for x in xs]


@torch.library.custom_op("saker_writes::dot", mutates_args=("count",))
def dot(x: Tensor, y: Tensor, count: Tensor) -> Tensor:
    seen("dot", x, y, count)
    count.add_(1)
    return (x * y).sum()


@dot.register_fake
def _(x, y, count):
    return x.new_empty(())


LIBRARY = torch.library.Library("saker_writes_raw", "DEF")
LIBRARY.define("bump_(Tensor(a!) x) -> Tensor(a!)")
LIBRARY.impl("bump_", lambda x: (seen("bump_", x), x.add_(1))[1], "CPU")
LIBRARY.define("store(Tensor x, *, Tensor(a!) out) -> ()")


def _store(x: Tensor, *, out: Tensor) -> None:
    seen("store", x)
    out.numpy()[...] = x.numpy() * 2


LIBRARY.impl("store", _store, "CPU")
LIBRARY.define("counted_dot(Tensor x, Tensor y, Tensor(a!) count) -> Tensor")
LIBRARY.impl("counted_dot", lambda x, y, count: (seen("counted_dot", x, y), count.add_(1), (x * y).sum())[2], "CPU")
LIBRARY.impl("counted_dot", lambda x, y, count: x.new_empty(()), "Meta")


class CountedDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, count):
        ctx.save_for_backward(x, y)
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.saker_writes_raw.counted_dot(x, y, count)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x, None


LIBRARY.impl("counted_dot", CountedDot.apply, "Autograd")
raw = torch.ops.saker_writes_raw


# --- programs: arguments a and b ---


def to_argument(a, b):
    scale(a, 3.0)
    return a + b


def to_argument_unseen(a, b):
    by_numpy(a)
    return a * 2


def to_argument_in_name_only(a, b):
    nothing(a)
    return b + 1


def to_intermediate(a, b):
    c = a * 2
    scale(c, 0.5)
    return c + b


def intermediate_given(a, b):
    c = a * 2
    scale(c, 0.5)
    scale(c, 0.5)
    return c, c[0]


def to_view_of_argument(a, b):
    scale(a[1:, ::2], 3.0)
    return a.sum(), b


def to_view_of_intermediate(a, b):
    c = a + 1
    scale(c.t()[1], 4.0)
    by_numpy(c[:, :1])
    return c * b


def after_a_view(a, b):
    v = a.view(-1)
    scale(a, 2.0)
    return v * 2, v


def both_written(a, b):
    d = swap(a, b)
    return d, a * b


def intermediates_swapped(a, b):
    c, e = a.sin(), b.cos()
    d = swap(c, e)
    return c, e, d


def lists(a, b):
    c = b + 1
    out = many([a, c], None, torch.ones(()))
    return out[0], c


def lists_and_maybe(a, b):
    out = many([a], b, torch.ones(()))
    return out[0], b + 1


def mixed_with_aten(a, b):
    with torch.no_grad():
        a.add_(1)
    scale(a, 2.0)
    with torch.no_grad():
        a.add_(1)
    by_numpy(a)
    return a.sum()


def in_order(a, b):
    scale(a, 2.0)
    nothing(b)
    by_numpy(a)
    c = a.exp()
    nothing(c)
    return c.sum()


def unused(a, b):
    scale(a * 2, 2.0)
    return b + 1


def alias_returned(a, b):
    with torch.no_grad():
        c = raw.bump_(a)
    return c, b + 1


def raw_out(a, b):
    out = torch.empty(a.shape)
    raw.store(a.detach(), out=out)
    return out + b


def transposed(a, b):
    c = (a * 2).t()
    scale(c, 2.0)
    return c


def without_formula(a, b):
    count = torch.zeros(())
    return dot(a, b, count) * 2, count


def with_formula(a, b):
    count = torch.zeros(())
    return raw.counted_dot(a, b, count) * 2, count


def saved_before(a, b):
    c = a * 2
    d = c.sin()  # its backward needs what is written
    scale(c, 2.0)
    return d


def saved_after(a, b):
    c = a * 2
    scale(c, 2.0)
    return c.sin() * b


def same_twice(a, b):
    return swap(a, a)


def overlapping(a, b):
    swap(a[:2], a[1:])
    return a + 1


def expanded(a, b):
    by_numpy(b[:1].expand(3, 3))
    return b + 1


PROGRAMS = [
    to_argument,
    to_argument_unseen,
    to_argument_in_name_only,
    to_intermediate,
    intermediate_given,
    to_view_of_argument,
    to_view_of_intermediate,
    after_a_view,
    both_written,
    intermediates_swapped,
    lists,
    lists_and_maybe,
    mixed_with_aten,
    in_order,
    unused,
    alias_returned,
    raw_out,
    transposed,
    without_formula,
    with_formula,
    saved_before,
    saved_after,
    same_twice,
    overlapping,
    expanded,
]
# Where eager mode runs: autograd follows what such an operator does inside, or what is written overlaps.
EAGER = {same_twice, overlapping, expanded}


def foreign(fn: Callable) -> Callable:
    def check_and_run(module, examples):
        inputs = {node for node in module.graph.nodes if node.op == "placeholder"}
        for node in module.graph.nodes:
            schema = getattr(node.target, "_schema", None)
            if schema is None:
                continue
            for formal, arg in zip(schema.arguments, node.args, strict=False):
                assert not (formal.is_write and arg in inputs), node
        return module

    return saker.aot_function(fn, fw_compiler=check_and_run)


WAYS = {
    "min_cut": saker.aot_function,
    "default": lambda fn: saker.aot_function(fn, partition_fn="default"),
    "foreign": foreign,
    "compile": saker.compile,
}
GRADS = {"none": (), "leaf": (0, 1), "history": (0,), "second": (1,)}


def arguments(kind: str) -> list[Tensor]:
    made = []
    for i in range(2):
        t = torch.randn(3, 3, generator=torch.Generator().manual_seed(i))
        t.requires_grad_(i in GRADS[kind])
        made.append(t * 1 if kind == "history" else t)
    return made


def tensors_of(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def looks(tensor: Tensor) -> tuple:
    known = tensor.detach().clone(), tensor._version, tensor.requires_grad, tensor.is_leaf, tensor._is_view()
    return (*known, tuple(tensor.stride()))


def outcome(call: Callable, kind: str) -> list[Any]:
    """What the caller sees of a call, of its backward, and of a backward after a later write."""
    CALLS.clear()
    args = arguments(kind)
    try:
        results = tensors_of(call(*args))
    except Exception as error:
        return ["raised", type(error), str(error), [looks(a) for a in args], list(CALLS)]
    out: list[Any] = [[looks(t) for t in (*args, *results)], list(CALLS)]
    out.append([[r is a for a in args] for r in results])
    wanted = [a for a in args if a.requires_grad]
    asked = [r for r in results if r.requires_grad]
    if not wanted or not asked:
        return out
    try:
        total = sum((r * r).sum() for r in asked)
        out.append(torch.autograd.grad(total, wanted, allow_unused=True, retain_graph=True))
        with torch.no_grad():
            results[0].add_(1)
        out.append(torch.autograd.grad(total, wanted, allow_unused=True))
    except Exception as error:
        out += [type(error), str(error).partition("modified by an inplace operation")[0]]
    return [*out, list(CALLS)]


@pytest.mark.parametrize("kind", GRADS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fn", PROGRAMS)
def test_as_in_eager_mode(fn: Callable, way: str, kind: str) -> None:
    expected = outcome(fn, kind)
    compiled = WAYS[way](fn)
    for _ in range(3):
        assert_same(outcome(compiled, kind), expected)


@pytest.mark.parametrize("way", ["min_cut", "foreign"])
@pytest.mark.parametrize("fn", [p for p in PROGRAMS if p not in EAGER])
def test_is_compiled(fn: Callable, way: str) -> None:
    before = saker.stats()["fallbacks"]
    WAYS[way](fn)(*arguments("none"))
    assert saker.stats()["fallbacks"] == before


@pytest.mark.parametrize("fn", [to_argument, to_intermediate, saved_after])
def test_is_compiled_with_gradients(fn: Callable) -> None:
    before = saker.stats()["fallbacks"]
    saker.aot_function(fn)(*arguments("leaf"))
    assert saker.stats()["fallbacks"] == before


def test_second_derivatives() -> None:
    def second(call: Callable) -> Tensor:
        a, b = arguments("leaf")
        loss, _ = call(a, b)
        (first,) = torch.autograd.grad((loss * a).sum(), a, create_graph=True)
        return torch.autograd.grad(first.sum(), (a, b))

    torch.testing.assert_close(second(saker.aot_function(with_formula)), second(with_formula))


def test_a_tensor_that_the_function_closes_over() -> None:
    def run(way: Callable) -> tuple:
        state = torch.zeros(3)

        def fn(a):
            scale(state, 2.0)
            by_numpy(state)
            return a + state

        call = way(fn)
        return [call(torch.ones(3)) for _ in range(3)], state, state._version

    expected = run(lambda fn: fn)
    for way in WAYS.values():
        assert_same(run(way), expected)


def test_a_module_with_a_counter() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3, 3))
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            dot(x, x, self.count)
            return (x * self.weight).sin().sum()

    def run(way: Callable) -> tuple:
        module = Counting()
        call = way(module)
        x = torch.ones(3, 3)
        for _ in range(3):
            call(x).backward()
        return module.count, module.count._version, module.weight.grad

    expected = run(lambda module: module)
    assert_same(run(saker.aot_module), expected)
    assert_same(run(saker.compile), expected)


def test_exported_graph() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3, 3))

        def forward(self, x):
            scale(self.count, 2.0)
            by_numpy(self.count)
            return x + self.count

    net, x = Net(), torch.ones(3, 3)
    CALLS.clear()
    module, signature = saker.aot_export_module(net, [x], trace_joint=False)
    assert CALLS == []
    assert list(signature.buffers_to_mutate.values()) == ["count"]
    count = torch.ones(3, 3)
    written, result = module(count, x)
    assert_same((count, written, result), (torch.ones(3, 3), torch.full((3, 3), 3.0), torch.full((3, 3), 4.0)))
    assert net.count._version == 0


def test_captured_program_moves_versions() -> None:
    def fn(a):
        scale(a, 2.0)
        return a + 1

    a, b = torch.ones(3), torch.ones(3)
    graph = saker.capture(fn, a)
    assert a._version == 0
    assert_same((graph(a), a, a._version), (fn(b), b, b._version))


def test_another_operator_of_the_same_name() -> None:
    for by in (2, 3):
        with torch.library._scoped_library("saker_writes_again", "FRAGMENT") as library:
            library.define("one(Tensor(a!) x) -> ()" if by == 2 else "one(Tensor(a!) x, Tensor(b!)? y=None) -> ()")
            library.impl("one", lambda x, y=None, by=by: (x.mul_(by), None)[1], "CPU")
            x = torch.ones(3)
            saker.aot_function(lambda x: (torch.ops.saker_writes_again.one(x), x + 1)[1])(x)
            assert_same(x, torch.full((3,), float(by)))
