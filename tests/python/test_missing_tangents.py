"""Backwards of control flow that are given tangents of some results only: what a missing one leads to is left out, as
eager mode leaves it out, and gradients that nothing leads to are None. Derivatives are infinite at zero here, so that a
zero in the place of a missing tangent would give nan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker
from control_flow import operators, reference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

Tensors = tuple[torch.Tensor, ...]


def branches(o: Any, v: torch.Tensor) -> Tensors:
    return o.cond(v.sum() >= 0, lambda v: (v * 3, v.sqrt()), lambda v: (v * 2, v.sqrt()), (v,))


def apart(o: Any, v: torch.Tensor, w: torch.Tensor) -> Tensors:
    return o.cond(v.sum() >= 0, lambda v, w: (v * 3, w.sqrt()), lambda v, w: (v * 2, w.sin()), (v, w))


def loop(o: Any, v: torch.Tensor, w: torch.Tensor, u: torch.Tensor) -> Tensors:
    start = (torch.tensor(0), v, v)
    return o.while_loop(lambda i, a, b: i < 2, lambda i, a, b: (i + 1, a * w, (b * u).sqrt()), start)[1:]


def carried(o: Any, v: torch.Tensor) -> Tensors:
    (a, b), rows = o.scan(lambda c, x: ([c[0] * 2, c[1].sqrt()], x.sqrt()), [v[0].clone(), v[0].clone()], v)
    return a, b, rows


def rows(o: Any, v: torch.Tensor, w: torch.Tensor) -> Tensors:
    c, (left, right) = o.scan(lambda c, x: (c * w, (x * 3 + c, x.sqrt() * w.cos())), v[0].clone(), v)
    return c, left, right


def detached(o: Any, v: torch.Tensor) -> Tensors:
    """What is carried is read by what is given a tangent, but not followed."""
    return o.scan(lambda c, x: (c.sqrt(), x * 3 + c.detach()), v[0].clone(), v)


def nested(o: Any, v: torch.Tensor, w: torch.Tensor) -> Tensors:
    def step(c: torch.Tensor, x: torch.Tensor) -> Tensors:
        return o.cond(x.sum() >= 0, lambda c, x: (c + w, x.sqrt()), lambda c, x: (c * w, x.sin()), (c, x))

    return o.scan(step, v[0].clone(), v)


def chained(o: Any, v: torch.Tensor) -> Tensors:
    a, b = branches(o, v)
    return o.cond(v.sum() >= 0, lambda a, b: (a * 3, b.sqrt()), lambda a, b: (a * 2, b.sqrt()), (a, b))


PROGRAMS: dict[str, tuple[Callable[..., Tensors], list[tuple[int, ...]]]] = {
    "branches": (branches, [(3,)]),
    "apart": (apart, [(3,), (3,)]),
    "while loop": (loop, [(3,), (3,), (3,)]),
    "carried": (carried, [(3, 2)]),
    "rows": (rows, [(3, 2), (2,)]),
    "detached": (detached, [(3, 2)]),
    "nested": (nested, [(3, 2), (2,)]),
    "chained": (chained, [(3,)]),
}


def gradients(function: Callable[..., Tensors], shapes: list[tuple[int, ...]], chosen: list[int]) -> Any:
    inputs = [torch.zeros(shape, requires_grad=True) for shape in shapes]
    results = function(*inputs)
    total = sum(results[i].sum() for i in chosen)
    return torch.autograd.grad(total, inputs, allow_unused=True)


def check(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, equal_nan=True)


@pytest.mark.parametrize("way", ["compile", "aot", "deferred", "whole"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_some_results_are_differentiated(name: str, way: str) -> None:
    program, shapes = PROGRAMS[name]

    def plain(*inputs: torch.Tensor) -> Tensors:
        return program(reference, *inputs)

    def recorded(*inputs: torch.Tensor) -> Tensors:
        return program(operators, *inputs)

    count = len(plain(*[torch.zeros(shape) for shape in shapes]))
    compiled = saker.aot_function(recorded) if way == "aot" else saker.compile(recorded)
    for chosen in [*([i] for i in range(count)), [0, count - 1]]:
        expected = gradients(plain, shapes, chosen)
        for _ in range(3):
            if way == "deferred":
                with saker.deferred():
                    found = gradients(recorded, shapes, chosen)
            elif way == "whole":
                inputs = [torch.zeros(shape, requires_grad=True) for shape in shapes]

                def whole(*inputs: torch.Tensor, chosen: list[int] = chosen) -> Any:
                    total = sum(recorded(*inputs)[i].sum() for i in chosen)
                    return torch.autograd.grad(total, inputs, allow_unused=True)

                found = saker.compile(whole)(*inputs)
            else:
                found = gradients(compiled, shapes, chosen)
            check(found, expected)


def test_a_branch_that_gives_zeros_by_a_formula() -> None:
    """What is None in one branch is zeros in the other: the branch that is taken decides, in each call."""

    def program(o: Any, v: torch.Tensor, w: torch.Tensor) -> Tensors:
        return o.cond(v.sum() >= 0, lambda v, w: (w.floor(), v * 2), lambda v, w: (v * 3, w * 2), (v, w))

    compiled = saker.aot_function(lambda v, w: program(operators, v, w))
    for sign in (1.0, 1.0, -1.0, 1.0):
        found = []
        for function in (lambda v, w: program(reference, v, w), compiled):
            v = torch.full((2,), sign, requires_grad=True)
            w = torch.ones(2, requires_grad=True)
            found.append(torch.autograd.grad(function(v, w)[0].sum(), (v, w), allow_unused=True))
        check([0 * v if t is None else t for t in found[1]], [0 * v if t is None else t for t in found[0]])


HOOKED: dict[str, Callable[[Any, torch.Tensor], Tensors]] = {
    "of one operator each": lambda o, x: (x.sin() * 2, x.sin() * 3),
    "of one value": lambda o, x: (lambda h: (h * 2, h * 3))(x.sin()),
    "branches": lambda o, x: o.cond(x.sum() > 0, lambda x: (x * 2, x * 3), lambda x: (x * 3, x * 4), (x,)),
    "of one node": lambda o, x: (x.sin() * torch.ones(2, 1)).unbind(0),
    "a loop": lambda o, x: o.while_loop(
        lambda i, a, b: i < 2, lambda i, a, b: (i + 1, a * 2, b * a), (torch.tensor(0), x, x)
    )[1:],
}


@pytest.mark.parametrize("way", ["compile", "aot", "deferred"])
@pytest.mark.parametrize("name", HOOKED)
def test_hooks_on_results_that_a_backward_does_not_reach(name: str, way: str) -> None:
    def run(function: Callable[[torch.Tensor], Tensors], again: bool) -> Any:
        log: list[Any] = []
        x = torch.ones(3, requires_grad=True)
        a, b = function(x)
        for label, result in (("a", a), ("b", b)):
            result.register_hook(lambda g, label=label: log.append((label, None if g is None else g.tolist())))
        b.retain_grad()
        first = torch.autograd.grad(a.sum(), x, create_graph=again)[0]
        if again and first.requires_grad:
            torch.autograd.grad((first * first).sum(), x, allow_unused=True)
        return log, b.grad, first.tolist()

    def deferred(x: torch.Tensor) -> Tensors:
        with saker.deferred():
            return HOOKED[name](operators, x)

    wraps = {"compile": saker.compile, "aot": saker.aot_function, "deferred": lambda f: deferred}
    compiled = wraps[way](lambda x: HOOKED[name](operators, x))
    for again in (False, True):
        for _ in range(3):
            expected = run(lambda x: HOOKED[name](reference, x), again)
            assert run(compiled, again) == expected
