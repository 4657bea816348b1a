"""Replays enter PyTorch's kernels directly, with checks, promotion and layouts worked out once (src/aten/kept_call.h).
What they compute is eager mode's to the last bit; where a tensor or the surroundings differ, the operator is called."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import saker
from alone import alone
from saker import _C

torch.set_num_threads(1)


def same(got: Tensor, expected: Tensor) -> None:
    assert got.dtype == expected.dtype and got.shape == expected.shape and got.stride() == expected.stride()
    assert got.is_inference() == expected.is_inference() and got.requires_grad == expected.requires_grad
    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    a, b = (each.detach().resolve_conj().resolve_neg().contiguous() for each in (got, expected))
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    kind = integers[a.element_size()]
    assert torch.equal(a.view(kind), b.view(kind)), (got, expected)


def check(fn: Callable[..., Tensor], *calls: tuple[Tensor, ...], kept: bool | None = True) -> tuple[int, int]:
    """All calls, twice, against eager mode. Gives how many kept calls were prepared, and how often one missed."""
    compiled = saker.compile(fn)
    before = _C.kept_calls()
    for _ in range(2):
        for args in calls:
            same(compiled(*args), fn(*args))
    prepared, missed = (now - then for now, then in zip(_C.kept_calls(), before, strict=True))
    assert saker.stats()["replays"] > 0
    assert kept is None or (prepared > 0) == kept
    return prepared, missed


UNARY = [
    torch.acos, torch.asin, torch.atan, torch.ceil, torch.cos, torch.erf, torch.exp, torch.expm1, torch.floor,
    torch.frac, torch.lgamma, torch.log, torch.log1p, torch.log2, torch.neg, torch.reciprocal, torch.round, torch.rsqrt,
    torch.sgn, torch.sigmoid, torch.sign, torch.sin, torch.sinh, torch.sqrt, torch.tan, torch.tanh, torch.trunc,
    F.silu, F.mish, F.gelu, F.elu, F.softplus, F.leaky_relu, F.hardsigmoid,
]  # fmt: skip
BINARY = [
    torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum, torch.fmax, torch.fmin, torch.atan2,
    torch.remainder, torch.fmod, torch.copysign, torch.hypot, torch.logaddexp, torch.pow, torch.eq, torch.lt, torch.ge,
]  # fmt: skip


@pytest.mark.parametrize("fn", UNARY, ids=lambda f: f.__name__)
@pytest.mark.parametrize("inner", [False, True])
def test_unary(fn: Callable[[Tensor], Tensor], inner: bool) -> None:
    def program(x: Tensor) -> Tensor:
        return fn(x * 2) + 1 if inner else fn(x)

    for make in (lambda: torch.randn(37), lambda: torch.randn(5, 7).t(), lambda: torch.randn(3, 4, 5)[:, ::2]):
        check(program, (make(),), (make(),))


@pytest.mark.parametrize("fn", BINARY, ids=lambda f: f.__name__)
def test_binary(fn: Callable[[Tensor, Tensor], Tensor]) -> None:
    def pair(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
        return tuple(torch.randn(shape) for shape in shapes)

    def inner(x: Tensor, y: Tensor) -> Tensor:
        return fn(x + 1, y * 2).sum(-1)

    for shapes in [((6, 9), (6, 9)), ((6, 9), (9,)), ((6, 1), (1, 9)), ((), (4,)), ((2, 3), ()), ((0, 3), (1, 3))]:
        check(fn, pair(*shapes), pair(*shapes))
    check(inner, pair((6, 9), (9,)), pair((6, 9), (9,)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.half, torch.int32, torch.bool, torch.complex64])
def test_dtypes(dtype: torch.dtype) -> None:
    def make() -> Tensor:
        return (torch.randn(33) * 3).to(dtype) if dtype != torch.complex64 else torch.randn(33, dtype=dtype)

    check(lambda x, y: (x * y) + x, (make(), make()), (make(), make()))
    check(lambda x, y: (x * 3).pow(2) + y * True, (make(), make()), (make(), make()))


def test_promotion_is_the_operators() -> None:
    """Kernels that compute in copies of their operands are not kept: the copies would have the elements of one run."""
    pairs = [(torch.arange(9), torch.randn(9)), (torch.randn(9), torch.randn(9).double())]
    for first, second in pairs:
        check(torch.mul, (first, second), (first + 1, second + 1), kept=False)
    check(lambda x: x.sin(), (torch.arange(9),), (torch.arange(9) + 2,), kept=False)
    check(lambda x: x > 3, (torch.arange(9),), (torch.arange(9) - 2,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half, torch.float32])
@pytest.mark.parametrize("fn", [torch.add, torch.sub, torch.mul, torch.div], ids=lambda f: f.__name__)
def test_operands_of_one_number(fn: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype) -> None:
    """Kernels of halves take such an operand out of their iterator, so that it serves one run only."""
    calls = [(torch.randn(33, dtype=dtype), torch.randn((), dtype=dtype)) for _ in range(4)]
    check(fn, *calls, kept=None)
    check(lambda x, y: fn(y, x) + x, *calls, kept=None)


def test_summands_of_products() -> None:
    def make() -> tuple[Tensor, ...]:
        return torch.randn(2, 3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.randn(3), torch.randn(5)

    def program(summand: Tensor, a: Tensor, b: Tensor, row: Tensor, vector: Tensor) -> Tensor:
        product = torch.baddbmm(summand, a, b, beta=0.5) + torch.baddbmm(vector, a, b)
        return product + torch.addmm(vector, a[0], b[0]) + torch.addmv(row, b[0].t()[:3], a[0][0])[:, None]

    check(program, *(make() for _ in range(4)), kept=None)


def test_one_tensor_given_twice() -> None:
    """Two arguments are one tensor in the first replay only: the calls that are kept read both."""
    x, y = torch.randn(8), torch.randn(8)

    def program(a: Tensor, b: Tensor, c: list[Tensor]) -> Tensor:
        return (a * 2 - b * 3) * (a * b)

    compiled = saker.compile(program)
    for pair in [(x, y), (x, x), (y, y), (x, y), (y, x)] * 2:
        same(compiled(*pair, []), program(*pair, []))


def test_other_memory_in_each_call() -> None:
    big = torch.randn(1000)
    calls = [(big[i : i + 12].view(3, 4), big[2 * i : 2 * i + 4]) for i in range(0, 90, 7)]
    prepared, missed = check(lambda x, y: torch.tanh(x * y) @ x.t(), *calls)
    assert prepared <= 4 and missed == 0


def test_results_are_new_in_each_call() -> None:
    compiled = saker.compile(lambda x: x.sin())
    x = torch.randn(5)
    results = [compiled(x + i) for i in range(5)]
    for i, result in enumerate(results):
        same(result, (x + i).sin())
    assert len({result.data_ptr() for result in results}) == 5


def test_an_input_is_let_go() -> None:
    """What is kept from call to call holds no tensor of the caller's."""
    import gc
    import weakref

    compiled = saker.compile(lambda x, y: (x * y).sin() + x)
    x, y = torch.randn(6), torch.randn(6)
    for _ in range(3):
        compiled(x, y)
    storages = [weakref.ref(each.untyped_storage()) for each in (x, y)]
    del x, y
    gc.collect()
    assert all(each() is None for each in storages)
    same(compiled(torch.ones(6), torch.ones(6)), (torch.ones(6)).sin() + 1)


