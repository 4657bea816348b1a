"""``backend="native"``: generated code for one function, and what is shown of it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

import saker
from generated_code import needs_code
from saker import _C

Tensor = torch.Tensor
pytestmark = needs_code


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAKER_COMPILE", "sync")


def program(x: Tensor, y: Tensor) -> Tensor:
    return functional.silu(x) * y + (x - y).tanh()


def launched(call: Callable[[], object]) -> int:
    before = _C.kernels_launched()
    call()
    return _C.kernels_launched() - before


def test_one_function_has_generated_code_and_another_has_not() -> None:
    x, y = torch.randn(33, 65), torch.randn(33, 65)
    native, plain = saker.compile(program, backend="native"), saker.compile(program)
    for _ in range(2):
        native(x, y), plain(x, y)
    assert launched(lambda: native(x, y)) > 0, _C.code_error()
    assert launched(lambda: plain(x, y)) == 0
    torch.testing.assert_close(native(x, y), program(x, y))


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients(dynamic: bool) -> None:
    native = saker.compile(program, backend="native", dynamic=dynamic)
    for rows in (33, 40, 33):
        inputs = [torch.randn(rows, 65, requires_grad=True) for _ in range(2)]

        def step(function: Callable, inputs: list[Tensor] = inputs) -> tuple[Tensor, ...]:
            return torch.autograd.grad(function(*inputs).sin().sum(), inputs)

        assert launched(lambda: step(native)) > 0 or not dynamic
        torch.testing.assert_close(step(native), step(program), rtol=1e-4, atol=1e-5)
    assert launched(lambda: step(native)) > 1, _C.code_error()


@pytest.mark.parametrize("lies", ["expanded", "transposed"])
def test_gradients_that_lie_otherwise_than_compiled_for(lies: str) -> None:
    native = saker.compile(program, backend="native")
    inputs = [torch.randn(33, 65, requires_grad=True) for _ in range(2)]
    tangent = torch.randn(()).expand(33, 65) if lies == "expanded" else torch.randn(65, 33).t()

    def step(function: Callable) -> tuple[Tensor, ...]:
        return torch.autograd.grad(function(*inputs), inputs, tangent)

    step(native), step(native)
    before = _C.kernels_launched()
    found = step(native)
    assert _C.kernels_launched() - before == (2 if lies == "expanded" else 1)
    torch.testing.assert_close(found, step(program), rtol=1e-4, atol=1e-5)
    assert [each.stride() for each in found] == [each.stride() for each in step(program)]


def test_kernels_run_on_pytorchs_threads() -> None:
    native, x = saker.compile(program, backend="native"), torch.randn(1 << 21)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        for _ in range(3):
            alone = native(x, x)
        torch.set_num_threads(2)
        native(x, x)
        process, thread = time.process_time(), time.thread_time()
        for _ in range(50):
            found = native(x, x)
        own = time.thread_time() - thread
        others = time.process_time() - process - own
    finally:
        torch.set_num_threads(threads)
    assert others > 0.2 * own
    assert torch.equal(found, alone)


def test_modules_and_copies_keep_it() -> None:
    model = torch.nn.Sequential(torch.nn.LayerNorm(16), torch.nn.GELU())
    x = torch.randn(4, 16)
    for compiled in (native := saker.compile(model, backend="native"), copy.deepcopy(native)):
        with torch.no_grad():
            for _ in range(2):
                compiled(x)
            assert launched(lambda: compiled(x)) > 0
            torch.testing.assert_close(compiled(x), model(x))


def test_a_stage_that_is_switched_off_stays_off() -> None:
    saker.set_stages("-fuse")
    try:
        native, x = saker.compile(program, backend="native"), torch.randn(5)
        for _ in range(2):
            native(x, x)
        assert launched(lambda: native(x, x)) == 0
    finally:
        saker.set_stages("")


@pytest.mark.parametrize("precision", ["default", "eager"])
def test_precisions(precision: str) -> None:
    native = saker.compile(lambda x: x.exp() * 2 + 1, backend="native", options={"precision": precision})
    x = torch.linspace(-3, 3, 10_001)
    for _ in range(2):
        found = native(x)
    torch.testing.assert_close(found, x.exp() * 2 + 1, rtol=3e-7, atol=0)


def test_the_two_precisions_are_two() -> None:
    """Otherwise the option would do nothing."""
    x = torch.linspace(-30, 30, 100_001)
    both = []
    for precision in ("default", "eager"):
        native = saker.compile(lambda x: x.sin() * 1 + x.exp() * 0, backend="native", options={"precision": precision})
        for _ in range(2):
            found = native(x)
        both.append(found)
    assert not torch.equal(*both)


ALL_BITS = {
    "functions": lambda x: [x.exp() * 2 + 1, (x.sigmoid() - 1).tanh() * 3, functional.gelu(x) + x],
    "sums": lambda x: [(x - x.mean(-1, keepdim=True)) * 2, x.softmax(-1) * x + 1, (x * x).sum() + 1],
    "roots": lambda x: [x.abs().sqrt() * 2 + 1, (x * x + 1).rsqrt() * x, (x.abs() + 1) ** 0.5 - 1],
    "norms": lambda x: [functional.layer_norm(x * 2, (x.shape[-1],)) + 1, x.var(0) * 2 - 1],
    "arithmetic": lambda x: [x * 3 + x.relu() / 7 - 1, torch.lerp(x, x * 2, 0.3).clamp(-1, 1), x.amax(-1) * 2],
}


@pytest.mark.parametrize("how", ["option", "environment"])
@pytest.mark.parametrize("size", [1, 7, 256, 4099])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", ALL_BITS)
def test_all_bits(name: str, dtype: torch.dtype, size: int, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the precision of eager mode nothing differs, and what is arithmetic runs as kernels."""
    options = {"precision": "eager"} if how == "option" else {}
    if how == "environment":
        monkeypatch.setenv("SAKER_PRECISION", "eager")
    function = ALL_BITS[name]
    native = saker.compile(function, backend="native", options=options)
    x = torch.randn(3, size).to(dtype).t()  # strided, whole vectors and ends of rows
    for given in (x, x.contiguous()):
        one, other = (given.clone().requires_grad_() for _ in range(2))
        for _ in range(3):
            expected, found = function(one), native(other)
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        for each in (expected, found):
            sum(result.float().sum() for result in each).backward()
        torch.testing.assert_close(one.grad, other.grad, rtol=0, atol=0, equal_nan=True)
    with torch.no_grad():
        for _ in range(2):
            native(x)
        assert launched(lambda: native(x)) > 0


