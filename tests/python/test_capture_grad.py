"""What saker.capture does about .grad, and about gradients that pass the user's code."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import saker
from differential import error_of


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def grads(module: nn.Module) -> list[torch.Tensor | None]:
    return [p.grad for p in module.parameters()]


def values(tensors: list[torch.Tensor | None]) -> list[Any]:
    return [t if t is None else t.tolist() for t in tensors]


def backward(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    loss = net(x).square().mean()
    loss.backward()
    return loss.detach()


def clear_all(net: nn.Module) -> None:
    net.zero_grad()


def clear_each(net: nn.Module) -> None:
    for p in net.parameters():
        p.grad = None


def delete_each(net: nn.Module) -> None:
    for p in net.parameters():
        del p.grad


def give_others(net: nn.Module) -> None:
    for p in net.parameters():
        p.grad = torch.ones_like(p)


CLEARS = [clear_all, clear_each, delete_each]


@pytest.mark.parametrize("clear", [*CLEARS, give_others])
@pytest.mark.parametrize("before", [False, True])
def test_capturing_leaves_grad_as_it_was(before: bool, clear: Callable) -> None:
    net, x = model(), torch.randn(5, 3)
    if before:
        backward(net, x)
    kept, numbers = grads(net), values(grads(net))
    saker.capture(lambda x: (clear(net), net(x))[1], x)
    assert all(a is b for a, b in zip(grads(net), kept, strict=True))

    def fails(x):
        clear(net)
        backward(net, x)
        raise KeyError("here")

    assert isinstance(error_of(lambda: saker.capture(fails, x)), KeyError)
    assert all(a is b for a, b in zip(grads(net), kept, strict=True))
    assert values(grads(net)) == numbers


@pytest.mark.parametrize("clear", CLEARS)
@pytest.mark.parametrize("captured_with", [False, True])
def test_one_capture_of_a_step_serves_both_states(captured_with: bool, clear: Callable) -> None:
    mine, x = model(), torch.randn(5, 3)
    theirs = copy.deepcopy(mine)

    def step(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        clear(net)
        loss = backward(net, x)
        with torch.no_grad():
            for p in net.parameters():
                p.sub_(p.grad, alpha=0.1)
        return loss

    if captured_with:
        backward(mine, x)
    moved = [p._version - q._version for p, q in zip(mine.parameters(), theirs.parameters(), strict=True)]
    graph = saker.capture(lambda x: step(mine, x), x)
    mine.zero_grad()
    for i in range(5):
        if i == 3:
            mine.zero_grad()
            theirs.zero_grad()
        held = grads(mine)[0]
        assert graph(x).equal(step(theirs, x))
        assert values(grads(mine)) == values(grads(theirs))
        pairs = zip(mine.parameters(), theirs.parameters(), strict=True)
        assert [p._version - q._version for p, q in pairs] == moved
        assert held is None or grads(mine)[0] is not held


def test_a_step_with_an_optimizer() -> None:
    mine, x = model(), torch.randn(5, 3)
    theirs = copy.deepcopy(mine)
    mine_opt, theirs_opt = (torch.optim.SGD(net.parameters(), lr=0.1) for net in (mine, theirs))

    def step(net: nn.Module, opt: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
        opt.zero_grad()
        loss = backward(net, x)
        opt.step()
        return loss

    graph = saker.capture(lambda x: step(mine, mine_opt, x), x)
    for _ in range(4):
        assert graph(x).equal(step(theirs, theirs_opt, x))
    for p, q in zip(mine.parameters(), theirs.parameters(), strict=True):
        assert p.equal(q)
        assert p.grad.equal(q.grad)


def test_clearing_alone() -> None:
    net, x = model(), torch.randn(5, 3)
    graph = saker.capture(lambda: net.zero_grad())
    backward(net, x)
    graph()
    assert grads(net) == [None] * 4
    graph()
    assert grads(net) == [None] * 4


def test_accumulating_is_for_the_state_it_was_captured_in() -> None:
    net, x = model(), torch.randn(5, 3)
    fresh = saker.capture(lambda x: backward(net, x), x)
    fresh(x)
    once = [g.clone() for g in grads(net)]
    assert "had none" in str(error_of(lambda: fresh(x)))
    again = saker.capture(lambda x: backward(net, x), x)
    again(x)
    for g, h in zip(grads(net), once, strict=True):
        torch.testing.assert_close(g, 2 * h)
    net.zero_grad()
    assert "no .grad" in str(error_of(lambda: again(x)))


def test_the_grad_of_today_is_read_and_written() -> None:
    """Not the tensor that was .grad when the function was captured."""
    p, x = nn.Parameter(torch.ones(3)), torch.ones(3)
    p.grad = torch.zeros(3)
    read = saker.capture(lambda x: p.grad * x, x)
    accumulate = saker.capture(lambda x: (p * x).sum().backward(), x)
    old, p.grad = p.grad, torch.full((3,), 5.0)
    held = p.grad
    assert read(x).tolist() == [5, 5, 5]
    accumulate(x)
    assert p.grad is held
    assert held.tolist() == [6, 6, 6]
    assert held._version == 1
    assert old.tolist() == [0, 0, 0]


def test_the_grad_of_an_argument() -> None:
    def run(x):
        y = x.grad * 2
        (x * 3).sum().backward()
        return y, x.grad + 1

    def made() -> torch.Tensor:
        x = torch.ones(3, requires_grad=True)
        x.grad = torch.full((3,), 4.0)
        return x

    graph = saker.capture(run, made())
    x, z = made(), made()
    got, expected = graph(x), run(z)
    assert values(list(got)) == values(list(expected))
    assert x.grad.tolist() == z.grad.tolist() == [7, 7, 7]
    assert x.grad._version == z.grad._version
    assert "has no .grad" in str(error_of(lambda: graph(torch.ones(3, requires_grad=True))))


def test_an_argument_that_is_cleared() -> None:
    def run(x):
        x.grad = None
        (x * 3).sum().backward()

    x = torch.ones(3, requires_grad=True)
    graph = saker.capture(run, x)
    for _ in range(3):
        graph(x)
        assert x.grad.tolist() == [3, 3, 3]


def test_ahead_of_time_functions_and_grad() -> None:
    p = nn.Parameter(torch.ones(3))

    def reads(x):
        return x * 2 if p.grad is None else x * p.grad

    def of_argument(x):
        return x * 2 if x.grad is None else x * x.grad

    for function in (reads, of_argument):
        compiled = saker.aot_function(function)
        x = torch.ones(3, requires_grad=True)
        p.grad = None
        assert compiled(x).tolist() == [2, 2, 2]
        for number in (3.0, 4.0):
            p.grad = torch.full((3,), number)
            x.grad = p.grad
            if function is of_argument or p.grad is not None:
                assert compiled(x).tolist() == function(x).tolist()


class Sevenfold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 7 * x


def hooked(x):
    y = x * 2
    y.register_hook(lambda g: g * 10)
    return y.sin()


def hooked_argument(x):
    x.register_hook(lambda g: g * 10)
    return x.sin()


def checkpointed(x):
    return checkpoint(lambda t: Sevenfold.apply(t).sin(), x, use_reentrant=True)


def retained(x):
    y = x * 2
    y.retain_grad()
    return y, y.sin()


USERS = [lambda x: Sevenfold.apply(x) + 1, lambda x: Sevenfold.apply(x * 2), hooked, hooked_argument, checkpointed]


@pytest.mark.parametrize("functional", [False, True])
@pytest.mark.parametrize("run", USERS)
def test_gradients_that_pass_code_of_the_user(run: Callable, functional: bool) -> None:
    graph = saker.capture(run, torch.randn(3, requires_grad=True))
    graph = graph.functional() if functional else graph
    for _ in range(2):
        x = torch.randn(3, requires_grad=True)
        z = x.detach().clone().requires_grad_()
        got, expected = graph(x), run(z)
        assert got.requires_grad
        got.sum().backward()
        expected.sum().backward()
        assert x.grad.equal(z.grad)
        before = saker.stats()["fallbacks"]
        with torch.no_grad():
            assert graph(x.detach().requires_grad_()).equal(expected)
        assert saker.stats()["fallbacks"] == before


def test_a_torch_fx_graph_says_that_it_has_no_functions() -> None:
    graph = saker.capture(USERS[0], torch.randn(3, requires_grad=True))
    with pytest.warns(UserWarning, match="Function"):
        graph.to_fx()


def test_a_graph_of_a_function_still_checks_its_arguments() -> None:
    graph = saker.capture(USERS[0], torch.randn(3, requires_grad=True))
    assert isinstance(error_of(lambda: graph(torch.randn(4, requires_grad=True))), saker.RunError)


def test_a_retained_gradient() -> None:
    graph = saker.capture(retained, torch.randn(3, requires_grad=True))
    y, z = graph(torch.randn(3, requires_grad=True))
    z.sum().backward()
    assert y.grad is not None


def test_hooks_of_parameters_are_no_reason_to_call_the_function() -> None:
    net, x = model(), torch.randn(5, 3)
    seen: list[int] = []
    for p in net.parameters():
        p.register_hook(lambda g: seen.append(1))
    graph = saker.capture(net, x)
    before = saker.stats()["fallbacks"]
    graph(x).sum().backward()
    assert saker.stats()["fallbacks"] == before
    assert len(seen) == 4


def test_a_function_inside_of_a_captured_step() -> None:
    w, x = torch.randn(3, requires_grad=True), torch.randn(3)

    def step(x):
        return torch.autograd.grad(Sevenfold.apply(w * x).sum(), w)[0]

    graph = saker.capture(step, x)
    before = saker.stats()["fallbacks"]
    assert graph(x).equal(step(x))
    assert saker.stats()["fallbacks"] == before
