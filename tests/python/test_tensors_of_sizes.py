"""torch.tensor of sizes: one recording for all sizes, with operators that make what eager mode fills."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import saker

PROGRAMS: dict[str, Callable] = {
    "a size": lambda x: x * torch.tensor(x.shape[0]),
    "as a result": lambda x: torch.tensor([[x.shape[0], 1], [2, x.shape[1]]]),
    "in a list": lambda x: x.sum() + torch.tensor([x.shape[0], 2]),
    "a shape": lambda x: x.sum() + torch.tensor(x.shape),
    "size()": lambda x: x.sum() + torch.tensor(x.size()),
    "lists in a list": lambda x: x.sum() + torch.tensor([[x.shape[0], 1, 2], [3, x.shape[1], 4]]),
    "with floats": lambda x: x.sum() + torch.tensor([x.shape[0], 0.5]),
    "a quotient": lambda x: x.sum() + torch.tensor([x.shape[0] / 2, 1]),
    "of a dtype": lambda x: x.sum() + torch.tensor([x.shape[0], 2], dtype=torch.float64),
    "of a device": lambda x: x.sum() + torch.tensor((x.shape[0] * 2 + 1,), device="cpu", dtype=torch.int32),
    "as_tensor": lambda x: x.sum() + torch.as_tensor([x.shape[0], x.shape[1]]),
    "written": lambda x: torch.tensor([x.shape[0], 2.0]).add_(x.sum()),
    "as indices": lambda x: x[torch.tensor([0, x.shape[0] - 1])],
    "as a bound": lambda x: torch.arange(x.shape[0]) < torch.tensor(x.shape[0] // 2),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_one_recording_for_all_sizes(program: Callable, dynamic: bool | None) -> None:
    compiled = saker.compile(program, dynamic=dynamic)
    saker.reset(counts=True)
    for n in (3, 5, 7, 9, 4):
        x = torch.randn(n, 3)
        found, expected = compiled(x), program(x)
        assert torch.equal(found, expected)
        assert (found.dtype, found.stride(), found._version) == (expected.dtype, expected.stride(), expected._version)
        assert found._is_view() == expected._is_view()
    assert saker.stats()["replays"] >= 3, saker.stats()


def test_a_list_from_outside_is_guarded() -> None:
    factors = [2, 3]

    def program(x):
        return x.sum() + torch.tensor([x.shape[0], *factors]) + torch.tensor([x.shape[0], factors[1], 1])

    compiled = saker.compile(program)
    for call in range(8):
        x = torch.randn(3 + call, 3)
        if call == 5:
            factors[1] = 7
        assert torch.equal(compiled(x), program(x))


def test_numbers_without_sizes_stay_literals() -> None:
    def program(x):
        return x + torch.tensor([1.0, 2.0, 3.0])

    graph = saker.explain(program, dynamic=True)(torch.randn(4, 3)).graphs[0]
    assert "stack" not in graph.text


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.sum() * torch.tensor([x.shape[0], 2.0], requires_grad=True),
        lambda x: x.sum() + torch.tensor([[x.shape[0]], []]).sum(),
        lambda x: x.sum() + torch.tensor([x.shape[0], True]),
        lambda x: x.sum() + torch.tensor([x.shape[0], torch.ones(())]),
    ],
    ids=["requires_grad", "lists of other lengths", "a bool", "a tensor"],
)
def test_others_are_recorded_for_each_size_or_raise(program: Callable) -> None:
    compiled = saker.compile(program)
    for n in (3, 5, 7):
        x = torch.randn(n, 3)
        try:
            expected = program(x)
        except ValueError as error:
            with pytest.raises(ValueError, match="expected sequence"):
                compiled(x)
            assert "expected sequence" in str(error)
            continue
        assert torch.equal(compiled(x), expected)
