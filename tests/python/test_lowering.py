"""Kernels of single operators against the operators: each is captured, put into a group of its own, lowered, and its
kernels are run as their text says (`helpers/kernel_text.py`). Elementwise results are equal bit by bit, unless a row
says how far they may be off."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import saker
from kernel_text import Fused
from torch_versions import SOFTSHRINK_ROUNDS

f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
i32, i64, u8, boolean = torch.int32, torch.int64, torch.uint8, torch.bool
FLOATS = (f32, bf16, f16, f64)
NUMBERS = (*FLOATS, i64, i32, u8)
ALL = (*NUMBERS, boolean)
aten = torch.ops.aten


def sample(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype == boolean:
        return torch.rand(shape, generator=generator) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == u8 else -7, 8, shape, generator=generator).to(dtype)
    made = (torch.randn(shape, generator=generator) * 3).to(dtype)
    flat = made.view(-1)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, float("inf"), float("-inf"), float("nan")]
    if flat.numel() >= 40:
        for at, number in enumerate(special):
            flat[(at * 7 + seed * 3) % flat.numel()] = number
    return made


def check(
    function: Callable[..., object], inputs: list[torch.Tensor], tolerance: float = 0, groups: int | None = None
) -> Fused:
    """`tolerance`: relative to the largest number; 0: all bits."""
    expected = function(*inputs)
    expected = list(expected) if isinstance(expected, (tuple, list)) else [expected]
    fused = Fused(str(saker.capture(function, *inputs).functional()), "--fewest=1")
    assert fused.launches, "nothing was lowered:\n" + fused.text
    assert groups is None or len(fused.launches) == groups, fused.text
    found = fused.run(inputs)
    for want, have in zip(expected, found, strict=True):
        assert want.dtype == have.dtype
        assert want.shape == have.shape
        assert want.stride() == have.stride()
        if not tolerance:
            torch.testing.assert_close(have, want, rtol=0, atol=0, equal_nan=True)
            if want.is_floating_point():
                zeros = want == 0
                assert torch.equal(torch.signbit(want)[zeros], torch.signbit(have)[zeros])
        else:
            torch.testing.assert_close(have, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    return fused


UNARY: dict[str, tuple[Callable[[torch.Tensor], object], tuple[torch.dtype, ...]]] = {
    **{
        name: (getattr(torch, name), FLOATS)
        for name in (
            [
                "exp",
                "exp2",
                "expm1",
                "log",
                "log2",
                "log10",
                "log1p",
                "sqrt",
                "sin",
                "cos",
                "tan",
                "asin",
                "acos",
                "atan",
                "sinh",
                "cosh",
                "tanh",
                "asinh",
                "acosh",
                "atanh",
                "erf",
                "erfc",
                "rsqrt",
                "reciprocal",
                "sigmoid",
                "frac",
            ]
        )
    },
    **{name: (getattr(torch, name), NUMBERS) for name in ["abs", "neg", "floor", "ceil", "trunc", "round", "sign"]},
    **{name: (getattr(torch, name), ALL) for name in ["isnan", "isinf", "logical_not"]},
    "exp_of_int": (torch.exp, (i64, u8, boolean)),
    "sigmoid_of_int": (torch.sigmoid, (i64, boolean)),
    "bitwise_not": (torch.bitwise_not, (i64, i32, u8, boolean)),
    "nan_to_num": (lambda x: torch.nan_to_num(x, 1.5, 2.5), (f32, f64, i64)),
    "to_f32": (lambda x: x.to(f32) if x.dtype != f32 else x.to(f64), ALL),
    "to_bf16": (lambda x: x.to(bf16) if x.dtype != bf16 else x.to(f16), ALL),
    "to_i64": (lambda x: torch.nan_to_num(x, 0, 9, -9).to(i32), (f32, f64)),
    "to_bool": (lambda x: x.to(boolean), NUMBERS),
    "pow_2": (lambda x: x**2, NUMBERS),
    "pow_3": (lambda x: x**3, NUMBERS),
    "pow_half": (lambda x: x**0.5, (f32, bf16, f64)),
    "pow_-half": (lambda x: x**-0.5, (f32, bf16, f64)),
    "pow_-1": (lambda x: x**-1.0, FLOATS),
    "pow_-2": (lambda x: x**-2.0, FLOATS),
    "pow_1.7": (lambda x: x**1.7, (f32, f64)),
    "add_number": (lambda x: x + 0.1, ALL),
    "add_int": (lambda x: x + 3, ALL),
    "mul_number": (lambda x: x * 0.1, ALL),
    "sub_number": (lambda x: x - 0.3, NUMBERS),
    "rsub_number": (lambda x: 0.3 - x, NUMBERS),
    "div_number": (lambda x: x / 0.3, ALL),
    "rdiv_number": (lambda x: 0.3 / x, ALL),
    "div_floor_number": (lambda x: torch.div(x, 0.3, rounding_mode="floor"), FLOATS),
    "div_trunc_number": (lambda x: torch.div(x, 0.3, rounding_mode="trunc"), FLOATS),
    "remainder_number": (lambda x: torch.remainder(x, -0.7), FLOATS),
    "fmod_number": (lambda x: torch.fmod(x, 0.7), FLOATS),
    "gt_number": (lambda x: x > 0.1, ALL),
    "le_int": (lambda x: x <= 1, ALL),
    "eq_number": (lambda x: x == 0.5, NUMBERS),
    "clamp": (lambda x: torch.clamp(x, -0.1, 0.7), FLOATS),
    "clamp_int": (lambda x: torch.clamp(x, 1, 4), NUMBERS),
    "clamp_min": (lambda x: torch.clamp(x, min=0.1), FLOATS),
    "clamp_max": (lambda x: torch.clamp(x, max=0.1), FLOATS),
    "where_number": (lambda x: torch.where(x > 0, x, 0.1), FLOATS),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 0.1), FLOATS),
    "relu": (F.relu, NUMBERS),
    "relu6": (F.relu6, FLOATS),
    "silu": (F.silu, FLOATS),
    "mish": (F.mish, FLOATS),
    "elu": (lambda x: F.elu(x, 0.7), FLOATS),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), FLOATS),
    "hardtanh": (lambda x: F.hardtanh(x, -0.3, 0.3), FLOATS),
    "hardsigmoid": (F.hardsigmoid, FLOATS),
    "hardswish": (F.hardswish, FLOATS),
    "threshold": (lambda x: F.threshold(x, 0.1, 0.3), FLOATS),
    "softplus": (lambda x: F.softplus(x, 2, 3), FLOATS),
    "gelu": (F.gelu, FLOATS),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), FLOATS),
    "logsigmoid": (F.logsigmoid, (f32, f64)),
    "full_like": (lambda x: x + torch.full_like(x, 0.3), FLOATS),
    "zeros_and_ones": (lambda x: (x + torch.zeros_like(x)) * torch.ones(x.shape, dtype=x.dtype), FLOATS),
    "arange": (lambda x: x + torch.arange(x.shape[-1]), ALL),
    "isposinf": (torch.isposinf, ALL),
    "isneginf": (torch.isneginf, ALL),
    "signbit": (torch.signbit, ALL),
    "hardshrink": (lambda x: F.hardshrink(x, 0.7), FLOATS),
    "softshrink": (lambda x: F.softshrink(x, 0.7), FLOATS if SOFTSHRINK_ROUNDS else (f32, f64)),
    "celu": (lambda x: F.celu(x, 0.7), (f32, f64)),
    "glu": (lambda x: F.glu(x, 0), FLOATS),
    "deg2rad": (torch.deg2rad, FLOATS),
    "rad2deg": (torch.rad2deg, FLOATS),
    "entr": (torch.special.entr, FLOATS),
    "shift_left": (lambda x: x << 2, (i64, i32, u8)),
    "shift_right": (lambda x: x >> 1, (i64, i32, u8)),
    "eye": (lambda x: x + torch.eye(x.shape[0], x.shape[1], dtype=x.dtype), NUMBERS),
    "arange_step": (lambda x: x * torch.arange(2, 2 + 3 * x.shape[-1], 3), NUMBERS),
}
# Where the order of a formula's steps is PyTorch's affair.
OFF = {"gelu": 2e-6, "rsqrt": 1e-6, "sigmoid": 1e-6, "pow_-half": 1e-6, "xlogy": 1e-6, "mish": 1e-6,
       "elu": 1e-6, "silu": 1e-6, "softplus": 1e-6, "logsigmoid": 1e-6,
       "pow_1.7": 1e-6, "gelu_tanh": 2e-6, "celu": 1e-6, "glu": 1e-6, "entr": 1e-6, "logaddexp": 1e-6,
       "logaddexp2": 1e-6, "xlog1py": 1e-6}  # fmt: skip
# Of infinity these are nan in PyTorch's vectors.
PLAIN = ("gelu", "gelu_tanh", "gelu_backward", "gelu_tanh_backward", "mish", "silu_backward")


def tolerance_of(name: str, dtype: torch.dtype) -> float:
    if "alpha" in name and dtype == f64:
        return 1e-14  # the helper has no fma of f64
    if name not in OFF:
        return 0
    return {bf16: 1e-2, f16: 2e-3}.get(dtype, OFF[name])


def sample_for(name: str, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """As many elements as fill vectors: what is left is computed by other code of PyTorch's, with other roundings."""
    made = sample(dtype, 8, 16, seed=seed)
    if name in PLAIN and dtype.is_floating_point:
        made = torch.where(made.isfinite(), made, made.new_full((), 0.75))
    return made


