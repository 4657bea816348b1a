"""Generated code of operators: losses, normalisations, indices that are data, windows. Each is part of a group of two
or more, since a single operator is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import saker
from generated_code import fused, needs_code  # noqa: F401 (a fixture of each test)
from saker import _C
from test_native import launches

Tensor = torch.Tensor
aten = torch.ops.aten
pytestmark = needs_code

FULL = [torch.float32, torch.float64]
HALVES = [torch.bfloat16, torch.float16]
NEAR = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.float64: {"rtol": 1e-9, "atol": 1e-9},
    torch.bfloat16: {"rtol": 2**-6, "atol": 2**-6},
    torch.float16: {"rtol": 2**-8, "atol": 2**-8},
}


def check(program: Callable, *inputs: Tensor, near: dict[str, float] | None = None) -> None:
    """Results, strides and dtypes are eager mode's; to the bit, unless said otherwise."""
    compiled = saker.compile(program, dynamic=False)
    compiled(*inputs)
    found, count = launches(lambda: compiled(*inputs))
    assert count > 0, _C.code_error()
    expected = program(*inputs)
    for one, other in zip(*([each] if isinstance(each, Tensor) else each for each in (found, expected)), strict=True):
        assert one.stride() == other.stride()
        torch.testing.assert_close(one, other, equal_nan=True, **(near or {"rtol": 0, "atol": 0}))


def check_gradients(program: Callable, *inputs: Tensor, near: dict[str, float]) -> None:
    compiled = saker.compile(program, dynamic=False)
    for _ in range(2):
        ours = [each.detach().clone().requires_grad_() for each in inputs]
        others = [each.detach().clone().requires_grad_() for each in inputs]

        def step(ours: list[Tensor] = ours) -> Tensor:
            result = compiled(*ours)
            result.sum().backward()
            return result

        found, count = launches(step)
        expected = program(*others)
        expected.sum().backward()
        torch.testing.assert_close(found, expected, **near)
        for one, other in zip(ours, others, strict=True):
            torch.testing.assert_close(one.grad, other.grad, **near)
    assert count > 0, _C.code_error()


# ---- losses ----

LOSSES: dict[str, Callable] = {
    "mse": lambda x, t, how: functional.mse_loss(x * 2, t, reduction=how),
    "l1": lambda x, t, how: functional.l1_loss(x * 2, t, reduction=how),
    "smooth_l1": lambda x, t, how: functional.smooth_l1_loss(x * 2, t, reduction=how, beta=0.7),
    "huber": lambda x, t, how: functional.huber_loss(x * 2, t, reduction=how, delta=0.7),
    "bce": lambda x, t, how: functional.binary_cross_entropy((x * 2).sigmoid(), t, reduction=how),
    "bce weighted": lambda x, t, how: functional.binary_cross_entropy((x * 2).sigmoid(), t, t + 1, reduction=how),
    "logits": lambda x, t, how: functional.binary_cross_entropy_with_logits(x * 2, t, reduction=how),
    "logits weighted": lambda x, t, how: functional.binary_cross_entropy_with_logits(
        x * 2, t, t + 1, reduction=how, pos_weight=t[0] + 1
    ),
    "kl_div": lambda x, t, how: functional.kl_div((x * 2).log_softmax(1), t, reduction=how),
}


@pytest.mark.parametrize("dtype", [*FULL, *HALVES], ids=str)
@pytest.mark.parametrize("how", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str, how: str, dtype: torch.dtype) -> None:
    x, target = torch.randn(16, 32).to(dtype), torch.rand(16, 32).to(dtype)
    near = dict(NEAR[dtype])
    if how == "none" and name in ("mse", "l1", "smooth_l1", "huber"):
        near = {"rtol": 0, "atol": 0}  # arithmetic alone
    if how == "sum":
        near["atol"] *= 50
    check(lambda x, target: LOSSES[name](x, target, how), x, target, near=near)
    if dtype in FULL:
        check_gradients(lambda x: LOSSES[name](x, target, how), x, near=near)


@pytest.mark.parametrize("dtype", FULL, ids=str)
@pytest.mark.parametrize("how", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(16, 10), (3, 10, 4, 5)], ids=str)
def test_cross_entropy(shape: tuple[int, ...], weighted: bool, how: str, dtype: torch.dtype) -> None:
    x, weight = torch.randn(shape).to(dtype), torch.rand(10).to(dtype) if weighted else None
    target = torch.randint(0, 10, (shape[0], *shape[2:]))
    target[0] = -100
    check_gradients(lambda x: functional.cross_entropy(x * 2, target, weight, reduction=how), x, near=NEAR[dtype])