def test_wrong_options() -> None:
    with pytest.raises(saker.OptionError, match="unknown precision 'double'"):
        saker.compile(program, backend="native", options={"precision": "double"})
    with pytest.raises(saker.OptionError, match="unknown option 'precision'"):
        saker.compile(program, options={"precision": "eager"})


def test_kernels_of_a_graph() -> None:
    x, y = torch.randn(64, 128), torch.randn(64, 128)
    found = saker.capture(lambda x, y: (program(x, y) @ y.t(), functional.layer_norm(x, (128,)) + 1), x, y).kernels()
    assert not found.reason
    operators = [name for group in found.groups for name in group.operators]
    assert {"aten::silu", "aten::tanh", "aten::native_layer_norm"} <= set(operators)
    assert any("mm" in name for name in found.outside)
    first = next(group for group in found.groups if "aten::silu" in group.operators)
    assert first.bytes_read == 2 * 64 * 128 * 4
    assert first.bytes_written >= 64 * 128 * 4
    assert first.seconds > 0
    assert first.code_bytes > 0
    assert first.texts[0].startswith("kernel(")
    assert "silu" in str(found)


def test_kernels_that_are_not_compiled() -> None:
    found = saker.capture(lambda x: (x * 2 + 1).cos(), torch.randn(7)).kernels(compiled=False)
    assert [group.code_bytes for group in found.groups] == [0]
    assert found.groups[0].bytes_written == 28


def test_explain_shows_kernels() -> None:
    x, y = torch.randn(8, 16, requires_grad=True), torch.randn(8, 16)
    told = saker.explain(program, backend="native")(x, y)
    assert told.kernels[0].groups
    assert told.backward_kernels[0].groups
    text = str(told)
    for part in ("kernels:", "kernels of the backward:", "silu", "compiled in", "reads ", "time of generating code"):
        assert part in text, text
    assert "Kernels" in told.html()


def test_explain_without_generated_code_shows_none() -> None:
    told = saker.explain(program)(torch.randn(8), torch.randn(8))
    assert not told.kernels
    assert "kernels" not in str(told)
