"""``torch.compiler.is_compiling()``: programs that ask get eager mode's answer, and so eager mode's numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import saker

OPTIMIZERS = {
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "Adam with a tensor as learning rate": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
    "Adam, foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "Adam, amsgrad and decay": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "Adadelta": lambda p: torch.optim.Adadelta(p, lr=0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
    "ASGD": lambda p: torch.optim.ASGD(p, lr=0.01),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "SGD with a tensor as learning rate": lambda p: torch.optim.SGD(p, lr=torch.tensor(0.01), foreach=True),
    "Adafactor": lambda p: torch.optim.Adafactor(p, lr=0.01),
}


def trained(make: Callable, wrap: Callable) -> list[torch.Tensor]:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    optimizer = make(list(module.parameters()))
    step = wrap(optimizer.step)
    x = torch.rand(5, 4)
    for _ in range(5):
        optimizer.zero_grad()
        module(x).square().mean().backward()
        step()
    return [tensor.detach() for tensor in module.parameters()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_optimizers(make: Callable) -> None:
    expected = trained(make, lambda step: step)
    assert all(map(torch.equal, trained(make, lambda step: saker.compile(lambda: step())), expected))
    assert all(map(torch.equal, trained(make, saker.compile), expected))


def asks(x: torch.Tensor) -> torch.Tensor:
    return x * 3 if torch.compiler.is_compiling() else x * 2


def asks_the_other_way(x: torch.Tensor) -> torch.Tensor:
    return x * 3 if torch.compiler.is_dynamo_compiling() or torch.compiler.is_exporting() else x * 2


@pytest.mark.parametrize("fn", [asks, asks_the_other_way])
def test_eager_modes_numbers(fn: Callable) -> None:
    x = torch.rand(3, requires_grad=True)
    for compiled in (
        saker.compile(fn),
        saker.compile(fn, dynamic=True),
        saker.compile(fn, backend="eager", fullgraph=True),
        saker.aot_function(fn),
    ):
        replays = saker.stats()["replays"]
        for _ in range(3):
            assert torch.equal(compiled(x), x * 2)
            assert torch.equal(torch.autograd.grad(compiled(x).sum(), x)[0], torch.full((3,), 2.0))
        assert isinstance(compiled, saker._C.AotCallable) or saker.stats()["replays"] > replays
    assert not torch.compiler.is_compiling()


def test_inside_of_a_deferred_block() -> None:
    with saker.deferred():
        assert torch.equal(asks(torch.ones(2)), torch.full((2,), 2.0))


def test_ahead_of_time_a_program_that_needs_data_takes_its_other_way() -> None:
    """It could not be captured otherwise; what it computes then is up to it."""

    def checked(x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling() and not bool((x > 0).all()):
            raise ValueError
        return x.sqrt()

    x = torch.rand(3)
    assert torch.equal(saker.aot_function(checked)(x), x.sqrt())
    with pytest.raises(saker.CaptureError):
        saker.aot_function(lambda x: x * 2 if bool((x > 0).all()) else x)(x)


def test_the_question_is_pytorchs_own_afterwards() -> None:
    original = torch.compiler.is_compiling
    saker.aot_function(asks)(torch.ones(2))
    saker.capture(asks, torch.ones(2))
    assert torch.compiler.is_compiling is original