# ---- normalisations ----


@pytest.mark.parametrize("dtype", [*FULL, *HALVES], ids=str)
@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("training", [False, True])
def test_batch_norm(training: bool, form: torch.memory_format, dtype: torch.dtype) -> None:
    x = torch.randn(4, 6, 5, 7).to(dtype).to(memory_format=form)
    weight, bias, mean, var = (torch.rand(6).to(dtype) + 0.5 for _ in range(4))
    if training:
        check(
            lambda x: tuple(aten._native_batch_norm_legit_functional(x * 2, weight, bias, mean, var, True, 0.1, 1e-5)),
            x,
            near=NEAR[dtype],
        )
    else:
        check(lambda x: functional.relu(functional.batch_norm(x, mean, var, weight, bias)), x, near=NEAR[dtype])
    grad, kept = torch.randn_like(x), (mean, var)

    def backward(grad: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        wanted = [True, True, True]
        return tuple(aten.native_batch_norm_backward(grad * 2, x, weight, *kept, *kept, training, 1e-5, wanted))

    check(backward, grad, x, near={"rtol": 4 * NEAR[dtype]["rtol"], "atol": 8 * NEAR[dtype]["atol"]})


def test_a_batch_norm_that_trains() -> None:
    layers = [torch.nn.BatchNorm1d(9) for _ in range(2)]
    compiled = saker.compile(lambda x: functional.relu(layers[0](x)) * 2)
    for _ in range(3):
        x = torch.randn(20, 9, 3)
        torch.testing.assert_close(compiled(x), functional.relu(layers[1](x)) * 2, rtol=1e-5, atol=1e-5)
        for one, other in zip(layers[0].buffers(), layers[1].buffers(), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", FULL, ids=str)
def test_group_norm(dtype: torch.dtype) -> None:
    weight, bias = torch.rand(6).to(dtype), torch.rand(6).to(dtype)
    check_gradients(
        lambda x, weight, bias: functional.relu(functional.group_norm(x * 2, 3, weight, bias)),
        torch.randn(4, 6, 5, 7).to(dtype), weight, bias, near=NEAR[dtype],
    )  # fmt: skip


# ---- indices that are data ----

TABLE = torch.arange(50 * 16.0).reshape(50, 16)
READS: dict[str, tuple[Callable, Tensor, Tensor]] = {
    "embedding": (lambda i: functional.embedding(i, TABLE) * 2, torch.randint(0, 50, (4, 9)), torch.full((4, 9), 50)),
    "index_select": (lambda i: TABLE.index_select(1, i) * 2, torch.randint(0, 16, (21,)), torch.full((21,), -1)),
    "gather": (lambda i: TABLE.gather(1, i) * 2, torch.randint(0, 16, (50, 7)), torch.full((50, 7), 16)),
    "index": (lambda i: TABLE[i] * 2, torch.randint(-50, 50, (3, 40)), torch.full((3, 40), -51)),
    "two indices": (lambda i: TABLE[i, i % 16] * 2, torch.randint(0, 50, (40,)), torch.full((40,), 50)),
    "apart": (lambda i: TABLE.view(5, 10, 16)[i, :, i] * 2, torch.randint(0, 5, (40,)), torch.full((40,), 5)),
    "behind": (lambda i: TABLE.view(5, 10, 16)[:, i, i[:, None]] * 2, torch.randint(0, 10, (6,)), torch.full((6,), 10)),
    "int32": (lambda i: functional.embedding(i.int(), TABLE) * 2, torch.randint(0, 50, (4, 9)), torch.full((4, 9), -1)),
}


def error_of(program: Callable, *inputs: Tensor) -> tuple[type, str]:
    with pytest.raises((RuntimeError, IndexError)) as caught:
        program(*inputs)
    return caught.type, str(caught.value)


@pytest.mark.parametrize("name", READS)
def test_indices(name: str) -> None:
    program, index, bad = READS[name]
    check(program, index)
    compiled = saker.compile(program, dynamic=False)
    for _ in range(2):
        assert torch.equal(compiled(index), program(index))
    # One index of many that is out of range raises what eager mode raises, and nothing is lost by it.
    one = index.clone()
    one.view(-1)[-1] = bad.view(-1)[-1]
    for wrong in (bad, one):
        assert error_of(compiled, wrong) == error_of(program, wrong)
    assert torch.equal(compiled(index), program(index))


@pytest.mark.parametrize("dtype", [torch.float64, *HALVES, torch.int32, torch.bool], ids=str)
def test_embeddings_of_other_dtypes(dtype: torch.dtype) -> None:
    table, index = (TABLE % 7).to(dtype), torch.randint(0, 50, (4, 9))
    check(lambda i: functional.embedding(i, table).flip(0), index)


def test_targets_out_of_range_raise() -> None:
    x, target = torch.randn(16, 10), torch.randint(0, 10, (16,))

    def program(x: Tensor, target: Tensor) -> Tensor:
        grad, total = x.new_ones(()), x.new_full((), 16.0)
        return aten.nll_loss_backward(grad, x, target, None, 1, -100, total) * 2

    compiled = saker.compile(program, dynamic=False)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, target), program(x, target))
    target[7] = 10
    assert error_of(compiled, x, target) == error_of(program, x, target)


