"""Numbers that are data, and code that is not watched: what such code gives to operators is not baked in."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import saker
from differential import same

Tensor = torch.Tensor


@torch.library.custom_op("saker_handed::scale", mutates_args=())
def scale(x: Tensor, factor: float, more: float = 1.0) -> Tensor:
    return x * factor * more


@scale.register_fake
def _(x: Tensor, factor: float, more: float = 1.0) -> Tensor:
    return torch.empty_like(x)


def _keep(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.factor = inputs[1] * inputs[2]


scale.register_autograd(lambda ctx, gradient: (gradient * ctx.factor, None, None), setup_context=_keep)


def plainly(x: Tensor, k: float) -> Tensor:
    return scale(x, k)


def by_keyword(x: Tensor, k: float) -> Tensor:
    return scale(x, factor=k, more=2.0)


def spread(x: Tensor, k: float) -> Tensor:
    return scale(*(x, k), **{"more": k})


def computed(x: Tensor, k: float) -> Tensor:
    return scale(x * k, k * 2 + 1)


def by_name(x: Tensor, k: float) -> Tensor:
    return torch.ops.saker_handed.scale(x, k)


def by_overload(x: Tensor, k: float) -> Tensor:
    return torch.ops.saker_handed.scale.default(x, k, k)


def in_a_list(x: Tensor, k: float) -> Tensor:
    given = [x, k]
    return scale(given[0], given[1])


PROGRAMS = [plainly, by_keyword, spread, computed, by_name, by_overload, in_a_list]


@pytest.mark.parametrize("backend", ["aten", "eager"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=[fn.__name__ for fn in PROGRAMS])
def test_floats_that_change(fn, backend):
    """A float that changes from call to call becomes data; here it is compared, in the end."""
    fast = saker.compile(fn, backend=backend)
    for i, k in enumerate([2.0, 3.0, 2.0, 3.0, 2.0, 5.0, 5.0, 3.0]):
        for size in (2, 3 + i % 2):
            one = torch.arange(float(size)).requires_grad_()
            other = one.detach().clone().requires_grad_()
            got, wanted = fast(one, k), fn(other, k)
            same(got.detach(), wanted.detach())
            got.sum().backward()
            wanted.sum().backward()
            same(one.grad, other.grad)
