"""Kernels of the user's, written in Python: replays call them again; ones that change Python objects run eagerly."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import saker

Tensor = torch.Tensor
CALLS: list[Any] = []
COUNT = {"calls": 0}

LIBRARY = torch.library.Library("saker_kernels", "DEF")


def _define(schema: str, kernel: Any, key: str = "CPU") -> None:
    name = schema.partition("(")[0]
    LIBRARY.define(schema)
    LIBRARY.impl(name, kernel, key)


def _twice(x: Tensor) -> Tensor:
    CALLS.append(("twice", tuple(x.shape)))
    COUNT["calls"] += 1
    return x * 2


def _told(x: Tensor) -> Tensor:
    print("kernel", tuple(x.shape))
    return x + 1


def _plain(x: Tensor) -> Tensor:
    return x * x.sum().item()


def _bump(x: Tensor) -> Tensor:
    CALLS.append(("bump", x.sum().item()))
    return x.add_(1)


_define("twice(Tensor x) -> Tensor", _twice)
_define("told(Tensor x) -> Tensor", _told, "CompositeExplicitAutograd")
_define("bump_(Tensor(a!) x) -> Tensor(a!)", _bump)
_define("composed(Tensor x) -> Tensor", _twice, "CompositeImplicitAutograd")
_define("plain(Tensor x) -> Tensor", _plain)
kernels = torch.ops.saker_kernels


@torch.library.custom_op("saker_kernels::counted", mutates_args=())
def counted(x: Tensor) -> Tensor:
    CALLS.append("counted")
    return x * 3


@torch.library.custom_op("saker_kernels::cubed", mutates_args=())
def cubed(x: Tensor) -> Tensor:
    COUNT["calls"] += 1
    return x**3


@torch.library.custom_op("saker_kernels::squared", mutates_args=())
def squared(x: Tensor) -> Tensor:
    made = [x, x]  # its own
    made.append(x)
    return made[0] * made[1]


def _setup(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs)
    ctx.power = 3


for each in (cubed, squared):
    each.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0], setup_context=_setup)
    each.register_fake(torch.empty_like)

PROGRAMS = {
    "twice": lambda x: kernels.twice(x.sin()) + 1,
    "read afterwards": lambda x: kernels.twice(x) + len(CALLS) + COUNT["calls"],
    "plain": lambda x: kernels.plain(x.sin()) + 1,
    "told": lambda x: kernels.told(x * 3),
    "bump": lambda x: (kernels.bump_(x), x.sum())[1],
    "composed": lambda x: kernels.composed(x).exp(),
    "custom, read afterwards": lambda x: counted(x) + len(CALLS),
    "custom, with gradients": lambda x: cubed(x.clone().requires_grad_()).detach() + COUNT["calls"],
    "custom, read before": lambda x: counted(x + len(CALLS)),
    "custom, plain": lambda x: squared(x.sin()) + 1,
    "custom, plain, with gradients": lambda x: squared(x.clone().requires_grad_()).detach() + len(CALLS),
    "several": lambda x: kernels.twice(kernels.told(kernels.twice(x))) - 1,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_called_as_often_as_in_eager_mode(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = PROGRAMS[name]
    compiled = saker.compile(run)
    before = saker.stats()["replays"]
    states: list[Any] = [([], 0), ([], 0)]
    for i in range(4):
        seen = []
        for number, call in enumerate((run, compiled)):
            CALLS[:], COUNT["calls"] = states[number]
            x = torch.arange(6.0).view(2, 3) + i
            result = call(x)
            seen.append((list(CALLS), dict(COUNT), capsys.readouterr().out, result.tolist(), x.tolist(), x._version))
            states[number] = list(CALLS), COUNT["calls"]
        assert seen[0] == seen[1]
    if "plain" in name:  # the others count their calls, or tell them
        assert saker.stats()["replays"] - before >= 2