def test_no_probabilities_raise() -> None:
    x = torch.rand(40, 5) / 2
    program: Callable[[Tensor], Any] = lambda x: functional.binary_cross_entropy(x * 2, x) + 1  # noqa: E731
    check(program, x, near=NEAR[torch.float32])
    compiled = saker.compile(program, dynamic=False)
    for _ in range(2):
        compiled(x)
    assert error_of(compiled, x + 1) == error_of(program, x + 1)


def test_indices_that_nobody_reads_raise() -> None:
    programs: list[Callable] = [
        lambda i: torch.cat([functional.embedding(i, TABLE)[:4], TABLE[:4]]) * 2,
        lambda i: functional.embedding(i, TABLE)[:1].expand(8, 16) * 2,
        lambda i: functional.embedding(i, TABLE).flip(0) * 2,
    ]
    index = torch.randint(0, 50, (8,))
    bad = index.clone()
    bad[6] = 50
    for program in programs:
        compiled = saker.compile(program, dynamic=False)
        for _ in range(2):
            assert torch.equal(compiled(index), program(index))
        assert error_of(compiled, bad) == error_of(program, bad)


def test_the_first_error_is_seen() -> None:
    """A library call that raises stands between two groups that would."""

    def program(i: Tensor, j: Tensor) -> Tensor:
        first = functional.embedding(i, TABLE) * 2
        picked = first.new_zeros(9).scatter(0, j, 1.0)
        return functional.embedding(j + 40, TABLE).sum() * 2 + picked.sum() + first.sum()

    compiled = saker.compile(program, dynamic=False)
    i, j = torch.randint(0, 50, (9,)), torch.arange(9)
    for _ in range(2):
        torch.testing.assert_close(compiled(i, j), program(i, j))
    for bad in ((i + 50, j + 9), (i, j + 9), (i + 50, j)):
        assert error_of(compiled, *bad) == error_of(program, *bad)


# ---- other places of the same elements ----

MOVED: dict[str, Callable] = {
    "roll": lambda x: x.roll(3, 2) * 2,
    "roll back": lambda x: x.roll(-2, 3) * 2,
    "triangles": lambda x: x.tril() * 2 + x.triu(1),
    "nearest": lambda x: functional.interpolate(x, (14, 16)) * 2,
    "nearest, odd": lambda x: functional.interpolate(x, (5, 30)) * 2,
    "nearest, scaled": lambda x: functional.interpolate(x, scale_factor=1.7) * 2,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", MOVED)
def test_moved(name: str, dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 7, 8).to(dtype)
    check(MOVED[name], x)
    check(MOVED[name], x.transpose(0, 1))


WINDOWS: dict[str, Callable] = {
    "max": lambda x: functional.max_pool2d(x * 2, 2),
    "max, padded": lambda x: functional.max_pool2d(x * 2, 3, 2, 1),
    "max, of neighbours": lambda x: functional.max_pool2d(x * 2, 3, 1, 1),
    "max, ceil": lambda x: functional.max_pool2d(x * 2, 2, ceil_mode=True),
    "average": lambda x: functional.avg_pool2d(x * 2, 2),
    "average, padded": lambda x: functional.avg_pool2d(x * 2, 3, 2, 1),
    "average, ceil": lambda x: functional.avg_pool2d(x * 2, 3, 2, 1, ceil_mode=True),
    "average, without padding": lambda x: functional.avg_pool2d(x * 2, 3, 2, 1, count_include_pad=False),
}


@pytest.mark.parametrize("dtype", FULL, ids=str)
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str, dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 7, 8).to(dtype)
    check(lambda x: WINDOWS[name](x).flip(0), x, near=NEAR[dtype])
    check_gradients(lambda x: WINDOWS[name](x).exp(), x, near=NEAR[dtype])


