"""What a body sets and puts back is no change: transforms, swapped parameters, attention inside of branches. What was
read in between, and what was there before, must be right in replays."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

import saker
from control_flow import operators, reference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

LAYER = torch.nn.Linear(3, 3)


class State:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def swapped(v: torch.Tensor) -> torch.Tensor:
    return torch.func.functional_call(LAYER, {"weight": LAYER.weight * v.mean(), "bias": LAYER.bias}, (v,))


def put_back(v: torch.Tensor) -> torch.Tensor:
    """By hand, as torch.nn.utils.stateless does."""
    weight = LAYER._parameters["weight"]
    LAYER._parameters["weight"] = weight * v.sum()
    result = LAYER(v)
    LAYER._parameters["weight"] = weight
    return result


BODIES = {
    "grad": torch.func.grad(lambda v: v.sin().sum()),
    "vjp": lambda v: torch.func.vjp(torch.sin, v)[1](v)[0],
    "jvp": lambda v: torch.func.jvp(torch.sin, (v,), (v,))[1],
    "vmap": torch.func.vmap(lambda row: row * row.sum()),
    "jacrev": lambda v: torch.func.jacrev(lambda w: w * w.sum())(v[0]),
    "jacfwd": lambda v: torch.func.jacfwd(lambda w: w * w.sum())(v[0]),
    "hessian": lambda v: torch.func.hessian(lambda w: (w * w).sum().sin())(v[0]),
    "swapped parameters": swapped,
    "put back": put_back,
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_put_back_what_they_set(name: str) -> None:
    body = BODIES[name]

    def f(o: Any, x: torch.Tensor) -> torch.Tensor:
        return o.cond(x.sum() > 0, body, lambda v: v * 2, (x,)) + LAYER(x)

    compiled = saker.compile(lambda x: f(operators, x))
    for sign in (1.0, 1.0, -1.0, 1.0):
        x = sign * torch.arange(1.0, 10.0).reshape(3, 3)
        torch.testing.assert_close(compiled(x), f(reference, x))


def test_the_same_once_the_compiler_of_pytorch_is_loaded() -> None:
    program = """
import torch, torch._dynamo, saker
from torch.nn.attention.flex_attention import flex_attention
x = torch.arange(1.0, 10.0).reshape(3, 3)
gradient = saker.compile(lambda x: torch.cond(x.sum() > 0, torch.func.grad(lambda v: v.sin().sum()), torch.cos, (x,)))
for _ in range(3):
    torch.testing.assert_close(gradient(x), x.cos())
q = torch.randn(1, 2, 8, 4)
attend = saker.compile(
    lambda q: torch.cond(q.sum() > -1e9, lambda q: flex_attention(q, q, q), lambda q: q * 2, (q,)))
expected = torch.softmax(q @ q.transpose(-2, -1) / 2, -1) @ q
for _ in range(3):
    torch.testing.assert_close(attend(q), expected)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def compare(body: Any, other: Any, change: Any, calls: int = 5) -> None:
    """Calls a compiled branch and a plain one; objects change between calls."""
    compiled = saker.compile(lambda x: operators.cond(x.sum() > 0, body, other, (x,)))
    x = torch.ones(2)
    for i in range(calls):
        change(i)
        torch.testing.assert_close(compiled(x), reference.cond(x.sum() > 0, body, other, (x,)))


def test_a_module_gets_other_parameters() -> None:
    layer = torch.nn.Linear(2, 2)

    def body(v: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, {"weight": layer.weight * 2, "bias": layer.bias}, (v,)) + layer(v)

    def change(i: int) -> None:
        if i >= 2:
            layer.weight = torch.nn.Parameter(torch.full((2, 2), float(i)))

    compare(body, lambda v: v * 2, change)
    assert layer.weight.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_what_is_set_for_a_while_is_what_is_read() -> None:
    state = State(scale="one", by={"one": 1.0, "two": 2.0})

    def body(v: torch.Tensor) -> torch.Tensor:
        before = state.scale
        state.scale = "two"
        result = v * state.by[state.scale]
        state.scale = before
        return result + state.by[state.scale]

    def change(i: int) -> None:
        state.scale = "one" if i < 2 else "two"
        state.by["two"] = 2.0 if i < 3 else 5.0

    compare(body, lambda v: v * 3, change)
    assert state.scale == "two"


def test_what_is_put_back_happens_to_be_what_was_there() -> None:
    """The constant that is written is what was there in the first call, and not later."""
    state = State(mode="plain")

    def body(v: torch.Tensor) -> torch.Tensor:
        state.mode = "other"
        result = v * len(state.mode)
        state.mode = "plain"
        return result

    compiled = saker.compile(lambda x: torch.cond(x.sum() > 0, body, lambda v: v * 3, (x,)))
    assert compiled(torch.ones(2)).tolist() == [5.0, 5.0]
    state.mode = "third"
    with pytest.raises(saker.errors.BodyError):  # it is a change now
        compiled(torch.ones(2))


def test_numbers_that_are_put_back() -> None:
    state = {"depth": 0}

    def body(v: torch.Tensor) -> torch.Tensor:
        state["depth"] += 1
        result = v * state["depth"]
        state["depth"] -= 1
        return result

    x = torch.ones(2)
    compiled = saker.compile(lambda x: torch.cond(x.sum() > 0, body, lambda v: v * 3, (x,)))
    for depth in (0, 0, 1, 2, 3):
        state["depth"] = depth
        try:
            found = compiled(x)
        except saker.errors.BodyError:
            continue  # a number that has become a symbol
        assert found.tolist() == [depth + 1.0] * 2
    assert state["depth"] == 3


def test_numbers_that_come_out_the_same_once() -> None:
    state = {"n": 1}

    def body(v: torch.Tensor) -> torch.Tensor:
        state["n"] = state["n"] * state["n"]
        return v * 2

    compiled = saker.compile(lambda x: torch.cond(x.sum() > 0, body, lambda v: v * 3, (x,)))
    for n in (1, 1, 2, 3):
        state["n"] = n
        try:
            compiled(torch.ones(2))
        except saker.errors.BodyError:
            continue
        assert state["n"] == n * n


@pytest.mark.parametrize("before", [1, 2])
def test_what_the_call_wrote_before(before: int) -> None:
    """A key that the function itself has written is no longer what it was when the call began."""
    state = {"k": "a"}

    def body(v: torch.Tensor) -> torch.Tensor:
        held = state["k"]
        state["k"] = "ccc"
        result = v * len(state["k"])
        state["k"] = held
        return result

    def f(o: Any, x: torch.Tensor) -> torch.Tensor:
        state["k"] = "b" * before
        return o.cond(x.sum() > 0, body, lambda v: v * 3, (x,)) * len(state["k"])

    compiled = saker.compile(lambda x: f(operators, x))
    for _ in range(3):
        state["k"] = "a"
        try:
            found = compiled(torch.ones(2))
        except saker.errors.BodyError:
            continue
        assert found.tolist() == [3.0 * before] * 2
        assert state["k"] == "b" * before


def test_a_change_that_stays_is_refused() -> None:
    state = State(a="x", b="y")

    def body(v: torch.Tensor) -> torch.Tensor:
        before = state.a
        state.a = "z"
        state.b = "z"
        state.a = before
        return v * 2

    with pytest.raises(saker.errors.BodyError):
        saker.compile(lambda x: torch.cond(x.sum() > 0, body, torch.sin, (x,)))(torch.ones(2))
