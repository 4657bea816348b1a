"""Generated code at the numbers where formulas part: nan, infinity, signs of zero, half precision's roundings. Where
eager mode's vector code and its ends of rows do not agree, kernels do what its vector code does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

import saker
from generated_code import fused, needs_code  # noqa: F401 (a fixture of each test)
from saker import _C

Tensor = torch.Tensor
pytestmark = needs_code

HALVES = [torch.bfloat16, torch.float16]
FLOATS = [torch.float32, torch.float64, *HALVES]
VECTORS = 256  # elements: whole vectors of every dtype, so that eager mode has no ends of rows


def in_a_kernel(program: Callable, *inputs: Tensor) -> Tensor:
    """What a kernel gives: a single operator would be called, so it is turned around behind it."""
    compiled = saker.compile(lambda *given: program(*given).flip(0), dynamic=False)
    compiled(*inputs)
    before = _C.kernels_launched()
    result = compiled(*inputs).flip(0)
    assert _C.kernels_launched() > before, _C.code_error()
    return result


def bits(tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    tensor = torch.where(tensor.isnan(), float("nan"), tensor)
    return tensor.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def same_bits(program: Callable, *inputs: Tensor) -> None:
    found, expected = in_a_kernel(program, *inputs), program(*inputs)
    wrong = (bits(found) != bits(expected)).nonzero().flatten().tolist()
    assert not wrong, [(*(each[i].item() for each in inputs), expected[i].item(), found[i].item()) for i in wrong[:5]]


def odd_numbers(dtype: torch.dtype) -> Tensor:
    numbers = torch.randn(VECTORS, dtype=torch.float64) * 3
    odd = torch.tensor(
        [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 3.0, -3.0, 1.0, -1.0, 6.0, 1e-7, 2.5, 1e4]
    )
    numbers[torch.randperm(VECTORS)[:104]] = odd.double().repeat(8)
    return numbers.to(dtype)


OPERATORS = {
    "hardtanh_backward": lambda x, y: torch.ops.aten.hardtanh_backward(y, x, -1.0, 1.0),
    "hardswish_backward": lambda x, y: torch.ops.aten.hardswish_backward(y, x),
    "hardsigmoid_backward": lambda x, y: torch.ops.aten.hardsigmoid_backward(y, x),
    "add": lambda x, y: torch.add(x, y, alpha=0.3),
    "sub": lambda x, y: torch.sub(x, y, alpha=0.3),
    "rsub": lambda x, y: torch.rsub(x, y, alpha=0.3),
    "div trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "div floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "maximum": torch.maximum,
    "clamp": lambda x, y: torch.clamp(x, y, y + 1),
    "lerp": lambda x, y: torch.lerp(x, y, 0.7),
    "to ints": lambda x, y: x.nan_to_num(0, 7, -7).clamp(-1e4, 1e4).to(torch.int32) * 3,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_odd_numbers(name: str, dtype: torch.dtype) -> None:
    if name == "to ints" and dtype in HALVES:
        pytest.skip("nan_to_num of half precision is a call")
    same_bits(OPERATORS[name], odd_numbers(dtype), odd_numbers(dtype))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_erf_of_every_half(dtype: torch.dtype) -> None:
    same_bits(torch.erf, torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype))


def test_gelu_of_every_half() -> None:
    halves = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.float16)
    if not torch.ops.mkldnn._is_mkldnn_fp16_supported():
        return same_bits(functional.gelu, halves)
    # Computed by oneDNN.
    found, expected = in_a_kernel(functional.gelu, halves), functional.gelu(halves)
    assert torch.equal(found.isnan(), expected.isnan())
    torch.testing.assert_close(found, expected, rtol=2**-10, atol=1e-6, equal_nan=True)  # its own error below -3


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gelu_of_infinity(dtype: torch.dtype) -> None:
    x = odd_numbers(dtype)
    found, expected = in_a_kernel(functional.gelu, x), functional.gelu(x)
    assert torch.equal(found.isnan(), expected.isnan())
    apart = torch.stack([x, x], 1)[:, 0]  # not dense: another library computes it
    found, expected = in_a_kernel(functional.gelu, apart), functional.gelu(apart)
    assert torch.equal(found.isnan(), expected.isnan())


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_xlogy_rounds_logarithms(dtype: torch.dtype) -> None:
    same_bits(torch.xlogy, odd_numbers(dtype), odd_numbers(dtype))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_log_softmax_rounds_sums_of_rows(dtype: torch.dtype, dim: int) -> None:
    x = (torch.randn(32, 128) * 3).to(dtype)
    found, expected = in_a_kernel(lambda x: x.log_softmax(dim), x), x.log_softmax(dim)
    # Sums in another order: seldom another number.
    assert (found != expected).float().mean() < 0.01


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layer_norm_without_bias_has_no_negative_zeros(dtype: torch.dtype) -> None:
    x, weight = torch.randn(8, 64).to(dtype), torch.zeros(64).to(dtype)
    found = in_a_kernel(lambda x, weight: functional.layer_norm(x, (64,), weight), x, weight)
    assert torch.equal(found.signbit(), functional.layer_norm(x, (64,), weight).signbit())


def test_products_of_floats_are_calls() -> None:
    """Of one large number, then one small one: neither half of the product is finite, or not zero."""
    x = torch.cat([torch.full((64,), 8.0), torch.full((64,), 0.125)]).reshape(2, 64).t().reshape(128)
    compiled = saker.compile(lambda x: (x * 1.0).prod())
    for _ in range(2):
        assert compiled(x).item() == 1.0
    same_bits(lambda x: (x + 1).prod(1), torch.randint(-5, 5, (8, 40)))


QUOTIENTS: dict[str, Callable] = {
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "floor_divide": torch.floor_divide,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients_of_integers(name: str, dtype: torch.dtype) -> None:
    least = 0 if dtype == torch.uint8 else -60
    x, y = torch.randint(least, 60, (VECTORS + 5,)).to(dtype), torch.randint(1, 9, (VECTORS + 5,)).to(dtype)
    if dtype != torch.uint8:
        y[::2] *= -1
    program = QUOTIENTS[name]
    same_bits(program, x, y)
    for number in (7, 1) if dtype == torch.uint8 else (7, -7, 1, -1):
        same_bits(lambda x, number=number: program(x, number), x)
    compiled = saker.compile(lambda x, y: program(x, y).flip(0), dynamic=False)
    for _ in range(2):
        assert torch.equal(compiled(x, y), program(x, y).flip(0))
    y[-1] = 0
    with pytest.raises(RuntimeError) as expected:
        program(x, y)
    with pytest.raises(RuntimeError) as found:
        compiled(x, y)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("size", [2, 3, 4, 7, 16, 33])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.float32], ids=str)
def test_masks_that_are_read_twice(dtype: torch.dtype, size: int) -> None:
    """Elements are read where the sign of a place says so, and the same signs choose among them."""
    numbers = torch.randint(-9, 10, (size, size)).to(dtype)
    same_bits(lambda x: (x.view(-1) == x.view(-1)).roll(1, -1), numbers)
    same_bits(lambda x: (x * x - 1).view(-1).roll(-1, -1), numbers)
    compiled = saker.compile(lambda x: (x.view(-1) == x.view(-1)).roll(1, -1), dynamic=False)
    for _ in range(3):
        assert compiled(numbers).all()


ROUNDED_NUMBERS = {
    "mul": torch.mul,
    "div": torch.div,
    "div trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "div floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "floor_divide": torch.floor_divide,
    "add": torch.add,
    "sub": torch.sub,
    "pow": lambda x, y: torch.pow(x.abs(), y),
    "maximum": torch.maximum,
}


@pytest.mark.parametrize("number", [torch.tensor(1.2345678), torch.tensor(1.2345678).double(), torch.tensor([257])])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ROUNDED_NUMBERS)
def test_a_number_on_either_side(name: str, dtype: torch.dtype, number: Tensor) -> None:
    """Of half precision and a tensor of one element: eager mode rounds it as the first operand, not always as the
    second."""
    if name == "pow" and not number.is_floating_point():
        pytest.skip("pow of f16 with an integer overflows")
    numbers = (torch.rand(VECTORS) * 3 + 0.5).to(dtype)
    same_bits(lambda x: ROUNDED_NUMBERS[name](x, number), numbers)
    same_bits(lambda x: ROUNDED_NUMBERS[name](number, x), numbers)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("most", [3, 300])
def test_quotients_that_are_rounded_down(most: int, dtype: torch.dtype) -> None:
    x, y = ((torch.rand(10 * VECTORS) * 2 - 1).to(dtype) * scale for scale in (most, 3))
    same_bits(torch.floor_divide, x, y)
    for number in (torch.tensor(0.3), torch.tensor(-1.7)):
        same_bits(lambda x, number=number: torch.floor_divide(x, number), x)
        same_bits(lambda x, number=number: torch.floor_divide(number * 100, x), x)


@pytest.mark.parametrize("size", [1e-25, 1.0, 1e25, 3e37])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_deviations_of_large_and_small_numbers(dtype: torch.dtype, size: float) -> None:
    numbers = (torch.randn(4, 300) * size).to(dtype)
    for dim in (0, 1):
        for program in (
            lambda x, dim=dim: torch.std(x, dim),
            lambda x, dim=dim: torch.std_mean(x, dim)[0],
            lambda x, dim=dim: torch.var(x, dim),
            lambda x, dim=dim: torch.var_mean(x, dim)[1],
        ):
            found, expected = in_a_kernel(program, numbers), program(numbers)
            torch.testing.assert_close(
                found / size, expected / size, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-6
            )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(5, 1), (5, 2), (5, 64), (5, 300)], ids=str)
def test_means_of_infinities(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """Eager mode's mean beside a variance is nan behind an infinity, and infinite where that comes last."""
    numbers = torch.zeros(shape).to(dtype)
    numbers[1, 0] = numbers[2, -1] = numbers[3, shape[1] // 2] = float("inf")
    numbers[4, -1] = float("-inf")
    for x in (numbers, numbers.t().contiguous().t()):
        same_bits(lambda x: torch.std_mean(x, 1, correction=0)[1], x)
        same_bits(lambda x: torch.var_mean(x.t(), 0)[1], x)
        same_bits(lambda x: torch.var_mean(x.view(-1, 5, shape[1])[0].unsqueeze(0), (0, 2))[1], numbers)
        same_bits(lambda x: torch.std_mean(x[2:3] * 2)[1].view(1), x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softshrink_takes_the_bound_of_this_version(dtype: torch.dtype) -> None:
    same_bits(lambda x: functional.softshrink(x, 0.7), odd_numbers(dtype))


BOUNDED = {
    "clamp": lambda x, low, high: x.clamp(low, high),
    "in place": lambda x, low, high: (x + 0).clamp_(low, high),
    "clamp_min": lambda x, low, high: x.clamp_min(low if high is None else high),
    "clamp_max": lambda x, low, high: x.clamp_max(low if high is None else high),
    "hardtanh": lambda x, low, high: functional.hardtanh(x, -3 if low is None else low, 5 if high is None else high),
}


@pytest.mark.parametrize("low, high", [(-3, 5), (None, 300), (-1000, 5), (2, 300), (-3, None), (2, 5)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16], ids=str)
@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_that_integers_do_not_have(name: str, dtype: torch.dtype, low: int | None, high: int | None) -> None:
    """Before torch 2.15 they wrap around or are refused, from then on they are none or are refused."""
    program = lambda x: BOUNDED[name](x, low, high).flip(0)  # noqa: E731
    compiled = saker.compile(program, dynamic=False)
    x = torch.arange(120).to(dtype)
    for _ in range(3):
        found = []
        for run in (program, compiled):
            try:
                found.append(run(x).tolist())
            except RuntimeError as error:
                found.append(str(error).split("\n")[0])
        assert found[0] == found[1]