@pytest.mark.parametrize("beta", [1, 0.5, 0])
@pytest.mark.parametrize("shape", [(7,), (1, 7), (5, 7), (5, 1), ()])
def test_addmm(beta: float, shape: tuple[int, ...]) -> None:
    def call() -> tuple[Tensor, ...]:
        return torch.randn(shape), torch.randn(5, 3), torch.randn(3, 7)

    def turned() -> tuple[Tensor, ...]:
        return torch.randn(shape), torch.randn(3, 5).t(), torch.randn(7, 3).t()

    for make in (call, turned):
        check(lambda b, x, y: torch.addmm(b, x, y, beta=beta, alpha=2), make(), make())
        check(lambda b, x, y: torch.addmm(b, x * 2, y + 1, beta=beta).relu() * 2, make(), make())


def test_addmm_of_nothing_and_of_what_is_no_number() -> None:
    nan = torch.full((7,), float("nan"))
    check(lambda b, x, y: torch.addmm(b, x, y), (nan, torch.randn(5, 0), torch.randn(0, 7)))
    check(lambda b, x, y: torch.addmm(b, x, y, beta=0) + 1, (nan, torch.randn(5, 3), torch.randn(3, 7)))
    check(lambda b, x, y: torch.addmm(b, x, y), (nan, torch.randn(0, 3), torch.randn(3, 7)))


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_layer_norm(affine: bool, dtype: torch.dtype) -> None:
    weight, bias = (torch.randn(16, dtype=dtype) if affine else None for _ in range(2))

    def program(x: Tensor) -> Tensor:
        return F.layer_norm(x * 2, (16,), weight, bias) + 1

    with torch.no_grad():
        check(program, (torch.randn(3, 5, 16, dtype=dtype),), (torch.randn(3, 5, 16, dtype=dtype),))
        check(lambda x: program(x.transpose(0, 1)), (torch.randn(3, 5, 16, dtype=dtype),))


def test_layer_norm_of_mixed_types() -> None:
    weight, bias = torch.randn(16), torch.randn(16)
    with torch.no_grad():
        program = lambda x: F.layer_norm(x + 1, (16,), weight, bias) + 1  # noqa: E731
        check(program, (torch.randn(4, 16).bfloat16(),), (torch.randn(4, 16).bfloat16(),))


def test_gradients() -> None:
    def program(x: Tensor, w: Tensor) -> Tensor:
        return (F.gelu(x @ w).tanh() * x).square().sum()

    compiled = saker.compile(program)
    for _ in range(4):
        x, w = torch.randn(6, 6, requires_grad=True), torch.randn(6, 6, requires_grad=True)
        got, expected = compiled(x, w), program(x, w)
        same(got, expected)
        for a, b in zip(torch.autograd.grad(got, (x, w)), torch.autograd.grad(expected, (x, w)), strict=True):
            same(a, b)


