"""Programs whose replays once differed from eager mode in numbers, versions, addresses or counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import saker

Tensor = torch.Tensor


def replays() -> int:
    return saker.stats()["replays"]


# --- tensors made of numbers that are symbols ---


NUMBERS: dict[str, Callable] = {
    "tensor": lambda x, n: torch.tensor(n),
    "tensor of a list": lambda x, n: torch.tensor([n, 1]),
    "tensor of an expression": lambda x, n: torch.tensor([[n * 2 + 1]]),
    "of floats": lambda x, n: torch.tensor([n], dtype=torch.float64),
    "of small floats": lambda x, n: torch.tensor(n, dtype=torch.float32),
    "of half": lambda x, n: torch.tensor(n, dtype=torch.float16),
    "of bools": lambda x, n: torch.tensor([n, 0], dtype=torch.bool),
    "of complex": lambda x, n: torch.tensor([n], dtype=torch.complex64),
    "quotient": lambda x, n: torch.tensor(n / 2),
    "quotient as ints": lambda x, n: torch.tensor([n / 2]).to(torch.int64),
    "as_tensor": lambda x, n: torch.as_tensor([n]),
    "asarray": lambda x, n: torch.asarray([n, n]),
    "new_tensor": lambda x, n: x.new_tensor([n]),
    "Tensor": lambda x, n: torch.Tensor([n, 2]),
    "LongTensor": lambda x, n: torch.LongTensor([n, 2]),
    "scalar_tensor": lambda x, n: torch.scalar_tensor(n, dtype=torch.int64),
    "full": lambda x, n: torch.full((2,), n),
    "new_full": lambda x, n: x.new_full((2,), n, dtype=torch.int64),
    "where": lambda x, n: torch.where(x > 0, n, 0),
    "arange": lambda x, n: torch.arange(n, n + 2),
    "written": lambda x, n: torch.zeros(3, dtype=torch.int64).fill_(n),
    "written by index": lambda x, n: x.long().index_fill(0, torch.tensor([0]), n),
}
for small in (torch.int32, torch.int16, torch.int8, torch.uint8):
    NUMBERS[f"of {small}"] = lambda x, n, small=small: torch.tensor([n], dtype=small)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_tensors_of_numbers(name: str, dynamic: bool | None) -> None:
    program = NUMBERS[name]
    compiled = saker.compile(program, dynamic=dynamic, recompile_limit=100)
    x = torch.ones(2)
    for n in (3, 5, 2**40 + 7, 2**40 + 7, 2**31, 70000, 300, -1, -(2**33), 5, 2**40 + 7):
        outcomes = []
        for run in (program, compiled):
            try:
                result = run(x, n)
                outcomes.append((result.dtype, str(result.tolist()), tuple(result.shape)))
            except (RuntimeError, OverflowError, TypeError) as error:
                outcomes.append((type(error), str(error).split("\n")[0], ()))
        assert outcomes[0] == outcomes[1], n


def test_indices_of_numbers() -> None:
    def program(x: Tensor, n: int) -> tuple:
        y = x.clone()
        y[[0, n]] = float(n)
        return x[[n, 0]], y, x.view(3, 3)[:, [n % 3, 1]], x[((n, 1),)]

    compiled = saker.compile(program, recompile_limit=100)
    x = torch.arange(9.0)
    for n in (3, 5, 8, 2, 2**32 + 1, 2**40 + 7, -2, 8):
        outcomes = []
        for run in (program, compiled):
            try:
                outcomes.append(str(run(x, n)))
            except IndexError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1], n


# --- counts ---


def test_a_first_run_with_symbols_that_fails_is_no_replay() -> None:
    def program(x: Tensor, n: int) -> tuple:
        return x + n, n * 2**62

    compiled = saker.compile(program)
    x = torch.ones(2)
    before = replays()
    for n in (3, 5, 7):
        assert compiled(x, n)[1] == n * 2**62
    assert 0 <= replays() - before <= 1
    saker.reset()
    compiled(x, 3)
    start = saker.stats()["replays"]
    compiled(x, 5)
    assert saker.stats()["replays"] in (start, start + 1)


# --- versions ---


def writes_both(x: Tensor, v: Tensor) -> None:
    x.add_(1)
    v.mul_(2)


def whole(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, x[1:]


def behind_data(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, x.data[1:]


def behind_detach(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, x.detach()[1:]


def two_of_data(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.data, x.data[1:]


FORMS = [whole, behind_data, behind_detach, two_of_data]


@pytest.mark.parametrize("first", FORMS)
@pytest.mark.parametrize("second", FORMS)
def test_arguments_that_count_writes_together(first: Callable, second: Callable) -> None:
    compiled = saker.compile(writes_both)
    for form in (first, first, second, second, first):
        seen = []
        for run in (writes_both, compiled):
            pair = form(torch.ones(3))
            run(*pair)
            seen.append([(each._version, each.tolist()) for each in pair])
        assert seen[0] == seen[1], form


# --- addresses ---


def test_addresses_are_not_kept() -> None:
    address = torch.Tensor.const_data_ptr if hasattr(torch.Tensor, "const_data_ptr") else torch.Tensor.data_ptr
    for program in (lambda x: address(x), lambda x: x.data_ptr(), lambda x: address(x * 2) > 0):
        compiled = saker.compile(program)
        held = [torch.ones(3) for _ in range(4)]
        assert [compiled(x) for x in held] == [program(x) for x in held]