@pytest.mark.parametrize(
    ("name", "dtype"),
    [pytest.param(name, dtype, id=f"{name}-{dtype}") for name, row in UNARY.items() for dtype in row[1]],
)
def test_one_operand(name: str, dtype: torch.dtype) -> None:
    check(UNARY[name][0], [sample_for(name, dtype)], tolerance_of(name, dtype))


BINARY: dict[str, tuple[Callable[..., object], tuple[torch.dtype, ...]]] = {
    "add": (torch.add, ALL),
    "add_alpha": (lambda a, b: torch.add(a, b, alpha=3), NUMBERS),
    "add_alpha_float": (lambda a, b: torch.add(a, b, alpha=0.3), FLOATS),
    "sub": (torch.sub, NUMBERS),
    "sub_alpha": (lambda a, b: torch.sub(a, b, alpha=0.3), FLOATS),
    "rsub": (torch.rsub, NUMBERS),
    "mul": (torch.mul, ALL),
    "div": (torch.div, ALL),
    "div_floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), FLOATS),
    "div_trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), FLOATS),
    "floor_divide": (torch.floor_divide, FLOATS),
    "fmod": (torch.fmod, FLOATS),
    "remainder": (torch.remainder, FLOATS),
    "pow": (torch.pow, (f32, f64)),
    "maximum": (torch.maximum, ALL),
    "minimum": (torch.minimum, ALL),
    "fmax": (torch.fmax, ALL),
    "fmin": (torch.fmin, ALL),
    "atan2": (torch.atan2, FLOATS),
    "copysign": (torch.copysign, FLOATS),
    "xlogy": (torch.xlogy, FLOATS),
    **{
        name: (getattr(torch, name), ALL)
        for name in ["eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"]
    },
    **{name: (getattr(torch, name), (i64, i32, u8, boolean)) for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]},
    "where": (lambda a, b: torch.where(a > b, a, b), ALL),
    "lerp_number": (lambda a, b: torch.lerp(a, b, 0.3), FLOATS),
    "lerp_number_large": (lambda a, b: torch.lerp(a, b, 0.7), FLOATS),
    "lerp": (lambda a, b: torch.lerp(a, b, b), FLOATS),
    "addcmul": (lambda a, b: torch.addcmul(a, a, b, value=0.3), FLOATS),
    "addcmul_one": (lambda a, b: torch.addcmul(a, a, b), NUMBERS),
    "addcdiv": (lambda a, b: torch.addcdiv(a, a, b, value=0.3), FLOATS),
    "tanh_backward": (aten.tanh_backward, FLOATS),
    "sigmoid_backward": (aten.sigmoid_backward, FLOATS),
    "threshold_backward": (lambda a, b: aten.threshold_backward(a, b, 0), FLOATS),
    "silu_backward": (aten.silu_backward, FLOATS),
    "gelu_backward": (aten.gelu_backward, FLOATS),
    "gelu_tanh_backward": (lambda a, b: aten.gelu_backward(a, b, approximate="tanh"), FLOATS),
    "leaky_relu_backward": (lambda a, b: aten.leaky_relu_backward(a, b, 0.1, False), FLOATS),
    "hardtanh_backward": (lambda a, b: aten.hardtanh_backward(a, b, -0.3, 0.3), FLOATS),
    "hardswish_backward": (aten.hardswish_backward, FLOATS),
    "hardsigmoid_backward": (aten.hardsigmoid_backward, FLOATS),
    "shifts": (lambda a, b: (a << b) ^ (a >> b), (i64, i32, u8)),
    "heaviside": (torch.heaviside, ALL),
    "logaddexp": (torch.logaddexp, FLOATS),
    "logaddexp2": (torch.logaddexp2, FLOATS),
    "xlog1py": (torch.special.xlog1py, FLOATS),
    "hardshrink_backward": (lambda a, b: aten.hardshrink_backward(a, b, 0.7), FLOATS),
    "softshrink_backward": (lambda a, b: aten.softshrink_backward(a, b, 0.7), FLOATS),
    "glu_backward": (lambda a, b: aten.glu_backward(a[:4], b, 0), FLOATS),
    "dropout_backward": (lambda a, b: aten.native_dropout_backward(a, b > 0, 1.25), FLOATS),
    "softplus_backward": (lambda a, b: aten.softplus_backward(a, b, 2, 3), FLOATS),
}
OFF.update({name: 1e-6 for name in BINARY if name.endswith("_backward") and not name.startswith(("thres", "leaky"))})
OFF.update(dict.fromkeys(("lerp", "lerp_number", "lerp_number_large", "addcmul", "addcmul_one", "addcdiv"), 1e-6))
OFF["pow"] = 1e-6