def test_inference_tensors_and_modes() -> None:
    compiled = saker.compile(lambda x: x.sin() * 2)
    for _ in range(3):
        for mode in (torch.no_grad(), torch.inference_mode(), torch.enable_grad()):
            with mode:
                x = torch.randn(4)
                same(compiled(x), x.sin() * 2)


def test_bits_of_views() -> None:
    def make() -> tuple[Tensor, ...]:
        z = torch.randn(6, dtype=torch.complex64)
        return z.conj(), z.conj().imag

    check(lambda z, n: z * 2, make(), make(), kept=None)
    check(lambda z, n: n * 2, make(), make(), kept=None)


class Logged(Tensor):
    seen: ClassVar[list[str]] = []

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(str(func))
        return super().__torch_dispatch__(func, types, args, kwargs or {})


def test_subclasses_and_vmap() -> None:
    compiled = saker.compile(lambda x: x.sin() * 2)
    x = torch.randn(4)
    for _ in range(3):
        same(compiled(x), x.sin() * 2)
    batch = torch.randn(3, 4)
    same(torch.vmap(compiled)(batch), batch.sin() * 2)
    Logged.seen.clear()
    logged = x.as_subclass(Logged)
    for _ in range(3):
        same(compiled(logged).as_subclass(Tensor), x.sin() * 2)
    assert any("sin" in name for name in Logged.seen)


def test_dispatch_mode_sees_operators() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    compiled = saker.compile(lambda x: x.sin() * 2)
    x = torch.randn(4)
    for _ in range(3):
        compiled(x)
    with Names() as names:
        same(compiled(x), x.sin() * 2)
    assert names.names[:2] == ["sin.default", "mul.Tensor"]


def test_profiler_sees_operators() -> None:
    compiled = saker.compile(lambda x: x.sin() * 2)
    x = torch.randn(4)
    for _ in range(3):
        compiled(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        same(compiled(x), x.sin() * 2)
    names = {event.name for event in profile.events()}
    assert any(name.startswith("aten::sin") for name in names) and any(name.startswith("aten::mul") for name in names)
    same(compiled(x), x.sin() * 2)


@alone
def test_a_kernel_of_the_programs_is_called() -> None:
    """Registered after the recording was made and replayed, and taken away again."""
    compiled = saker.compile(lambda x: x.sin() + x)
    x = torch.randn(4)
    expected = x.sin() + x
    for _ in range(3):
        same(compiled(x), expected)
    library = torch.library.Library("aten", "IMPL")
    library.impl("sin", lambda x: x + 100, "CPU")
    same(compiled(x), x + 100 + x)
    later = saker.compile(lambda x: x.sin())
    for _ in range(3):
        same(later(x), x + 100)
    library._destroy()
    same(compiled(x), expected)
    same(later(x), x.sin())


def test_errors_are_the_operators() -> None:
    compiled = saker.compile(lambda x, y: torch.div(x + 0, y, rounding_mode="floor"))
    x, y = torch.arange(1, 5), torch.arange(1, 5)
    for _ in range(3):
        same(compiled(x, y), torch.div(x, y, rounding_mode="floor"))
    zero = torch.tensor([1, 0, 2, 3])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(x, zero)
    same(compiled(x, y), torch.div(x, y, rounding_mode="floor"))


def test_deterministic_mode() -> None:
    compiled = saker.compile(lambda x: (x * 2).tanh().sum(0))
    x = torch.randn(4, 4)
    for wanted in (False, True, False):
        torch.use_deterministic_algorithms(wanted)
        try:
            for _ in range(3):
                same(compiled(x), (x * 2).tanh().sum(0))
        finally:
            torch.use_deterministic_algorithms(False)


def test_views_of_what_is_kept() -> None:
    def program(x: Tensor) -> Tensor:
        a = x * 2
        b, c = a.chunk(2, -1)
        turned = b.transpose(0, 1)
        a = turned.exp() + c.t()[1:2]
        return a.reshape(-1)[::2].sin() + a.t().view(-1)[:1]

    check(program, *[(torch.randn(4, 8),) for _ in range(3)])


def test_threads_and_calls_inside_of_calls() -> None:
    compiled = saker.compile(lambda x: ((x * 2).tanh() @ x).exp().sum(-1))
    inputs = [torch.randn(16, 16) for _ in range(8)]
    expected = [((x * 2).tanh() @ x).exp().sum(-1) for x in inputs]
    for x in inputs:
        compiled(x)
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(200):
            if not torch.equal(compiled(inputs[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_several_threads_in_a_kernel() -> None:
    before = torch.get_num_threads()
    try:
        for count in (2, 1, 2):
            torch.set_num_threads(count)
            x, y = torch.randn(300, 400), torch.randn(400)
            check(lambda x, y: torch.tanh(x * y).sum(0) + y, (x, y), (x + 1, y))
    finally:
        torch.set_num_threads(before)
