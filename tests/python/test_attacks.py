"""Programs that were written to break replays, and once did."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import saker


@torch.library.custom_op("saker_attacks::boom", mutates_args=())
def boom(x: torch.Tensor) -> torch.Tensor:
    if x[0] > 2:
        raise ValueError("big")
    return x * 2


boom.register_fake(torch.empty_like)


@pytest.mark.parametrize("compiled", [False, True])
def test_numbers_are_drawn_once(compiled: bool) -> None:
    counter = torch.zeros(1)

    def program(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        counter.add_(1)
        return x[i] * random.random()

    call = saker.compile(program) if compiled else program
    random.seed(0)
    got = [call(torch.ones(3), torch.tensor([0])).item() for _ in range(5)]
    random.seed(0)
    assert got == [torch.tensor(random.random()).item() for _ in range(5)]


def caught(x: torch.Tensor, seen: list) -> torch.Tensor:
    try:
        return boom(x)
    except ValueError:
        return x * 0


def finally_noted(x: torch.Tensor, seen: list) -> torch.Tensor:
    try:
        return boom(x)
    finally:
        seen.append(x.shape[0])


def noted_before(x: torch.Tensor, seen: list) -> torch.Tensor:
    seen.append(1)
    y = boom(x)
    seen.append(2)
    return y


@pytest.mark.parametrize("program", [caught, finally_noted, noted_before])
def test_operators_of_the_user_that_fail(program: Callable) -> None:
    def outcomes(call: Callable) -> list[Any]:
        seen: list[int] = []
        found: list[Any] = []
        for value in (1.0, 1.0, 5.0, 1.0):
            try:
                found.append(call(torch.tensor([value]), seen).tolist())
            except ValueError as error:
                found.append(str(error))
            found.append(list(seen))
            del seen[:]
        return found

    assert outcomes(saker.compile(program)) == outcomes(program)


AUTOCAST = {
    "pinv": (torch.linalg.pinv, (3, 2)),
    "affine_grid": (lambda t: F.affine_grid(t, [1, 1, 3, 3], align_corners=False), (1, 2, 3)),
    "bilinear": (lambda t: F.bilinear(t, t, torch.ones(2, 4, 4)), (3, 4)),
}


@pytest.mark.parametrize("compiler", [saker.compile, saker.aot_function])
@pytest.mark.parametrize("name", AUTOCAST)
def test_kernels_that_autocast_changes_inside(name: str, compiler: Callable) -> None:
    fn, size = AUTOCAST[name]
    compiled = compiler(fn)
    with torch.autocast("cpu", torch.bfloat16):
        for _ in range(3):
            x = torch.randn(size)
            got, expected = compiled(x), fn(x)
            assert got.dtype == expected.dtype
            assert torch.equal(got, expected)


@pytest.mark.parametrize("compiler", [saker.compile, saker.aot_function])
def test_complex_results_that_depend_on_each_other(compiler: Callable) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.complex(x, x * 2)
        return y, (y * y.conj()).real

    compiled = compiler(program)
    for _ in range(3):
        gradients = []
        for call in (program, compiled):
            x = torch.tensor([1.0, 2.0], requires_grad=True)
            call(x)[1].sum().backward()
            gradients.append(x.grad)
        assert torch.equal(*gradients)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError, RuntimeError])
def test_errors_of_back_ends_are_raised(error: type[BaseException]) -> None:
    def backend(module: Any, examples: Any) -> Callable:
        def run(*args: torch.Tensor) -> Any:
            raise error("from the back end")

        return run

    compiled = saker.compile(lambda x: x * 2, backend=backend)
    compiled(torch.ones(2))
    with pytest.raises(error, match="from the back end"):
        compiled(torch.ones(2))


def test_copies_of_compiled_functions() -> None:
    module = torch.nn.Linear(2, 2)
    module.act = saker.compile(F.gelu)
    other = copy.deepcopy(module)
    assert other.act is module.act
    assert copy.copy(module.act) is module.act
    assert torch.equal(other.act(torch.ones(2)), F.gelu(torch.ones(2)))
