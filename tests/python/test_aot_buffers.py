"""What a backward frees, where nodes of one kind save different tensors: a second backward raises as in eager mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import saker

Program = Callable[..., tuple[torch.Tensor, ...]]
KEPT = torch.rand(3, 4)
ORDER = torch.tensor([2, 0, 1])


def products(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x * KEPT, KEPT * y, x * y, x * 2.0, x + y


def quotients(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x / KEPT, KEPT / (y + 2), x / 2.0, x - y


def bounds(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.clamp(min=0.5), torch.clamp(x, min=KEPT), torch.clamp(x, max=y), torch.clamp(KEPT, min=y)


def choices(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.where(KEPT > 0.5, x, y), torch.where(KEPT > 0.5, x, KEPT), x[ORDER], y[:, None], x[:, ORDER, None]


def norms(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    norm = torch.nn.functional.layer_norm
    return norm(x, (4,)), norm(x, (4,), KEPT[0]), norm(x, (4,), y[0]), norm(KEPT, (4,), y[0], y[1])


def lists(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.cat([x, y]), torch.cat([x, KEPT]), torch.stack([KEPT, y]).exp(), x.expand(2, 3, 4), y.sum(0)


def matrices(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    add = torch.addmm
    return x @ KEPT.t(), KEPT @ y.t(), x @ y.t(), add(KEPT @ KEPT.t(), x, KEPT.t()), add(x[:, :3], KEPT, KEPT.t())


def freed(program: Program, output: int, others: list[int]) -> list[bool]:
    """By output: does its backward raise, after that of one output?"""
    x, y = (torch.rand(3, 4).requires_grad_() for _ in range(2))
    outputs = program(x, y)
    outputs[output].sum().backward()
    raised = []
    for other in others:
        try:
            outputs[other].sum().backward(retain_graph=True)
            raised.append(False)
        except RuntimeError as error:
            assert "second time" in str(error)
            raised.append(True)
    return raised


@pytest.mark.parametrize("program", [products, quotients, bounds, choices, norms, lists, matrices])
def test_nodes_of_one_kind(program: Program) -> None:
    count = len(program(torch.rand(3, 4), torch.rand(3, 4)))
    found = []
    for output in range(count):
        expected = freed(program, output, list(range(count)))
        assert freed(saker.aot_function(program), output, list(range(count))) == expected
        found += expected
    assert True in found  # something is kept


def chain(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """One kind on two ways: a product on the one saves, a sum on the other does not."""
    a = x.exp()
    b = (a + 1) + y
    c = (a * KEPT) * y
    return b, c


def test_ways_through_what_is_kept() -> None:
    for output in range(2):
        expected = freed(chain, output, [0, 1])
        assert freed(saker.aot_function(chain), output, [0, 1]) == expected
