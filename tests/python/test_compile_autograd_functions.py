"""torch.autograd.Function in compiled code: given any object, made an instance of, after effects of the call; and a
backward that is compiled by itself, which reads what its node has saved."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker
from differential import same

Tensor = torch.Tensor
BACKENDS = ["aten", "eager", "aot_eager", lambda gm, examples: gm.forward]
backends = pytest.mark.parametrize("backend", BACKENDS, ids=["aten", "eager", "aot_eager", "user"])


@dataclasses.dataclass
class Options:
    factor: float
    weight: Tensor


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, options: Options, extra: Any = None) -> Tensor:
        ctx.save_for_backward(x, options.weight)
        ctx.factor = options.factor
        return x * options.weight * options.factor

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        _, weight = ctx.saved_tensors
        return gradient * weight * ctx.factor, None, None


def trained(call: Callable, *args: Any) -> Any:
    x = torch.arange(3.0, requires_grad=True)
    result = call(x, *args)
    result.sum().backward()
    return result.detach(), x.grad


# --- objects as arguments of a Function ---


@backends
def test_a_function_is_given_an_object(backend: Any) -> None:
    def call(x: Tensor, options: Options, table: dict) -> Tensor:
        return Scaled.apply(x.sin(), options, [table, (options, 3)])

    compiled = saker.compile(call, backend=backend, fullgraph=True)
    before = saker.stats()["replays"]
    options, table = Options(2.0, torch.ones(3)), {"a": 1}
    for step in range(4):
        options.factor, options.weight = step + 1.0, torch.full((3,), step + 0.5)
        same(trained(compiled, options, table), trained(call, options, table))
    assert saker.stats()["replays"] - before == 3
    same(trained(compiled, Options(7.0, torch.ones(3)), table), trained(call, Options(7.0, torch.ones(3)), table))


def test_an_object_that_the_call_makes() -> None:
    def call(x: Tensor, factor: float) -> Tensor:
        return Scaled.apply(x, Options(factor, x.detach() + 1))

    compiled = saker.compile(call)
    for factor in (1.0, 2.0, 3.0):
        same(trained(compiled, factor), trained(call, factor))


# --- code of a Function sees what the call has done before ---

WORLD = {"factor": 1.0}


class Reads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.factor = WORLD["factor"]
        print("forward", ctx.factor)
        return x * ctx.factor

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * ctx.factor


def writes_a_number(x: Tensor, factor: float) -> Tensor:
    WORLD["factor"] = factor
    return Reads.apply(x * 2)


def writes_behind_an_operator(x: Tensor, factor: float) -> Tensor:
    y = x * 2
    print("before")
    WORLD["factor"] = factor
    return Reads.apply(y)


def writes_a_result(x: Tensor, factor: float) -> Tensor:
    WORLD["factor"] = x.detach() * factor
    return Reads.apply(x * 2)


def writes_behind_what_may_fail(x: Tensor, factor: float) -> Tensor:
    y = torch.index_select(x, 0, torch.tensor([0, 1]))
    WORLD["factor"] = factor
    return Reads.apply(y)


def writes_afterwards(x: Tensor, factor: float) -> Tensor:
    y = Reads.apply(x * 2)
    print("after")
    WORLD["factor"] = factor
    return y


WRITERS = [writes_a_number, writes_behind_an_operator, writes_a_result, writes_behind_what_may_fail, writes_afterwards]


@pytest.mark.parametrize("call", WRITERS)
def test_a_function_sees_what_the_call_changed(call: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = saker.compile(call)
    before = saker.stats()["replays"]
    for factor in (2.0, 3.0, 2.0, 3.0, 2.0):
        seen = []
        for each in (call, compiled):
            WORLD["factor"] = 1.0
            capsys.readouterr()
            seen.append((trained(each, factor), WORLD["factor"], capsys.readouterr().out))
        same(seen[1], seen[0])
    if call in (writes_a_number, writes_behind_an_operator, writes_afterwards):
        assert saker.stats()["replays"] > before


# --- and the call sees what a Function has changed ---


class Holder:
    made = 0

    def __init__(self) -> None:
        self.count = 0
        self.items: list[int] = []
        self.table: dict[str, int] = {}
        self.steps = iter(range(100))


HOLDER = Holder()
TOTAL = 0


def changing(change: Callable[[], Any]) -> type[torch.autograd.Function]:
    class Changes(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            own = [x]
            own.append(x)  # no business of the call's
            ctx.count = len(own)
            change()
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * ctx.count

    return Changes


def add_to_global() -> None:
    global TOTAL
    TOTAL += 1


def add_to_attribute() -> None:
    HOLDER.count += 1


def add_to_class() -> None:
    Holder.made += 1


def update_in_place() -> None:
    HOLDER.items += [1]


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "global": (add_to_global, lambda: TOTAL),
    "attribute": (add_to_attribute, lambda: HOLDER.count),
    "attribute, by name": (lambda: setattr(HOLDER, "count", HOLDER.count + 1), lambda: HOLDER.count),
    "class": (add_to_class, lambda: Holder.made),
    "list": (lambda: HOLDER.items.append(1), lambda: len(HOLDER.items)),
    "list, in place": (update_in_place, lambda: len(HOLDER.items)),
    "list, all of it": (lambda: HOLDER.items.insert(0, len(HOLDER.items)), lambda: sum(HOLDER.items)),
    "dict": (lambda: HOLDER.table.update(n=HOLDER.table.get("n", 0) + 1), lambda: HOLDER.table["n"]),
    "random": (random.random, random.random),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_call_sees_what_a_function_changed(name: str) -> None:
    global TOTAL
    change, read = CHANGES[name]
    function = changing(change)

    def call(x: Tensor) -> Tensor:
        return function.apply(x) * read()

    compiled = saker.compile(call)
    seen: list[Any] = [[], []]
    for results, each in zip(seen, (call, compiled), strict=True):
        HOLDER.__init__()
        TOTAL, Holder.made = 0, 0
        random.seed(0)
        results.extend(trained(each) for _ in range(4))
    same(seen[1], seen[0])


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_function_changes_is_no_reason_to_stop(name: str) -> None:
    """The call does not look at it."""
    function = changing(CHANGES[name][0])

    def call(x: Tensor) -> Tensor:
        return function.apply(x.sin()) * 2

    compiled = saker.compile(call, fullgraph=True)
    before = saker.stats()["replays"]
    for _ in range(3):
        same(trained(compiled), trained(call))
    assert saker.stats()["replays"] - before == 2


# --- an instance of a Function ---


@pytest.mark.filterwarnings("ignore:.*should not be instantiated")
def test_an_instance_of_a_function() -> None:
    class Tripled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * 3

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * 3 + ctx.saved_tensors[0]

    def call(x: Tensor) -> Tensor:
        return Tripled().apply(x.sin())

    compiled = saker.compile(call, fullgraph=True)
    before = saker.stats()["replays"]
    for _ in range(3):
        same(trained(compiled), trained(call))
    assert saker.stats()["replays"] - before == 2


# --- a Function that is given a tensor which is made of others ---


class Wrapper(Tensor):
    """Answers no operator at all."""

    inner: Tensor

    @staticmethod
    def __new__(cls: type, inner: Tensor, requires_grad: bool) -> Wrapper:
        made = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=requires_grad)
        made.inner = inner
        return made

    def __tensor_flatten__(self) -> Any:
        return ["inner"], self.requires_grad

    @staticmethod
    def __tensor_unflatten__(inner: dict, requires_grad: bool, _size: Any, _stride: Any) -> Wrapper:
        return Wrapper(inner["inner"], requires_grad)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any, kwargs: Any = None) -> Any:
        raise NotImplementedError


class TakesOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Wrapper) -> Tensor:
        return Wrapper(x.inner + 1, x.requires_grad).inner

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


@pytest.mark.parametrize("backend", ["aten", "eager"])
def test_a_leaf_that_answers_no_operator(backend: str) -> None:
    def call(x: Tensor) -> Tensor:
        return TakesOut.apply(Wrapper(x, x.requires_grad))

    compiled = saker.compile(call, backend=backend)
    for step in range(4):
        x = torch.full((3,), float(step), requires_grad=True)
        got, expected = compiled(x), call(x)
        same((got.detach(), got.requires_grad), (expected.detach(), expected.requires_grad))


# --- a backward that is compiled by itself ---


def with_backward(wrap: Callable[[Callable], Callable]) -> type[torch.autograd.Function]:
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, y, nothing, made = ctx.saved_tensors
        assert nothing is None
        again = ctx.saved_tensors[3]
        left = gradient * y * ctx.factor + again if ctx.needs_input_grad[0] else None
        right = gradient * x.cos() * made if ctx.needs_input_grad[1] else None
        return left, right, None

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor, factor: float) -> Tensor:
            result = x * y * factor
            ctx.save_for_backward(x, y, None, result)
            ctx.factor = factor
            return result

    Product.backward = staticmethod(wrap(backward))
    return Product


@pytest.mark.parametrize("twice", [False, True])
@backends
def test_a_compiled_backward(backend: Any, twice: bool) -> None:
    compiled = with_backward(lambda f: saker.compile(f, backend=backend, fullgraph=True))
    plain = with_backward(lambda f: f)
    before = saker.stats()["replays"]
    for step in range(6):
        seen = []
        for function in (plain, compiled):
            torch.manual_seed(step)
            x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=step < 4)
            result = function.apply(x, y, 2.0).sum()
            if twice:
                (first,) = torch.autograd.grad(result, x, create_graph=True)
                first.sin().sum().backward()
            else:
                result.backward()
            seen.append((x.grad, y.grad))
        same(seen[1], seen[0])
    assert saker.stats()["replays"] - before >= 3


def test_what_is_saved_was_written_to() -> None:
    compiled, plain = with_backward(saker.compile), with_backward(lambda f: f)
    for step in range(4):
        seen = []
        for function in (plain, compiled):
            x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
            z = y * 2
            result = function.apply(x, z, 2.0)
            if step == 2:
                z.mul_(2)
            try:
                result.sum().backward(retain_graph=step == 3)
                if step == 3:
                    result.sum().backward()
            except RuntimeError as error:
                seen.append(str(error)[:60])
            seen.append((x.grad, y.grad))
        half = len(seen) // 2
        same(seen[half:], seen[:half])


def test_hooks_on_saved_tensors_of_a_compiled_backward() -> None:
    compiled, plain = with_backward(saker.compile), with_backward(lambda f: f)
    for step in range(4):
        seen = []
        for function in (plain, compiled):
            x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t + step):
                result = function.apply(x, y, 2.0)
            result.sum().backward()
            seen.append((x.grad, y.grad))
        same(seen[1], seen[0])


# --- inside of vmap ---


class Looked(torch.autograd.Function):
    """Looks a number up by positions, as functions that make masks do."""

    generate_vmap_rule = True

    @staticmethod
    def forward(table: Tensor, positions: list[Tensor]) -> Tensor:
        return torch.ops.aten.index(table, positions)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        table, positions = inputs
        ctx.save_for_backward(*positions)
        ctx.sizes = table.shape

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient.new_zeros(ctx.sizes).index_put(ctx.saved_tensors, gradient, accumulate=True), None


class Both(torch.autograd.Function):
    """Returns what it was given, and something else."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, factor: float) -> tuple[Tensor, Tensor]:
        return x, x * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.needed, ctx.factor = ctx.needs_input_grad, inputs[1]

    @staticmethod
    def backward(ctx: Any, first: Tensor, second: Tensor) -> Any:
        return first + second * ctx.factor, None