@pytest.mark.parametrize(
    ("name", "dtype"),
    [pytest.param(name, dtype, id=f"{name}-{dtype}") for name, row in BINARY.items() for dtype in row[1]],
)
def test_two_operands(name: str, dtype: torch.dtype) -> None:
    check(BINARY[name][0], [sample_for(name, dtype), sample_for(name, dtype, seed=1)], tolerance_of(name, dtype))


@pytest.mark.parametrize("second", ALL, ids=str)
@pytest.mark.parametrize("first", ALL, ids=str)
@pytest.mark.parametrize("name", ["add", "mul", "div", "maximum", "lt", "where"])
def test_promotion(name: str, first: torch.dtype, second: torch.dtype) -> None:
    """Dtypes that differ, with dimensions and without."""
    function = BINARY[name][0]
    a, b = sample(first, 8, 16), sample(second, 16, seed=1)
    if name == "maximum":  # which zero is larger depends on the code that PyTorch takes
        a, b = a.masked_fill(a == 0, 1), b.masked_fill(b == 0, 1)
    check(function, [a, b])
    check(function, [a, b[3].clone()])


ROWS: dict[str, tuple[Callable[..., object], tuple[torch.dtype, ...]]] = {
    "sum": (lambda x: x.sum(-1), ALL),
    "sum_keep": (lambda x: x.sum((1, 2), keepdim=True), ALL),
    "sum_middle": (lambda x: x.sum(1), ALL),
    "sum_first": (lambda x: x.sum(0), ALL),
    "sum_outer": (lambda x: x.sum((0, 2)), NUMBERS),
    "sum_all": (lambda x: x.sum(), ALL),
    "sum_dtype": (lambda x: x.sum(-1, dtype=f64), ALL),
    "mean": (lambda x: x.mean(-1), FLOATS),
    "mean_all": (lambda x: x.mean(), FLOATS),
    "prod": (lambda x: x.prod(-1), (i64,)),
    "amax": (lambda x: x.amax(-1), ALL),
    "amin": (lambda x: x.amin((0, 1)), ALL),
    "any": (lambda x: (x > 0).any(-1), NUMBERS),
    "all": (lambda x: x.all(0), ALL),
    "var": (lambda x: x.var(-1), FLOATS),
    "var_biased": (lambda x: x.var((0, 2), correction=0), FLOATS),
    "std": (lambda x: x.std(1, keepdim=True), FLOATS),
    "var_mean": (lambda x: torch.var_mean(x, -1), FLOATS),
    "logsumexp": (lambda x: torch.logsumexp(x, -1), FLOATS),
    "norm": (lambda x: torch.linalg.vector_norm(x, 2, -1), (f32, f64)),
    "softmax": (lambda x: torch.softmax(x, -1), FLOATS),
    "softmax_middle": (lambda x: torch.softmax(x, 1), FLOATS),
    "log_softmax": (lambda x: torch.log_softmax(x, -1), FLOATS),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[-1:]), FLOATS),
    "layer_norm_two": (lambda x: F.layer_norm(x, x.shape[1:], torch.ones(x.shape[1:], dtype=x.dtype)), FLOATS),
    "std_mean": (lambda x: torch.std_mean(x, -1), FLOATS),
    "argmax": (lambda x: x.argmax(1), NUMBERS),
    "argmin_keep": (lambda x: x.argmin(-1, keepdim=True), NUMBERS),
    "argmax_all": (lambda x: x.argmax(), NUMBERS),
    "max_dim": (lambda x: x.max(-1), NUMBERS),
    "min_dim": (lambda x: x.min(0, keepdim=True), NUMBERS),
    "max_all": (lambda x: x.max(), ALL),
    "min_all": (lambda x: x.min(), ALL),
    "aminmax": (lambda x: torch.aminmax(x, dim=1), ALL),
    "aminmax_all": (lambda x: torch.aminmax(x), NUMBERS),
    "count_nonzero": (lambda x: aten.count_nonzero.dim_IntList(x, [1]), ALL),
    "nansum": (lambda x: torch.nansum(x, -1), NUMBERS),
    "safe_softmax": (lambda x: aten._safe_softmax(x.masked_fill(x.abs() < 9, -torch.inf), -1), FLOATS),
    "softmax_backward": (lambda x: aten._softmax_backward_data(x, x.softmax(-1), -1, x.dtype), FLOATS),
    "log_softmax_backward": (lambda x: aten._log_softmax_backward_data(x, x.log_softmax(1), 1, x.dtype), FLOATS),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [pytest.param(name, dtype, id=f"{name}-{dtype}") for name, row in ROWS.items() for dtype in row[1]],
)
def test_reductions(name: str, dtype: torch.dtype) -> None:
    x = sample(dtype, 4, 3, 16)
    if dtype.is_floating_point:
        x = torch.where(x.isfinite(), x, x.new_full((), 0.25))
    tolerance = {bf16: 2e-2, f16: 4e-3, f32: 4e-6, f64: 1e-12}.get(dtype, 0)
    if ("max" in name.removeprefix("softmax") and "softmax" not in name) or "min" in name:
        tolerance = 0
    check(ROWS[name][0], [x], tolerance)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["argmax", "argmin_keep", "argmax_all", "max_dim", "min_dim", "nansum"])
