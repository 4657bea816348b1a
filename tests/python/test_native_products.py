"""Products of matrices in generated code: another library than eager mode's may multiply, as exactly as that does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import saker
from generated_code import at_once, needs_code  # noqa: F401 (a fixture of each test)
from saker import _C

Tensor = torch.Tensor
pytestmark = needs_code


def last(function: Callable[..., Tensor], *inputs: Tensor, **options: object) -> Tensor:
    """What a replay with generated code gives."""
    native = saker.compile(function, backend="native", dynamic=False, **options)
    for _ in range(3):
        found = native(*inputs)
    return found


def error(found: Tensor, exact: Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


def products(x: Tensor, y: Tensor, row: Tensor) -> dict[str, Callable[[], tuple]]:
    """Programs on 160 x 128 and 128 x 192 numbers: large enough to be worth a choice."""
    batch = torch.randn(4, 160, 128), torch.randn(4, 128, 192)
    whole = torch.randn(160, 192)
    return {
        "mm": (lambda x, y: (x @ y) * 2 + 1, x, y),
        "mm of a transposed left": (lambda x, y: (x.t() @ y) * 2 + 1, x.t().contiguous(), y),
        "mm of a transposed right": (lambda x, y: (x @ y.t()) * 2 + 1, x, y.t().contiguous()),
        "mm of parts": (lambda x, y: (x[:, ::2] @ y) * 2 + 1, x.repeat_interleave(2, 1), y),
        "addmm": (lambda r, x, y: torch.addmm(r, x, y) * 2 + 1, row, x, y),
        "addmm of a matrix": (lambda r, x, y: torch.addmm(r, x, y) * 2 + 1, whole, x, y),
        "addmm of a column": (lambda r, x, y: torch.addmm(r, x, y) * 2 + 1, torch.randn(160, 1), x, y),
        "addmm with factors": (lambda r, x, y: torch.addmm(r, x, y, beta=0.5, alpha=3) * 2 + 1, row, x, y),
        "bmm": (lambda x, y: torch.bmm(x, y) * 2 + 1, *batch),
        "bmm of transposed": (lambda x, y: torch.bmm(x, y.mT) * 2 + 1, batch[0], batch[1].mT.contiguous()),
        "baddbmm": (lambda r, x, y: torch.baddbmm(r, x, y) * 2 + 1, torch.randn(4, 160, 192), *batch),
        "baddbmm of a row": (lambda r, x, y: torch.baddbmm(r, x, y) * 2 + 1, row, *batch),
        "linear": (lambda x, w, r: torch.nn.functional.linear(x, w, r) * 2 + 1, batch[0], y.t().contiguous(), row),
        "small": (lambda x, y: (x @ y) * 2 + 1, x[:5], y),
    }


names = list(products(torch.ones(160, 128), torch.ones(128, 192), torch.ones(192)))


@pytest.mark.parametrize("name", names)
def test_as_exact_as_eager_mode(name: str) -> None:
    function, *inputs = products(torch.randn(160, 128), torch.randn(128, 192), torch.randn(192))[name]
    exact = function(*(each.double() for each in inputs))
    found = last(function, *inputs)
    assert found.stride() == function(*inputs).stride()
    assert error(found, exact) <= 2 * error(function(*inputs), exact) + 1e-7
    # Whole numbers have one sum, in whatever order.
    inputs = [torch.randint_like(each, -8, 8) for each in inputs]
    assert torch.equal(last(function, *inputs), function(*inputs))


@pytest.mark.parametrize("name", names)
def test_to_the_bit_if_asked_for(name: str) -> None:
    function, *inputs = products(torch.randn(160, 128), torch.randn(128, 192), torch.randn(192))[name]
    assert torch.equal(last(function, *inputs, options={"precision": "eager"}), function(*inputs))


def test_infinities_and_nans_stay_where_they_are() -> None:
    x, y = torch.randn(160, 128), torch.randn(128, 192)
    x[3, 5], x[7, 1], y[2, 9] = float("inf"), float("nan"), float("-inf")

    def function(x: Tensor, y: Tensor) -> Tensor:
        return (x @ y) * 2 + 1

    found, eager = last(function, x, y), function(x, y)
    assert torch.equal(found.isnan(), eager.isnan())
    assert torch.equal(found.isinf(), eager.isinf())
    torch.testing.assert_close(found, eager, equal_nan=True, rtol=1e-4, atol=1e-4)


def test_what_is_switched_off_later_is_not_used() -> None:
    x, y = torch.randn(160, 128), torch.randn(128, 192)
    native = saker.compile(lambda x, y: (x @ y) * 2 + 1, backend="native", dynamic=False)
    for _ in range(3):
        native(x, y)
    with torch.backends.mkldnn.flags(enabled=False):
        assert torch.equal(native(x, y), (x @ y) * 2 + 1)


def test_gradients() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(128, 192), torch.nn.GELU(), torch.nn.Linear(192, 128))
    x = torch.randn(160, 128, requires_grad=True)
    native = saker.compile(layers, backend="native", dynamic=False)
    leaves = [x, *layers.parameters()]
    for _ in range(3):
        found = torch.autograd.grad(native(x).square().sum(), leaves)
    exact = torch.autograd.grad(layers.double()(x.double()).square().sum(), leaves)
    for mine, right in zip(found, exact, strict=True):
        assert error(mine, right.double()) < 1e-5


def test_an_operator_of_the_programs_own_is_called() -> None:
    """A kernel that the program registers for mm later is what counts then."""
    x, y = torch.randn(160, 128), torch.randn(128, 192)
    native = saker.compile(lambda x, y: (x @ y) * 2 + 1, backend="native", dynamic=False)
    for _ in range(3):
        native(x, y)
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("mm", lambda a, b: torch.full((160, 192), 3.0), "CPU")
        library.impl("mm.out", lambda a, b, *, out: out.fill_(3.0), "CPU")
        assert torch.equal(native(x, y), torch.full((160, 192), 7.0))
    finally:
        library._destroy()
    assert _C.kernels_launched() > 0