def looked_up(table: Tensor, scale: float) -> Tensor:
    """A number for each pair of positions, by vmap over both."""

    def entry(row: Tensor, column: Tensor) -> Tensor:
        return Looked.apply(table, [row, column]) * scale + (row <= column)

    over_columns = torch.vmap(entry, in_dims=(None, 0))
    return torch.vmap(over_columns, in_dims=(0, None))(torch.arange(table.shape[0]), torch.arange(table.shape[1]))


def both(x: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    return torch.vmap(lambda row: Both.apply(row.sin(), scale))(x)


@backends
@pytest.mark.parametrize("call", [looked_up, both])
def test_a_function_inside_of_vmap(call: Callable, backend: Any) -> None:
    compiled = saker.compile(call, backend=backend, fullgraph=True)
    call(torch.randn(3, 4), 2.0)  # loads what vmap needs
    before = saker.stats()["replays"]
    for _ in range(4):
        x = torch.randn(3, 4)
        same(compiled(x, 2.0), call(x, 2.0))
    assert saker.stats()["replays"] - before == 3


@pytest.mark.parametrize("call", [looked_up, both])
def test_a_function_inside_of_vmap_has_gradients(call: Callable) -> None:
    """Such a call is not recorded: PyTorch makes a class for it."""

    def gradient(run: Callable) -> Tensor:
        torch.manual_seed(0)
        x = torch.randn(3, 4, requires_grad=True)
        result = run(x, 3.0)
        (result if isinstance(result, Tensor) else sum(result)).cos().sum().backward()
        return x.grad

    compiled = saker.compile(call)
    for _ in range(3):
        same(gradient(compiled), gradient(call))
