"""Tensors that a compiled function prints: a replay prints them again, as they are in that call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import saker

Tensor = torch.Tensor
higher_order = torch.ops.higher_order


def a_result(x: Tensor) -> Tensor:
    y = x * 2
    print("y", y, 3)
    return y + 1


def an_argument(x: Tensor) -> Tensor:
    print(x)
    return x + 1


def a_number(x: Tensor) -> Tensor:
    print(x.sum(), x.argmax(), sep=" | ")
    return x + 1


def several(x: Tensor) -> Tensor:
    print("before")
    y = x.sin()
    print(y.shape, y)
    print(y.t())
    return y.cos()


def not_returned(x: Tensor) -> Tensor:
    print((x * 3).sum(0))
    return x


def by_the_operator(x: Tensor) -> Tensor:
    higher_order.print("sum {} and {mean:.3f}", x.sum(), mean=x.mean())
    print("between")
    higher_order.print("plain {}", 3)
    return x + 1


def before_a_write_to_another(x: Tensor) -> Tensor:
    y = x * 2
    print(y)
    z = y + 1
    z.add_(1)
    return z


def detached(x: Tensor) -> Tensor:
    y = x.sin() * x
    print(y.detach())
    return y


def text_of(capsys: pytest.CaptureFixture[str], call: Callable, x: Tensor) -> tuple[str, Tensor]:
    result = call(x)
    return capsys.readouterr().out, result


REPLAYED = [
    a_result, an_argument, a_number, several, not_returned, by_the_operator, before_a_write_to_another, detached
]  # fmt: skip


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("program", REPLAYED)
def test_replays_print_tensors(program: Callable, grad: bool, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = saker.compile(program)
    saker.reset(counts=True)
    for turn in range(4):
        x = torch.linspace(0, 1 + turn, 6).view(2, 3).requires_grad_(grad)
        found, one = text_of(capsys, compiled, x)
        expected, other = text_of(capsys, program, x)
        assert found == expected
        assert torch.equal(one, other)
    # The text of a result that autograd follows tells its gradient function, which a replay has not.
    without_history = program in (an_argument, detached)
    assert saker.stats()["replays"] == (3 if without_history or not grad else 0)


def test_text_around_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    def program(x: Tensor, i: Tensor) -> Tensor:
        y = x + 1
        print("first", y)
        z = y[i]
        print("second", z)
        return z

    compiled = saker.compile(program)
    x = torch.arange(4.0)
    for i in (torch.tensor([1]), torch.tensor([2]), torch.tensor([9]), torch.tensor([0])):
        for call in (compiled, program):
            try:
                call(x, i)
            except IndexError:
                print("failed")
        lines = capsys.readouterr().out
        assert lines[: len(lines) // 2] == lines[len(lines) // 2 :]


def written_later(x: Tensor) -> Tensor:
    y = x * 2
    print(y)
    y.add_(1)
    return y


def argument_written_later(x: Tensor) -> Tensor:
    print(x)
    x.add_(1)
    return x * 2


def a_list(x: Tensor) -> Tensor:
    print([x])
    return x + 1


@pytest.mark.parametrize("program", [written_later, argument_written_later, a_list])
def test_what_is_no_tensor_at_the_end_runs_eagerly(program: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = saker.compile(program)
    saker.reset(counts=True)
    for turn in range(3):
        x = torch.full((2,), float(turn))
        found, one = text_of(capsys, compiled, x.clone())
        expected, other = text_of(capsys, program, x.clone())
        assert found == expected
        assert torch.equal(one, other)
    assert saker.stats()["stops"].get("prints-object")


@pytest.mark.parametrize("entry", ["compile", "aot_function", "deferred"])
def test_only_the_branch_that_is_taken_prints(entry: str, capsys: pytest.CaptureFixture[str]) -> None:
    def program(x: Tensor) -> Tensor:
        def taken(v: Tensor) -> Tensor:
            higher_order.print("taken {}", 1)
            return v.sin()

        return torch.cond(x.sum() > 0, taken, lambda v: v.cos(), (x,))

    def deferred(x: Tensor) -> Tensor:
        with saker.deferred():
            return program(x)

    call = deferred if entry == "deferred" else getattr(saker, entry)(program)
    for sign in (1, -1, 1):
        x = torch.full((2,), float(sign))
        found, result = text_of(capsys, call, x)
        assert found == ("taken 1\n" if sign > 0 else "")
        assert torch.equal(result, x.sin() if sign > 0 else x.cos())
