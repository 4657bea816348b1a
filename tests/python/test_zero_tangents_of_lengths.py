"""Tangents that are zeros without memory, where sizes are symbols, and inference mode inside of such recordings.

A product with such a tangent is zero, and sums leave the signs of zeros, as in eager mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import hessian, jacfwd, jvp

import saker
from differential import same

torch.vmap(torch.sin)(torch.ones(2, 2))
jvp(torch.sin, (torch.ones(2),), (torch.ones(2),))  # the first ones load PyTorch's decompositions

SPECIAL = torch.tensor([1.0, -2.0, 0.0, -0.0, float("inf"), -float("inf"), float("nan"), 3.0])


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().view(torch.int32)


def zero_and(x: torch.Tensor, combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Any:
    zeros = torch._efficientzerotensor(x.shape)
    return combine(zeros, x)


def tangent_of_constant(x: torch.Tensor) -> Any:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x + 1)
        return forward_ad.unpack_dual(dual * x.detach().clone() - x).tangent


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "a hessian": lambda x: hessian(lambda t: (t**3).sum())(x[:3]),
    "a hessian of all": lambda x: hessian(lambda t: (t.sin() * t).sum())(x),
    "a product of parts": lambda x: jacfwd(lambda t: (t * x).cos() / (t + 2))(x),
    "a constant": lambda x: jvp(lambda t: torch.ones_like(t) * t.detach() + t, (x,), (x,)),
    "a dual": tangent_of_constant,
    "a product": lambda x: zero_and(x, lambda z, y: z * y + y),
    "a product from the right": lambda x: zero_and(x, lambda z, y: y * z - y),
    "a number times it": lambda x: zero_and(x, lambda z, y: (z * 3) * y + y),
    "a quotient": lambda x: zero_and(x, lambda z, y: z / y + y),
    "a sum": lambda x: zero_and(x, lambda z, y: (z + y, y + z, torch.add(z, y, alpha=2), z - y, y - z)),
    "a view": lambda x: zero_and(x, lambda z, y: z.view(-1, 1) * y),
    "another operator": lambda x: zero_and(
        x, lambda z, y: (z.neg(), torch.atan2(z, y), torch.cat([z, y]), z.exp() * y)
    ),
    "a copy": lambda x: zero_and(x, lambda z, y: (z.clone() * y, torch.zeros_like(z) * y)),
    "two of them": lambda x: zero_and(x, lambda z, y: ((z + z) * y, z * z + y)),
    "another dtype": lambda x: zero_and(x, lambda z, y: z * y.double() + y),
    "divided by": lambda x: zero_and(x, lambda z, y: y / z),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_signs(name: str) -> None:
    function = PROGRAMS[name]
    compiled = saker.compile(function)
    for length in (4, 5, 8, 6, 7):
        x = SPECIAL[:length].clone()
        same([bits(each) for each in parts(compiled(x))], [bits(each) for each in parts(function(x))])


@pytest.mark.parametrize("name", ["a hessian", "a hessian of all", "a product of parts", "a product", "a sum"])
def test_one_recording_for_all(name: str) -> None:
    compiled = saker.compile(PROGRAMS[name])
    replays = saker.stats()["replays"]
    for length in (8, 5, 4, 6, 7, 5):
        compiled(torch.randn(length))
    assert saker.stats()["replays"] - replays >= 3


def parts(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, tuple) else [result]


@torch.inference_mode()
def without_history(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def back_to_history(x: torch.Tensor) -> Any:
    with torch.inference_mode(False):
        y = x.clone() * 2
    return y, y.is_inference(), x + 1


INFERENCE: dict[str, Callable[[torch.Tensor], Any]] = {
    "decorated": lambda x: (without_history(x), x * 4),
    "a factory": lambda x: (without_history(torch.ones(len(x))), torch.zeros(len(x))),
    "a view": lambda x: without_history(x).view(-1)[1:],
    "switched off": back_to_history,
    "a write": lambda x: without_history(x).add_(x.shape[0]),
}


@pytest.mark.parametrize("name", INFERENCE)
@pytest.mark.parametrize("around", [False, True])
def test_inference_mode_where_sizes_change(name: str, around: bool) -> None:
    function = INFERENCE[name]
    compiled = saker.compile(function)
    with torch.inference_mode(around):
        for length in (3, 4, 5, 6):
            x = torch.ones(length, 2)
            results = []
            for run in (compiled, function):
                try:
                    results.append(run(x))
                except RuntimeError as error:
                    results.append(str(error))
            same(*results)


def test_inference_mode_in_a_graph() -> None:
    function = INFERENCE["decorated"]
    graph = saker.capture(function, torch.ones(2, 2))
    same(graph(torch.ones(2, 2)), function(torch.ones(2, 2)))