@pytest.mark.parametrize("dtype", FULL, ids=str)
@pytest.mark.parametrize("window", [([2, 2], [2, 2]), ([2, 2], [4, 4]), ([1, 2], [1, 2])], ids=str)
def test_gradients_of_windows_that_do_not_overlap(window: tuple[list[int], list[int]], dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 8, 8).to(dtype)
    grad = torch.randn_like(functional.avg_pool2d(x, *window))
    check(lambda grad: aten.avg_pool2d_backward(grad, x, *window, [0, 0], False, True, None) * 2, grad)


def test_the_places_of_the_largest() -> None:
    x = torch.randn(2, 3, 7, 8)
    x[0, 0] = -float("inf")
    x[1, 1, 2:4] = float("nan")
    check(lambda x: tuple(each.flip(0) for each in functional.max_pool2d(x, 3, 2, 1, return_indices=True)), x)


# ---- activations ----

ACTIVATIONS: dict[str, Callable] = {
    "elu": lambda x: functional.elu(x * 2, 0.7),
    "mish": lambda x: functional.mish(x * 2),
    "logsigmoid": lambda x: functional.logsigmoid(x * 2),
    "prelu": lambda x: functional.prelu(x * 2, x[0, 0].exp().expand(x.shape[1])),
}


@pytest.mark.parametrize("dtype", FULL, ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str, dtype: torch.dtype) -> None:
    check_gradients(ACTIVATIONS[name], torch.randn(16, 40).to(dtype), near=NEAR[dtype])


# ---- sizes that change, no elements, no dimensions ----

EVERY: dict[str, Callable[[Tensor], Tensor]] = {
    "mse": lambda x: functional.mse_loss(x * 2, x.flip(0)) + 1,
    "smooth_l1": lambda x: functional.smooth_l1_loss(x * 2, x.flip(0), reduction="none") + 1,
    "logits": lambda x: functional.binary_cross_entropy_with_logits(x * 2, x.sigmoid()) + 1,
    "cross entropy": lambda x: functional.cross_entropy(x.flatten(1) * 2, x.flatten(1).argmax(1)) * 2,
    "index": lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)] * 2,
    "embedding": lambda x: functional.embedding(torch.arange(x.shape[0]) % 2, x.flatten(1)) * 2,
    "batch norm": lambda x: functional.batch_norm(x * 2, None, None, training=True) * 2,
    "group norm": lambda x: functional.group_norm(x * 2, 2) * 2,
    "average": lambda x: functional.avg_pool2d(x, 2).exp() * 2,
    "nearest": lambda x: functional.interpolate(x, scale_factor=2.0).exp() * 2,
    "triangle": lambda x: x.tril().exp() * 2,
    "roll": lambda x: x.roll(1, 0).exp() * 2,
}


@pytest.mark.parametrize("name", EVERY)
def test_sizes_that_change(name: str) -> None:
    compiled = saker.compile(EVERY[name])
    for shape in [(3, 4, 6, 5), (5, 4, 7, 8), (9, 8, 5, 33), (2, 6, 4, 4)]:
        x = torch.randn(shape)
        ours, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        found, expected = compiled(ours), EVERY[name](other)
        torch.testing.assert_close(found, expected, **NEAR[torch.float32])
        for each in (found, expected):
            each.square().sum().backward()
        torch.testing.assert_close(ours.grad, other.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["mse", "smooth_l1", "logits", "index", "triangle"])
def test_tensors_without_elements(name: str) -> None:
    compiled, x = saker.compile(EVERY[name], dynamic=False), torch.randn(0, 4, 6, 5)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), EVERY[name](x), equal_nan=True)


def test_tensors_without_dimensions() -> None:
    table = torch.randn(7)
    programs: list[Callable] = [
        lambda x: functional.mse_loss(x * 2, x - 1) * 3,
        lambda x: functional.huber_loss(x * 2, x - 1, reduction="none") * 3,
        lambda x: table.index_select(0, (x.abs() * 0).long() + 3) * x,
        lambda x: table[(x.abs() * 0).long() + 3] * x,
    ]
    for program in programs:
        compiled, x = saker.compile(program, dynamic=False), torch.randn(())
        for _ in range(2):
            torch.testing.assert_close(compiled(x), program(x))
