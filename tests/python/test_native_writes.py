"""Generated code of programs that write to tensors: optimizer steps, caches, statistics. What writes element by element
is part of a kernel that stores in the place of what it read; values, versions, aliases and errors are eager mode's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import saker
from alone import alone
from generated_code import fused, needs_code  # noqa: F401 (a fixture of each test)
from saker import _C
from test_native import launches

Tensor = torch.Tensor
pytestmark = needs_code

NEAR = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2**-6, torch.float16: 2**-9}
SHAPES = [(3, 4), (5,), (50, 30), ()]


def flat(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [tensor for each in value or () for tensor in flat(each)]


def check(
    program: Callable, make: Callable[[], Any], kernels: int | None = None, near: float | None = 0, calls: int = 3
) -> None:
    """Runs the program on two equal worlds; `kernels`: how often a later call launches some, None: once or more."""
    worlds = []
    for _ in range(2):
        torch.manual_seed(0)
        worlds.append(make())
    compiled = saker.compile(program, dynamic=False)
    for call in range(calls):
        found, count = launches(lambda: compiled(*worlds[0]))
        expected = program(*worlds[1])
        if call:
            assert count == kernels if kernels is not None else count > 0, (count, _C.code_error())
        for one, other in zip(flat([*worlds[0], found]), flat([*worlds[1], expected]), strict=True):
            assert (one.stride(), one._version) == (other.stride(), other._version)
            torch.testing.assert_close(one, other, rtol=near, atol=near, equal_nan=True)
        if isinstance(found, Tensor):
            found = (found,)
        for one, other in zip(
            found or (), (expected,) if isinstance(expected, Tensor) else expected or (), strict=True
        ):
            same = [[one is each for each in flat(worlds[0])], [other is each for each in flat(worlds[1])]]
            assert same[0] == same[1]


def many(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [torch.randn(shape).to(dtype) for shape in SHAPES]


# ---- optimizer steps ----


@torch.no_grad()
def sgd(weights: list[Tensor], gradients: list[Tensor], momenta: list[Tensor]) -> None:
    for weight, gradient, momentum in zip(weights, gradients, momenta, strict=True):
        momentum.mul_(0.5).add_(gradient)
        weight.add_(momentum, alpha=-0.25)


@torch.no_grad()
def sgd_of_lists(weights: list[Tensor], gradients: list[Tensor], momenta: list[Tensor]) -> None:
    torch._foreach_mul_(momenta, 0.5)
    torch._foreach_add_(momenta, gradients)
    torch._foreach_add_(weights, momenta, alpha=-0.25)


@torch.no_grad()
def adamw(weights: list[Tensor], gradients: list[Tensor], means: list[Tensor], squares: list[Tensor]) -> None:
    for weight, gradient, mean, square in zip(weights, gradients, means, squares, strict=True):
        weight.mul_(0.99)
        mean.lerp_(gradient, 0.1)
        square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        weight.addcdiv_(mean, (square.sqrt() / 1.5).add_(1e-8), value=-0.01)


@torch.no_grad()
def adamw_of_lists(weights: list[Tensor], gradients: list[Tensor], means: list[Tensor], squares: list[Tensor]) -> None:
    torch._foreach_mul_(weights, 0.99)
    torch._foreach_lerp_(means, gradients, 0.1)
    torch._foreach_mul_(squares, 0.999)
    torch._foreach_addcmul_(squares, gradients, gradients, 0.001)
    roots = torch._foreach_sqrt(squares)
    torch._foreach_div_(roots, [1.5] * len(roots))
    torch._foreach_add_(roots, 1e-8)
    torch._foreach_addcdiv_(weights, means, roots, [-0.01] * len(roots))


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize("step", [sgd, sgd_of_lists], ids=["one by one", "lists"])
def test_sgd(step: Callable, dtype: torch.dtype) -> None:
    """One kernel for each tensor; bits are determined, but for an alpha that is not 1."""
    check(step, lambda: [many(dtype) for _ in range(3)], 1, NEAR[dtype])


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize("step", [adamw, adamw_of_lists], ids=["one by one", "lists"])
def test_adamw(step: Callable, dtype: torch.dtype) -> None:
    def make() -> list[list[Tensor]]:
        return [*(many(dtype) for _ in range(3)), [each.abs() for each in many(dtype)]]

    check(step, make, 1, 4 * NEAR[dtype])


def test_lists_that_become_single_tensors_in_front_of_others() -> None:
    """Nodes that are made late do not run late."""

    def program(x: Tensor) -> Tensor:
        y = x.clone()
        torch._foreach_mul_([y, y[:1]], 2)
        torch._foreach_add_([y], 1)
        return nn.functional.layer_norm(y, y.shape[-1:])

    compiled = saker.compile(program)
    for _ in range(3):
        x = torch.randn(4, 8).t().requires_grad_()
        torch.testing.assert_close(compiled(x), program(x))


def test_weights_that_lie_in_other_ways() -> None:
    def make() -> list[list[Tensor]]:
        weights = [torch.randn(6, 7).t(), torch.randn(8, 12)[::2, 1:9], torch.randn(2, 3, 4, 5).permute(0, 3, 1, 2)]
        return [weights, [torch.randn(each.shape) for each in weights], [torch.randn(each.shape) for each in weights]]

    check(sgd, make, 2, 1e-6)  # a call stands between them


@alone  # where PyTorch's compiler is loaded, optimizers call functions that it keeps out
def test_the_optimizer_of_a_model() -> None:
    for foreach in (False, True):
        optimizes(foreach)


def optimizes(foreach: bool) -> None:
    saker.reset(counts=True)
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)))
    steps, counts = [], []
    for which, model in enumerate(models):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, foreach=foreach)
        steps.append(optimizer.step if which else saker.compile(optimizer.step))
    for _ in range(5):
        x = torch.randn(4, 8)
        for which, model in enumerate(models):
            model.zero_grad()
            model(x).square().sum().backward()
            _, count = launches(steps[which])
            counts.append(count)
        for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
            torch.testing.assert_close(one, other)
            assert one._version == other._version
            assert one.requires_grad and one.is_leaf
    assert counts[-2] == 1, counts
    assert "writes-differentiable" not in saker.stats()["instead"]


# ---- what is written, seen and read otherwise ----


def shown(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = x * 2
    z.add_(y)
    z.mul_(3)
    return z, y + 1


def input_returned(x: Tensor, y: Tensor) -> Tensor:
    return x.add_(y).mul_(2)


def swapped(x: Tensor, y: Tensor) -> Tensor:
    both = x + y
    x.copy_(y * 2)
    y.copy_(both)
    return both


def transposed_before(x: Tensor, _: Tensor) -> Tensor:
    y = x.t() * 2
    x.add_(1)
    return y + 1


def view_of_written(x: Tensor, y: Tensor) -> Tensor:
    turned = x.t()
    x.mul_(y)
    return turned * 2 + 1


def view_written(x: Tensor, y: Tensor) -> Tensor:
    x[2:5].mul_(3).add_(y[2:5])
    return x * 2 - y


def filled(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    out = torch.zeros_like(x)
    out.add_(x).mul_(y)
    out[0] = 7
    return out + 1, out


def masked(x: Tensor, y: Tensor) -> Tensor:
    x.masked_fill_(y > 0, 3.5)
    x.clamp_(-1, 2).relu_()
    return x * 2


def twice(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(x).add_(x)
    y.copy_(x)
    return x - y


def read_between(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    before = torch.mm(x, y)
    x.add_(1).mul_(2)
    middle = torch.mm(x, y)
    x.sub_(3).neg_()
    return before, middle


def copied_with_other_dtype(x: Tensor, y: Tensor) -> Tensor:
    y.copy_((x * 3).to(torch.float64))
    y.add_(x.double())
    return y * 1


def loop(x: Tensor, y: Tensor) -> None:
    for _ in range(4):
        x.mul_(0.5).add_(y)
        y.sub_(x)


@pytest.mark.parametrize(
    "program",
    [
        shown, input_returned, swapped, transposed_before, view_of_written, view_written, filled, masked, twice,
        read_between, copied_with_other_dtype, loop,
    ],
    ids=lambda each: each.__name__,
)  # fmt: skip
def test_writes(program: Callable) -> None:
    check(program, lambda: [torch.randn(9, 9), torch.randn(9, 9)])


def test_rows_that_are_normalised_in_place() -> None:
    def program(x: Tensor) -> None:
        x.sub_(x.mean(-1, keepdim=True))
        x.div_(x.std(-1, keepdim=True) + 1)

    check(program, lambda: [torch.randn(8, 300)], near=1e-5)


def test_what_is_read_at_other_places_is_written_last() -> None:
    def program(x: Tensor, y: Tensor) -> None:
        y.add_(x.flip(0) * 2)
        x.copy_(x.flip(0) + y)

    check(program, lambda: [torch.randn(7, 5), torch.randn(7, 5)])


def test_a_sum_that_is_kept() -> None:
    def program(total: Tensor, x: Tensor) -> None:
        total.add_((x * x).sum())
        total.mul_(0.5)

    check(program, lambda: [torch.tensor(0.5, dtype=torch.float64), torch.randn(50000, dtype=torch.float64)], near=1e-9)


def test_a_cache() -> None:
    def program(cache: Tensor, keys: Tensor, query: Tensor) -> Tensor:
        cache[:, 2:5] = keys * 2
        cache[:, 5].copy_(keys[:, 0])
        return (cache * query).sum(-1) * 0.5

    check(program, lambda: [torch.randn(3, 9, 16), torch.randn(3, 3, 16), torch.randn(3, 9, 16)], near=1e-5)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool], ids=str)
def test_integers(dtype: torch.dtype) -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        x.bitwise_xor_(y)
        if dtype != torch.bool:
            x.mul_(y).add_(1)
        x.logical_not_()
        return x | y

    check(program, lambda: [torch.randint(0, 2 if dtype == torch.bool else 100, (40,)).to(dtype) for _ in range(2)])


def test_statistics_of_a_batch_norm() -> None:
    layers = [nn.BatchNorm1d(9) for _ in range(2)]

    def program(layer: nn.Module, x: Tensor) -> Tensor:
        with torch.no_grad():
            return nn.functional.relu(layer(x)) * 2

    compiled = saker.compile(program)
    for _ in range(3):
        x = torch.randn(20, 9, 3)
        torch.testing.assert_close(compiled(layers[0], x), program(layers[1], x), rtol=1e-5, atol=1e-5)
        for one, other in zip(layers[0].buffers(), layers[1].buffers(), strict=True):
            torch.testing.assert_close(one, other)


# ---- inputs that share memory, and errors ----


@pytest.mark.parametrize("shared", ["same", "view", "overlap"])
def test_inputs_that_share_memory(shared: str) -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1).mul_(2)
        return y * 3 + 1

    def make() -> list[Tensor]:
        base = torch.randn(40)
        return [base[:20], {"same": base[:20], "view": base[20:], "overlap": base[10:30]}[shared]]

    check(program, make)
    # Recorded on tensors that share none.
    compiled = saker.compile(program, dynamic=False)
    for _ in range(2):
        compiled(torch.randn(20), torch.randn(20))
    torch.manual_seed(0)
    one = make()
    torch.manual_seed(0)
    other = make()
    torch.testing.assert_close(compiled(*one), program(*other), rtol=0, atol=0)
    torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("where", ["before", "behind", "between"])
def test_what_is_written_when_an_operator_raises(where: str) -> None:
    def program(x: Tensor, table: Tensor, index: Tensor) -> Tensor:
        if where != "before":
            x.add_(1).mul_(2)
        rows = table[index] * 2
        if where != "behind":
            x.sub_(3).neg_()
        return rows + 1

    compiled = saker.compile(program, dynamic=False)
    x, table = torch.randn(6), torch.randn(5, 4)
    for _ in range(2):
        compiled(x.clone(), table, torch.tensor([0, 4, 2]))
    one, other = x.clone(), x.clone()
    for run, written in ((compiled, one), (program, other)):
        with pytest.raises(IndexError):
            run(written, table, torch.tensor([0, 9, 2]))
    torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_inference_mode() -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        x.add_(y).mul_(2)
        return x + 1

    compiled = saker.compile(program, dynamic=False)
    with torch.inference_mode():
        for _ in range(3):
            x, y = torch.randn(8), torch.randn(8)
            other = x.clone()
            torch.testing.assert_close(compiled(x, y), program(other, y), rtol=0, atol=0)
            torch.testing.assert_close(x, other, rtol=0, atol=0)


def test_sizes_that_change() -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2).add_(y)
        return x - y.sum(-1, keepdim=True)

    compiled = saker.compile(program, dynamic=True)
    for size in (5, 5, 9, 17):
        x, y = torch.randn(size, 2 * size), torch.randn(size, 2 * size)
        other = x.clone()
        torch.testing.assert_close(compiled(x, y), program(other, y), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(x, other, rtol=0, atol=0)


def test_memory_that_ends_at_a_page_that_cannot_be_touched() -> None:
    for guard in ("behind", "before"):
        _C.set_guard_pages(guard)
        try:
            check(adamw, lambda: [*(many() for _ in range(3)), [each.abs() for each in many()]], len(SHAPES), 1e-5)
            check(view_written, lambda: [torch.randn(9, 9), torch.randn(9, 9)])
        finally:
            _C.set_guard_pages("")


VIEWS = {
    "detach": lambda value: value.detach(),
    "view": lambda value: value.view(-1),
    "slice": lambda value: value[:2],
    "strided": lambda value: value[::2],
    "transpose": lambda value: value.view(2, -1).t(),
    "two": lambda value: value[1:].view(-1)[:3],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("source", ["gamma", "random", "cumulative", "argument"])
def test_a_view_of_what_a_kernel_would_make_is_written(view: Callable, source: str) -> None:
    begin = {
        "gamma": torch._standard_gamma,
        "random": torch.rand_like,
        "cumulative": lambda x: x.cumsum(0),
        "argument": lambda x: x,
    }[source]

    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        made = begin(x) / y
        view(made).clamp_(min=0.25)
        return made, made * y

    compiled = saker.compile(program, dynamic=False)
    for call in range(3):
        torch.manual_seed(call)
        args = torch.rand(6) + 0.1, torch.rand(6) + 1
        torch.manual_seed(9)
        expected = program(*args)
        torch.manual_seed(9)
        found = compiled(*args)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)
