"""Parameters and modules that a compiled function makes: replays make fresh ones, as eager mode does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import saker
from differential import same

KEPT = nn.Linear(2, 2)


class Scaled(nn.Parameter):
    pass


class Holder:
    pass


def used(x: torch.Tensor) -> Any:
    w = nn.Parameter(torch.ones(2) * 3)
    return x * w, type(w) is nn.Parameter, isinstance(w, nn.Parameter), w.requires_grad, w.is_leaf


def returned(x: torch.Tensor) -> Any:
    w = nn.Parameter(torch.ones(2) * 3)
    return (x * w).sum(), w


def without_gradients(x: torch.Tensor) -> Any:
    w = nn.Parameter(torch.arange(2.0), requires_grad=False)
    return x * w, w


def of_ints(x: torch.Tensor) -> Any:
    return x, nn.Parameter(torch.arange(3), requires_grad=False)


def under_no_grad(x: torch.Tensor) -> Any:
    with torch.no_grad():
        w = nn.Parameter(torch.ones(2))
        w.mul_(3)
    return (x * w).sum(), w


def one_memory(x: torch.Tensor) -> Any:
    base = torch.ones(2)
    w = nn.Parameter(base)
    with torch.no_grad():
        w.add_(2)  # base and parameter are one memory, and one version
    return base * x, w, base


def of_the_argument(x: torch.Tensor) -> Any:
    w = nn.Parameter(x.detach())
    with torch.no_grad():
        w.mul_(2)
    return (w * 3).sum(), w


def of_a_parameter(x: torch.Tensor) -> Any:
    w = nn.Parameter(nn.Parameter(torch.ones(2)))
    return (x * w).sum(), w, w[0]


def of_one_outside(x: torch.Tensor) -> Any:
    w = nn.Parameter(KEPT.weight)
    return (x * w).sum(), w, w.grad_fn


def of_a_result(x: torch.Tensor) -> Any:
    y = x * 3
    w = nn.Parameter(y)
    with torch.no_grad():
        w.add_(1)
    return y, w, (w * y).sum()


def of_a_view(x: torch.Tensor) -> Any:
    base = torch.arange(6.0).view(2, 3)
    w = nn.Parameter(base[:, :2].t())
    return (x * w).sum(), w, base


def of_a_subclass(x: torch.Tensor) -> Any:
    w = Scaled(torch.ones(2))
    return (x * w).sum(), w


def twice(x: torch.Tensor) -> Any:
    w = nn.Parameter(torch.ones(2))
    return (x * w).sum(), w, [w], {"w": w}


def random(x: torch.Tensor) -> Any:
    w = nn.Parameter(torch.randn(2))
    noise = torch.rand(2)
    return (x * w + noise).sum(), w


def linear(x: torch.Tensor) -> Any:
    layer = nn.Linear(2, 3)
    return layer(x)


def linear_and_weights(x: torch.Tensor) -> Any:
    layer = nn.Linear(2, 3)
    return layer(x).sum(), layer.weight, layer.bias


def normalised(x: torch.Tensor) -> Any:
    layer = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.LayerNorm(4))
    return layer(x)


def convolved(x: torch.Tensor) -> Any:
    layer = nn.Conv1d(1, 2, 2)
    nn.init.xavier_normal_(layer.weight)
    return layer(x[None, None]), layer.weight


def module_returned(x: torch.Tensor) -> Any:
    layer = nn.Linear(2, 3)
    return layer(x).sum(), layer


def gradient_inside(x: torch.Tensor) -> Any:
    w = nn.Parameter(torch.ones(2))
    (gradient,) = torch.autograd.grad((x * w * w).sum(), w)
    return gradient


PROGRAMS: list[Callable[[torch.Tensor], Any]] = [
    used, returned, without_gradients, of_ints, under_no_grad, one_memory, of_the_argument, of_a_parameter,
    of_one_outside, of_a_result, of_a_view, of_a_subclass, twice, random, linear, linear_and_weights, normalised,
    convolved, gradient_inside,
]  # fmt: skip


def leaves(result: Any) -> list[torch.Tensor]:
    return [each for each in torch.utils._pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]


def outcome(fn: Callable, seed: int, requires_grad: bool) -> Any:
    torch.manual_seed(seed)
    x = torch.randn(2, requires_grad=requires_grad)
    result = fn(x)
    state = torch.get_rng_state()
    total = sum((t.sum() for t in leaves(result) if t.requires_grad), start=torch.zeros(()))
    if total.requires_grad:
        total.backward()
    grads = [t.grad for t in leaves(result) if t.is_leaf]
    return result, x, x.grad, grads, state


@pytest.mark.parametrize("backend", ["aten", "eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_mode(program: Callable[[torch.Tensor], Any], backend: Any) -> None:
    compiled = saker.compile(program, backend=backend, fullgraph=True)
    for requires_grad in (False, True):
        for step in range(4):
            before = saker.stats()["replays"]
            got = outcome(compiled, step, requires_grad)
            assert (saker.stats()["replays"] > before) == (step > 0)
            same(got, outcome(program, step, requires_grad))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_back_end_of_the_user(program: Callable[[torch.Tensor], Any]) -> None:
    compiled = saker.compile(program, backend=lambda gm, examples: gm.forward, fullgraph=True)
    for step in range(3):
        got, expected = (outcome(fn, step, True) for fn in (compiled, program))
        torch.testing.assert_close(leaves(got), leaves(expected), rtol=0, atol=0)
        classes = [[(type(t), t.requires_grad, t.is_leaf) for t in leaves(each)] for each in (got, expected)]
        assert classes[0] == classes[1]


def test_replays_make_fresh_parameters() -> None:
    compiled = saker.compile(returned)
    made = [compiled(torch.ones(2))[1] for _ in range(4)]
    assert len({id(each) for each in made}) == 4
    assert len({each.data_ptr() for each in made}) == 4
    with torch.no_grad():
        made[1].fill_(9)
    made[1].tag = "mine"
    again = compiled(torch.ones(2))[1]
    assert again.tolist() == [3, 3] and not hasattr(again, "tag")


def test_a_parameter_can_be_resized_and_trained() -> None:
    compiled = saker.compile(returned)
    for _ in range(3):
        loss, w = compiled(torch.ones(2))
        loss.backward()
        torch.optim.SGD([w], lr=1.0).step()
        assert w.tolist() == [2, 2]
        w.data = torch.zeros(5)
        assert w.detach().numpy().shape == (5,)


def test_a_module_that_is_returned_is_a_new_one() -> None:
    compiled = saker.compile(module_returned)
    seen = []
    for step in range(4):
        torch.manual_seed(step)
        loss, layer = compiled(torch.ones(2))
        torch.manual_seed(step)
        expected, other = module_returned(torch.ones(2))
        same(loss, expected)
        assert type(layer) is nn.Linear and repr(layer) == repr(other) and vars(layer).keys() == vars(other).keys()
        for (name, mine), (wanted, theirs) in zip(layer.named_parameters(), other.named_parameters(), strict=True):
            assert name == wanted
            same(mine, theirs)
        loss.backward()
        assert layer.weight.grad is not None
        same(layer(torch.ones(2)), other(torch.ones(2)))
        seen.append(layer)
    assert len({id(each) for each in seen}) == 4


def test_a_parameter_that_is_kept_in_an_attribute() -> None:
    holder = Holder()

    def program(x: torch.Tensor) -> torch.Tensor:
        holder.weight = nn.Parameter(torch.ones(2) * 2)
        return x * holder.weight

    compiled = saker.compile(program)
    kept = []
    for _ in range(4):
        result = compiled(torch.ones(2))
        result.sum().backward()
        assert type(holder.weight) is nn.Parameter and holder.weight.grad.tolist() == [1, 1]
        kept.append(holder.weight)
    assert len({id(each) for each in kept}) == 4


def test_a_parameter_that_replaces_one_of_a_module() -> None:
    module = nn.Linear(2, 2)

    def program(x: torch.Tensor) -> torch.Tensor:
        module.weight = nn.Parameter(torch.eye(2))
        return F.linear(x, module.weight)

    program(torch.ones(2))
    names = [name for name, _ in module.named_parameters()]
    compiled = saker.compile(program)
    for _ in range(4):
        result = compiled(torch.ones(2))
        assert result.tolist() == [1, 1] and [name for name, _ in module.named_parameters()] == names
        result.sum().backward()
        assert module.weight.grad.tolist() == [[1, 1], [1, 1]]


def test_parameters_with_attributes_run_eagerly() -> None:
    def program(x: torch.Tensor) -> Any:
        w = nn.Parameter(torch.ones(2))
        w.tag = "mine"
        return x * w, w

    compiled = saker.compile(program)
    before = saker.stats()["replays"]
    assert all(compiled(torch.ones(2))[1].tag == "mine" for _ in range(3))
    assert saker.stats()["replays"] == before


@pytest.mark.parametrize("size", [2, 3, 5, 7])
def test_sizes_that_change(size: int) -> None:
    compiled = SIZES
    torch.manual_seed(size)
    got = compiled(torch.ones(4, size))
    torch.manual_seed(size)
    same(got, sized(torch.ones(4, size)))


def sized(x: torch.Tensor) -> Any:
    layer = nn.Linear(x.shape[1], 2)
    return layer(x), layer.weight


SIZES = saker.compile(sized)