def test_reductions_of_special_numbers(name: str, dtype: torch.dtype) -> None:
    """The first of several nans, infinities or zeros."""
    x = sample(dtype, 4, 3, 16)
    check(ROWS[name][0], [x], {bf16: 2e-2, f16: 4e-3}.get(dtype, 1e-6) if name == "nansum" else 0)
    if name != "nansum":
        zeros = torch.tensor([-0.0, 0.0, -0.0, 0.0], dtype=dtype).repeat(3, 3, 4)
        check(ROWS[name][0], [zeros])
        check(ROWS[name][0], [x.nan_to_num(0, 1, -1).round()])


VIEWS: dict[str, Callable[..., object]] = {
    "transpose": lambda x: x.transpose(0, 2) * 2,
    "transpose_contiguous": lambda x: (x.transpose(0, 2) * 2).contiguous() + 1,
    "permute_view": lambda x: (x.permute(1, 0, 2).reshape(3, 64) + 1) * 2,
    "split_heads": lambda x: (x.view(4, 3, 2, 8).transpose(1, 2) + 1).exp(),
    "merge_heads": lambda x: (x.view(4, 3, 2, 8).transpose(1, 2).reshape(4, 2, 24) + 1).exp(),
    "slice": lambda x: x[:, 1:, 2:15:3] * 2,
    "select": lambda x: x[1] + x[:, -1][2],
    "expand": lambda x: x[:, :1].expand(4, 5, 16) * 2,
    "unsqueeze": lambda x: x.unsqueeze(1) + x.unsqueeze(2),
    "squeeze": lambda x: x[:, :1].squeeze(1) * 2,
    "flip": lambda x: torch.flip(x, [0, 2]) * 2,
    "cat": lambda x: torch.cat([x, x * 2, x[:, :1]], 1) + 1,
    "stack": lambda x: torch.stack([x, x * 2], -1) + 1,
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=0.5) * 2,
    "pad_less": lambda x: F.pad(x, (-1, 2)) * 2,
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, :, 3:9] * 2, 2, 5, 11) + 1,
    "slice_scatter_steps": lambda x: torch.slice_scatter(x, x[:, :, 3:8] * 2, 2, 1, 15, 3) + 1,
    "select_scatter": lambda x: torch.select_scatter(x, x[:, 0] * 2, 1, -1) + 1,
    "slice_backward": lambda x: aten.slice_backward(x * 2, [4, 9, 16], 1, 2, 5, 1) + 1,
    "slice_backward_steps": lambda x: aten.slice_backward(x * 2, [4, 3, 48], 2, 2, 48, 3) + 1,
    "select_backward": lambda x: aten.select_backward(x * 2, [4, 5, 3, 16], 1, -2) + 1,
    "repeat": lambda x: x.repeat(2, 3, 1, 2) * 2,
    "reflection_pad1d": lambda x: F.pad(x, (3, 5), mode="reflect") * 2,
    "reflection_pad2d": lambda x: F.pad(x, (3, 5, 1, 2), mode="reflect") * 2,
    "replication_pad1d": lambda x: F.pad(x, (3, 20), mode="replicate") * 2,
    "replication_pad2d": lambda x: F.pad(x, (3, -5, 1, 7), mode="replicate") * 2,
    "unsafe_split": lambda x: torch.mul(*torch.unsafe_split(x, 8, -1)),
    "diagonal": lambda x: x.diagonal(1, 2, 1) * 2 + x.diagonal(-1, 1, 2)[:, :1],
    "unfold": lambda x: x.unfold(2, 4, 3) * 2,
    "chunk": lambda x: torch.mul(*x.chunk(2, -1)),
    "unbind": lambda x: x.unbind(1)[1] * x.unbind(1)[2],
    "odd_reshape": lambda x: x[:, :, :15].reshape(3, 60) + 1,
    "softmax_transposed": lambda x: torch.softmax(x * 2, -1).transpose(1, 2) + 1,
    "softmax_of_transposed": lambda x: torch.softmax(x.transpose(1, 2) * 2, -1) + 1,
    "normalized": lambda x: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True) + 1e-5),
    "rms": lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6),
    "rows_of_rows": lambda x: x.exp().sum(-1).log().sum(-1),
    "two_ways": lambda x: ((x * 2).sum(-1), (x * 2).sum(0)),
    "rows_then_columns": lambda x: (x - x.amax(-1, keepdim=True)).exp().sum((0, 1)),
    "softmax_twice": lambda x: torch.softmax(torch.softmax(x, -1), 1),
    "square": lambda x: torch.softmax(x.reshape(12, 16)[:, :12], -1).t() + torch.softmax(x.reshape(12, 16)[:, :12], -1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_and_chains(name: str) -> None:
    x = torch.randn(4, 3, 16, generator=torch.Generator().manual_seed(3))
    check(VIEWS[name], [x], 4e-6)
    # Memory in another order.
    y = torch.randn(16, 3, 4, generator=torch.Generator().manual_seed(3)).permute(2, 1, 0)
    if name not in {"split_heads", "merge_heads"}:
        check(VIEWS[name], [y], 4e-6)
