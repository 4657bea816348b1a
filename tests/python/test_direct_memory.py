"""Kernels that read or write the memory of tensors below the dispatcher: what they do is done again in replays, and
deferred blocks and captures do not take what they find for constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

import saker
from differential import same
from saker import _C

torch.set_num_threads(1)


def disturb() -> None:
    kept = [torch.empty(n).fill_(113.0) for n in (1, 2, 3, 4, 6, 8, 12, 24, 48) for _ in range(4)]
    del kept


def check(program: Callable, first: tuple, second: tuple, replays: int = 1, grad: bool = False) -> list[str]:
    """A recording and a replay on other data equal eager mode; the names of the recorded operators."""
    compiled = saker.compile(program)
    with torch.set_grad_enabled(grad):
        same(compiled(*first), program(*first))
        before = saker.stats()["replays"]
        expected = program(*second)
        disturb()
        same(compiled(*second), expected)
    assert saker.stats()["replays"] - before == replays, _C.compiled_reports(compiled)
    recorded = _C.compiled_versions(compiled)[0]["program"]
    if recorded is None:
        return []
    return [line.split("= ")[1].split("(")[0] for line in str(recorded.graph).splitlines() if " = " in line]


def numbers(*sizes: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(*sizes), torch.randn(*sizes)


@pytest.mark.parametrize("options", [{}, {"stride": 1}, {"padding": 1}, {"ceil_mode": True}, {"dilation": 2}])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_max_pool1d(options: dict[str, Any], mode: Callable) -> None:
    x, y = numbers(2, 3, 8)
    pool = nn.MaxPool1d(2, **options)
    with mode():
        check(lambda a: pool(a) + 1, (x,), (y,))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("way", [saker.compile, saker.aot_function, lambda f: saker.capture(f, torch.ones(2, 3, 8))])
def test_result_of_max_pool1d_is_a_view_where_that_of_eager_mode_is(way: Callable, grad: bool) -> None:
    x = torch.randn(2, 3, 8, requires_grad=grad and way in (saker.compile, saker.aot_function))

    def program(a: torch.Tensor) -> torch.Tensor:
        return F.max_pool1d(a, 2)

    compiled, expected = way(program), program(x)
    for _ in range(3):
        got = compiled(x)
        assert torch.equal(got, expected)
        assert (got._is_view(), got._version) == (expected._is_view(), expected._version)


def test_max_pool1d_of_what_needs_no_gradient() -> None:
    weight = torch.randn(4, requires_grad=True)

    def program(a, w):
        return (F.max_pool1d(a, 2) * w).sum()

    compiled = saker.compile(program)
    for data in numbers(3, 8):
        disturb()
        got, expected = compiled(data, weight), program(data, weight)
        assert torch.equal(got, expected)
        assert torch.equal(*(torch.autograd.grad(each, weight)[0] for each in (got, expected)))


def test_ctc_loss_reads_lengths() -> None:
    probabilities = torch.randn(5, 2, 4).log_softmax(-1)
    targets = torch.tensor([[1, 2], [2, 3]])
    first = (probabilities, targets, torch.tensor([5, 5]), torch.tensor([2, 2]))
    second = (probabilities, targets, torch.tensor([5, 4]), torch.tensor([2, 1]))
    assert check(F.ctc_loss, first, second) == ["aten::ctc_loss.Tensor"]


def test_gradients_of_ctc_loss() -> None:
    compiled = saker.compile(F.ctc_loss)
    targets = torch.tensor([[1, 2], [2, 3]])
    before = saker.stats()["replays"]
    for lengths in ([5, 5], [5, 4], [4, 4]):
        p = torch.randn(5, 2, 4).log_softmax(-1).requires_grad_()
        args = (p, targets, torch.tensor(lengths), torch.tensor([2, 1]))
        got, expected = (torch.autograd.grad(f(*args), p)[0] for f in (compiled, F.ctc_loss))
        assert torch.equal(got, expected)
    assert saker.stats()["replays"] - before == 2


def unpack(data: torch.Tensor, sizes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return pad_packed_sequence(PackedSequence(data, sizes))


def test_lengths_of_packed_sequences() -> None:
    x, y = numbers(6, 8)
    check(unpack, (x, torch.tensor([2, 2, 2])), (y, torch.tensor([2, 2, 2])))


def test_packed_sequences_of_other_lengths() -> None:
    """The sizes of the results are others: eager mode runs, and from then on it does at once."""
    x, y = numbers(6, 8)
    compiled = saker.compile(unpack)
    compiled(x, torch.tensor([3, 2, 1]))
    before = saker.stats()["replays"]
    for sizes in ([2, 2, 2], [3, 2, 1]):
        same(compiled(y, torch.tensor(sizes)), unpack(y, torch.tensor(sizes)))
    assert saker.stats()["replays"] == before
    assert "size" in _C.compiled_reports(compiled)[-1]["why"]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_on_packed_data(kind: str) -> None:
    layer = getattr(nn, kind)(8, 4)
    name = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN": torch.rnn_tanh}[kind]
    state = (torch.zeros(1, 3, 4), torch.zeros(1, 3, 4)) if kind == "LSTM" else torch.zeros(1, 3, 4)
    weights = [w.detach() for w in layer._flat_weights]

    def program(data, sizes):
        return name(data, sizes, state, weights, True, 1, 0.0, False, False)

    x, y = numbers(6, 8)
    with torch.no_grad():
        check(program, (x, torch.tensor([3, 2, 1])), (y, torch.tensor([3, 3, 0])[:3]), replays=1)


def test_split_at_indices_that_are_data() -> None:
    x, y = numbers(3, 8)
    program = lambda a, i: torch.tensor_split(a, i, 1)  # noqa: E731
    check(program, (x, torch.tensor([2, 4])), (y, torch.tensor([3, 4])), replays=0)
    check(lambda a: torch.tensor_split(a, torch.tensor([2, 4]), 1), (x,), (y,))


def test_shape_as_tensor_is_filled() -> None:
    x, y = numbers(3, 8)
    assert check(torch._shape_as_tensor, (x,), (y,)) == ["aten::_shape_as_tensor"]


def test_sobol_engine() -> None:
    engine, other = (torch.quasirandom.SobolEngine(2, scramble=True, seed=3) for _ in range(2))
    compiled = saker.compile(lambda: engine.draw(3))
    for _ in range(3):
        assert torch.equal(compiled(), other.draw(3))


def test_composite_operators_of_other_libraries_are_called_again() -> None:
    x, y = numbers(3, 8)
    relu = torch.ops._test.leaky_relu
    operators = check(lambda a: relu(a, 0.5) + 1, (x,), (y,))
    assert operators == ["_test::leaky_relu", "aten::add.Tensor"]


def test_composite_operators_that_are_written_in_python_are_followed() -> None:
    with torch.library._scoped_library("saker_direct", "FRAGMENT") as library:
        library.define("doubled(Tensor x) -> Tensor")
        library.impl("doubled", lambda x: x * 2, "CompositeImplicitAutograd")
        x, y = numbers(3, 8)
        doubled = torch.ops.saker_direct.doubled.default
        assert check(lambda a: doubled(a), (x,), (y,)) == ["aten::mul.Tensor"]


def test_memory_that_nobody_filled_is_not_replayed() -> None:
    compiled = saker.compile(lambda a: (a + 1, torch.empty(3)))
    compiled(torch.ones(2))
    assert "no operator has written" in _C.compiled_reports(compiled)[0]["why"]
    x, y = numbers(3)
    check(lambda a: torch.empty(3).copy_(a) + torch.cat([torch.empty(0), a]), (x,), (y,))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.float32])
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 3, 3)])
def test_pinv(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """A kernel that makes conjugate views inside, which the operators that it calls must resolve."""
    x, y = torch.randn(*shape, dtype=dtype), torch.randn(*shape, dtype=dtype)
    check(torch.linalg.pinv, (x,), (y,))
    same(saker.aot_function(torch.linalg.pinv)(x), torch.linalg.pinv(x))
    same(saker.capture(torch.linalg.pinv, x)(y), torch.linalg.pinv(y))
    with saker.deferred():
        got = torch.linalg.pinv(x)
    same(got, torch.linalg.pinv(x))


def test_deferred_blocks_compute_what_is_read() -> None:
    x, indices = torch.randn(3, 8), torch.tensor([2, 4])
    with saker.deferred():
        indices.add_(1)
        parts = torch.tensor_split(x, indices, 1)
        pooled = F.max_pool1d(x * 2, 2)
    assert [part.shape[1] for part in parts] == [3, 2, 3]
    assert torch.equal(pooled, F.max_pool1d(x * 2, 2))


@pytest.mark.parametrize("how", [saker.capture, lambda f, *args: saker.aot_function(f)], ids=["capture", "aot"])
def test_captures(how: Callable) -> None:
    x, indices = torch.randn(3, 8), torch.tensor([2, 4])
    assert torch.equal(how(lambda a: F.max_pool1d(a, 2), x)(x), F.max_pool1d(x, 2))
    with pytest.raises(saker.CaptureError, match="tensor_split"):
        how(lambda a: torch.tensor_split(a, indices, 1), x)(x)
    with pytest.raises(saker.CaptureError, match="tensor_split"):
        how(lambda a, i: torch.tensor_split(a, i, 1), x, indices)(x, indices)
