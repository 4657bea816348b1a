"""detach_() and requires_grad_() change what autograd knows of tensors: no operator shows that, and replays lost it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import saker

Tensor = torch.Tensor


def replays() -> int:
    return saker.stats()["replays"]


def state(tensor: Tensor) -> tuple:
    """What a program can see of a tensor besides its numbers."""
    return tensor.requires_grad, tensor.is_leaf, tensor.grad_fn is None, tensor._version, tensor.dtype


# --- detach_() ---


def made(leaf: bool = False) -> Tensor:
    x = torch.full((3,), 2.0, requires_grad=True)
    return x if leaf else x * 3


def detaches(x: Tensor, w: Tensor) -> Tensor:
    x.detach_()
    x.add_(1)
    return x


def by_function(x: Tensor, w: Tensor) -> Tensor:
    torch.detach_(x)
    return x * w


def by_overload(x: Tensor, w: Tensor) -> Tensor:
    torch.ops.aten.detach_.default(x)
    return x * w


def of_used(x: Tensor, w: Tensor) -> tuple:
    y = x * w
    x.detach_()
    return y, x * 3


def of_written(x: Tensor, w: Tensor) -> tuple:
    y = x.mul(w)
    x.mul_(w)
    x.detach_()
    return y, x * w


def of_made(x: Tensor, w: Tensor) -> tuple:
    y = x * w
    z = y.sin()
    y.detach_()
    return y * w + x, z, y


def of_result(x: Tensor, w: Tensor) -> Tensor:
    return (x * w).detach_()


def of_made_without_grad(x: Tensor, w: Tensor) -> Tensor:
    with torch.no_grad():
        y = x * w
        y.detach_()
    return y * w


def then_requires_grad(x: Tensor, w: Tensor) -> Tensor:
    x.detach_()
    x.requires_grad_()
    return x * 2


def then_written(x: Tensor, w: Tensor) -> Tensor:
    x.detach_()
    x.mul_(w)
    return x


def twice(x: Tensor, w: Tensor) -> tuple:
    x.detach_()
    x.mul_(w)
    y = x + 1
    x.detach_()
    return x, y


def asks_before(x: Tensor, w: Tensor) -> Tensor:
    had = x.requires_grad
    x.detach_()
    return x * w if had else x - w


def without_grad(x: Tensor, w: Tensor) -> Tensor:
    with torch.no_grad():
        x.detach_()
        return x * w


class Cuts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        x.detach_()
        return x * w

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return grad * 2, grad * 3


def in_a_function(x: Tensor, w: Tensor) -> Tensor:
    return Cuts.apply(x, w)


def in_a_checkpoint(x: Tensor, w: Tensor) -> Tensor:
    def part(w: Tensor) -> Tensor:
        y = w * 3
        y.detach_()
        return y * w

    return checkpoint(part, w, use_reentrant=False) + x


# A segment ends in these, or they run eagerly for other reasons.
NOT_REPLAYED: list[Callable] = [by_overload, in_a_function, in_a_checkpoint]
PROGRAMS = [
    *NOT_REPLAYED,
    detaches,
    by_function,
    of_used,
    of_written,
    of_made,
    of_result,
    of_made_without_grad,
    then_requires_grad,
    then_written,
    twice,
    asks_before,
    without_grad,
]


def outcome(run: Callable, x: Tensor, w: Tensor) -> list[Any]:
    """What the program gives and leaves, with the gradients of what it gives."""
    try:
        given = run(x, w)
    except RuntimeError as error:
        return [type(error), str(error).split("\n")[0], *state(x)]
    results = given if isinstance(given, tuple) else (given,)
    seen: list[Any] = [*state(x), x, *(each is x for each in results)]
    for each in results:
        seen += [*state(each), each]
    total = sum(each.sum() for each in results if each.requires_grad)
    try:  # autograd does not use what it saved of a tensor that was detached in place
        if isinstance(total, Tensor):
            total.backward()
    except RuntimeError as error:
        seen.append(str(error).split("\n")[0])
    return [*seen, w.grad, x.grad if x.is_leaf else None]


def assert_same(got: list, expected: list) -> None:
    assert len(got) == len(expected)
    for left, right in zip(got, expected, strict=True):
        if isinstance(right, Tensor):
            torch.testing.assert_close(left, right, rtol=0, atol=0)
        else:
            assert left == right


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("leaf", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_detach_in_place(program: Callable, leaf: bool, dynamic: bool | None) -> None:
    compiled = saker.compile(program, dynamic=dynamic)
    before = replays()
    for _ in range(4):
        w = torch.full((3,), 0.5, requires_grad=True)
        expected = outcome(program, made(leaf), w)
        w = torch.full((3,), 0.5, requires_grad=True)
        assert_same(outcome(compiled, made(leaf), w), expected)
    raises = leaf and program is of_written  # and is not recorded
    if program not in NOT_REPLAYED and not dynamic and not raises:
        assert replays() - before == 3


HELD: dict[str, Tensor] = {}


class Truncated(nn.Module):
    """Keeps a hidden state whose history ends where the next call begins."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.RNNCell(3, 3)
        self.hidden = torch.zeros(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.hidden.detach_()
        self.hidden = self.cell(x, self.hidden)
        return self.hidden


def test_truncated_backpropagation() -> None:
    eager, model = Truncated(), Truncated()
    compiled = saker.compile(model)
    before = replays()
    for step in range(5):
        x = torch.full((2, 3), float(step))
        for each, module in ((eager, eager), (compiled, model)):
            each(x).sum().backward()
            assert state(module.hidden)[:2] == (True, False)
        for left, right in zip(eager.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(left.grad, right.grad, rtol=0, atol=0)
    assert replays() - before >= 3


def test_detach_of_what_a_dict_holds() -> None:
    def program() -> Tensor:
        HELD["x"].detach_()
        return HELD["x"] * 2

    compiled = saker.compile(program)
    before = replays()
    for _ in range(3):
        HELD["x"] = made()
        assert not compiled().requires_grad and not HELD["x"].requires_grad
    assert replays() - before == 2


@pytest.mark.parametrize("catches", [False, True])
def test_views_are_not_detached_in_place(catches: bool) -> None:
    def program(x: Tensor) -> Any:
        if not catches:
            x.detach_()
            return x * 2
        try:
            x.detach_()
        except RuntimeError:
            return "a view"
        return x * 2

    compiled = saker.compile(program)
    for view in (False, False, True, True, False):
        outcomes = []
        for run in (program, compiled):
            x = torch.ones(4, requires_grad=True) * 2
            try:
                outcomes.append(run(x[1:] if view else x))
            except RuntimeError as error:
                outcomes.append(str(error).split("\n")[0])
        assert isinstance(outcomes[0], str) == view
        if view:
            assert outcomes[0] == outcomes[1]
        else:
            assert torch.equal(*outcomes) and not outcomes[1].requires_grad


@pytest.mark.parametrize("requires", [False, True])
def test_what_is_known_of_a_tensor_after_a_write_to_its_view(requires: bool) -> None:
    """Autograd changes what it knows of a base where a view of it is written: the order counts."""

    def program(base: Tensor, view: Tensor, w: Tensor) -> Tensor:
        view.mul_(w)
        if requires:
            base.requires_grad_()
        else:
            base.detach_()
        return w * 2

    compiled = saker.compile(program)
    for _ in range(3):
        seen = []
        for run in (program, compiled):
            base, w = torch.ones(4), torch.ones(4, requires_grad=not requires)
            run(base, base.view(4), w)
            seen.append(state(base))
        assert seen[0] == seen[1]
        assert seen[0][:2] == (requires, True)


@pytest.mark.parametrize("used", [False, True])
def test_detach_is_taken_back_where_an_operator_fails(used: bool) -> None:
    def program(x: Tensor, index: Tensor) -> tuple:
        had = x.requires_grad
        y = x * 2 if used else None
        x.detach_()
        try:
            return had, y, x[index]
        except IndexError:
            return had, y, "caught"

    compiled = saker.compile(program)
    for number in (0, 1, 7, 0, 7, 1):
        got = compiled(made(), torch.tensor([number]))
        expected = program(made(), torch.tensor([number]))
        assert got[0] is expected[0] is True
        assert str(got[2]) == str(expected[2])
        assert not used or got[1].requires_grad


def test_zeroed_gradients() -> None:
    """zero_grad(set_to_none=False) detaches gradients that have a history."""
    results = []
    for compiles in (False, True):
        w = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)

        def program(optimizer: Any = optimizer) -> None:
            optimizer.zero_grad(set_to_none=False)

        run = saker.compile(program) if compiles else program
        for _ in range(4):
            (w**3).sum().backward(create_graph=True)
            w.grad = w.grad * 1
            held = w.grad
            run()
            results.append((state(held), held.tolist()))
            w.grad = None
    assert results[:4] == results[4:]


# --- detach_() in captures ---


def test_captured_detach() -> None:
    def program(x: Tensor) -> Tensor:
        y = x * 2
        z = y + 1
        y.detach_()
        y.add_(1)
        return y * x + z

    captured = saker.capture(program, torch.ones(3, requires_grad=True))
    for _ in range(2):
        x = torch.rand(3, requires_grad=True)
        (got,) = torch.autograd.grad(captured(x).sum(), x)
        (expected,) = torch.autograd.grad(program(x).sum(), x)
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
        assert torch.equal(captured(x), program(x))


def test_captures_do_not_detach_arguments() -> None:
    def program(x: Tensor) -> Tensor:
        x.detach_()
        return x * 3

    x = made()
    with pytest.raises(saker.CaptureError, match="detaches an argument in place"):
        saker.capture(program, x)
    assert x.requires_grad
    function = saker.aot_function(program)
    for _ in range(3):
        x = made()
        assert not function(x).requires_grad and not x.requires_grad
