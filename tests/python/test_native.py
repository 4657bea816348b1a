"""Generated code: with the stage ``fuse`` on, groups of operators run as kernels, and give what eager mode gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import saker
from generated_code import fused, needs_code  # noqa: F401 (a fixture of each test)
from saker import _C

Tensor = torch.Tensor

pytestmark = needs_code


def launches(run: Callable[[], Any]) -> tuple[Any, int]:
    before = _C.kernels_launched()
    result = run()
    return result, _C.kernels_launched() - before


def gated(x: Tensor, y: Tensor) -> Tensor:
    return functional.silu(x) * y + (x - y).tanh()


def biased(x: Tensor, y: Tensor) -> Tensor:
    return functional.gelu(x + y[0], approximate="tanh") + functional.relu(y) * 0.5


def normed(x: Tensor, y: Tensor) -> Tensor:
    return functional.layer_norm(x * 2 + y, (x.shape[-1],))


def weights(x: Tensor, y: Tensor) -> Tensor:
    return torch.softmax(x.masked_fill(y > 0, float("-inf")) * 0.125, -1)


def root_mean(x: Tensor, y: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * y


def turned(x: Tensor, y: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return x * y + torch.cat((-right, left), -1) * 0.5


def columns(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(0) + (x - y).amax(0)


def total(x: Tensor, y: Tensor) -> Tensor:
    return ((x - y) ** 2).mean() * 3


def transposed(x: Tensor, y: Tensor) -> Tensor:
    return (x.t() + 1) * y.t().abs()


def chosen(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(x > y, x, -y).clamp(-1, 1.5).to(torch.float64) / 3


PROGRAMS = [gated, biased, normed, weights, root_mean, turned, columns, total, transposed, chosen]
SHAPES = [(64, 128), (5, 34), (1, 2), (300, 770)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_kernels_give_what_operators_give(program: Callable, shape: tuple[int, int], dtype: torch.dtype) -> None:
    compiled = saker.compile(program)
    for _ in range(3):
        x, y = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
        found, count = launches(lambda x=x, y=y: compiled(x, y))
        expected = program(x, y)
        assert found.stride() == expected.stride()
        # Sums are taken in another order: in half precision the last bit of a row's sum is that of all its elements.
        close = {torch.bfloat16: {"rtol": 2**-5, "atol": 2**-6}, torch.float32: {"rtol": 1e-5, "atol": 5e-5}}.get(
            dtype, {}
        )
        torch.testing.assert_close(found, expected, equal_nan=True, **close)
    assert count > 0, _C.code_error()


@pytest.mark.parametrize("program", [gated, biased, normed, root_mean, total], ids=lambda each: each.__name__)
def test_gradients(program: Callable) -> None:
    compiled = saker.compile(program)
    for _ in range(3):
        inputs = [torch.randn(33, 130, requires_grad=True) for _ in range(2)]
        others = [each.detach().clone().requires_grad_() for each in inputs]
        tangent = torch.randn_like(program(*inputs))

        def step(inputs: list[Tensor] = inputs, tangent: Tensor = tangent) -> Tensor:
            result = compiled(*inputs)
            result.backward(tangent)
            return result

        found, count = launches(step)
        expected = program(*others)
        expected.backward(tangent)
        torch.testing.assert_close(found, expected)
        for one, other in zip(inputs, others, strict=True):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)
    assert count > 0, _C.code_error()


def test_sizes_that_change() -> None:
    compiled = saker.compile(root_mean)
    for rows, width in [(3, 8), (5, 12), (7, 33), (64, 65), (2, 2)]:
        x, y = torch.randn(rows, width), torch.randn(rows, width)
        torch.testing.assert_close(compiled(x, y), root_mean(x, y))


# The last dimension is 1 for reasons that are seen in the expression of its size only with what was asked before.
OF_ONE = {
    "binary": lambda x: x[..., 1::3] / (x * x + 1),
    "both": lambda x: x[..., 1::3] * x[..., ::3].neg() + x,
    "compared": lambda x: (x > x[..., 1::3]) ^ (x[..., 2::3] > 0),
    "expanded": lambda x: x[..., 1::3].expand_as(x) * 2 - x,
    "squeezed": lambda x: x[..., 1::3].neg().squeeze() * 2 + x.sum(-1).squeeze(),
    "squeezed one": lambda x: x[..., 1::3].neg().squeeze(-1) * 2 + 1,
    "chunk": lambda x: x[..., :2].chunk(2, -1)[0] + x.abs(),
    "repeated": lambda x: x[..., 1::3].neg().repeat(*[1] * (x.dim() - 1), 3) * x,
    "joined": lambda x: torch.cat([x[..., 1::3] / (x * x + 1)] * 2, -1).neg(),
    "written": lambda x: (x + 1).add_(x[..., 1::3]).mul_(2),
    "filled": lambda x: x.masked_fill(x[..., 1::3] > 0, 2.0) * 2,
    "lerp": lambda x: torch.lerp(x, x[..., 1::3], 0.25) * 2,
    "summed": lambda x: (x[..., 1::3] * x).sum(-1) + x[..., 2::3].neg().sum(-1),
    "softmax": lambda x: torch.softmax(x[..., 1::3] * x, -1) + torch.log_softmax(x[..., 1::3] * 2, -1),
    "viewed": lambda x: (x[..., 1::3] * 2).reshape(-1, 1) + (x * 3).reshape(-1, 3),
    "index": lambda x: x.neg()[..., torch.tensor([0, 2])] * x[..., 1::3],
}


@pytest.mark.parametrize("shape", [(3,), (5, 3), (4, 7, 3)], ids=str)
@pytest.mark.parametrize("name", OF_ONE)
def test_sizes_that_are_found_to_be_one(name: str, shape: tuple[int, ...]) -> None:
    program = OF_ONE[name]
    compiled = saker.compile(program, dynamic=True)
    for call in range(3):
        x = torch.randn(*(size + call for size in shape[:-1]), 3)
        found, count = launches(lambda x=x: compiled(x))
        torch.testing.assert_close(found, program(x))
        assert found.stride() == program(x).stride()
    assert count > 0, _C.code_error()
    y, other = (x.clone().requires_grad_() for _ in range(2))
    if found.is_floating_point():
        compiled(y).sum().backward()
        program(other).sum().backward()
        torch.testing.assert_close(y.grad, other.grad)


def test_a_part_of_windows_that_share_elements() -> None:
    """What is written to one element is written to those at its address."""

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        windows = x.unfold(-1, 2, 1)
        one = windows.select_scatter(windows.select(-1, 0) * 2, -1, 1)
        other = windows.slice_scatter(windows[:1] * 3, 0, 1, 2)
        return one * 2 + 1, other * 2 + 1

    compiled = saker.compile(program, dynamic=False)
    for _ in range(2):
        x = torch.randn(4, 5, 7).transpose(0, 2)
        torch.testing.assert_close(compiled(x), program(x))


def test_inputs_with_other_strides() -> None:
    compiled = saker.compile(gated, dynamic=False)
    for _ in range(2):
        x = torch.randn(8, 8)
        for one, other in [(x, x), (x.t(), x), (x.t(), x.t()), (x[:, ::2], x[:, 1::2]), (x.expand(2, 8, 8), x)]:
            torch.testing.assert_close(compiled(one, other), gated(one, other))


def test_what_waits_in_the_place_of_a_result_is_not_read_behind_it() -> None:
    """The exponentials of a softmax wait where a result goes; later loops need them again when the result is there."""

    def program(x: Tensor) -> tuple[Tensor, ...]:
        share = torch.softmax(x * 0.5, 1)
        rest = x - share * x
        return share, rest, functional.layer_norm(rest, rest.shape[-1:])

    compiled = saker.compile(program)
    for _ in range(3):
        x = torch.randn(4, 130)
        found, count = launches(lambda x=x: compiled(x))
        torch.testing.assert_close(found, program(x))
    assert count > 0, _C.code_error()


@pytest.mark.parametrize("width", [2, 5])
def test_a_part_of_a_result_does_not_choose_what_is_summed(width: int) -> None:
    """The new dimension is as long as the one that is summed, and shares its loop."""

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        total = x.sum(-1, keepdim=True)
        return torch.stack([total] * width, -1), torch.cat([total, x.amax(-1, keepdim=True).expand(-1, width - 1)], -1)

    compiled = saker.compile(program)
    for _ in range(3):
        x = torch.randn(3, width)
        found, count = launches(lambda x=x: compiled(x))
        torch.testing.assert_close(found, program(x))
    assert count > 0, _C.code_error()


def test_writes_stay_in_order() -> None:
    def program(x: Tensor, kept: Tensor) -> Tensor:
        y = x.sin() * 2 + kept
        kept.add_(y.cos() * x)
        return y * kept + kept.exp()

    compiled = saker.compile(program)
    for _ in range(3):
        x, kept = torch.randn(40), torch.randn(40)
        other = kept.clone()
        torch.testing.assert_close(compiled(x, kept), program(x, other))
        torch.testing.assert_close(kept, other)


def test_code_is_there_some_time_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAKER_COMPILE")

    def program(x: Tensor) -> Tensor:
        return (x.sin() * 3 - x).tanh() + 0.25

    compiled, x = saker.compile(program), torch.randn(65)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), program(x))
    _C.wait_for_code()
    found, count = launches(lambda: compiled(x))
    torch.testing.assert_close(found, program(x))
    assert count > 0, _C.code_error()
