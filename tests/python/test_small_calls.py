"""Calls that are one small operator take a short way: kernels are entered directly, and autograd follows the operator
itself, as in eager mode. All that can be seen of them is eager mode's."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch.profiler import profile

import saker
from differential import same, visible

OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sin": lambda x: x.sin(),
    "relu": lambda x: x.relu(),
    "a sum": lambda x: x.sum(),
    "a number": lambda x: x + 1,
    "a number first": lambda x: 2 - x,
    "twice the same": lambda x: x * x,
    "softmax": lambda x: torch.softmax(x, -1),
    "transposed": lambda x: x.t(),
    "a row": lambda x: x[0],
    "a new dimension": lambda x: x.unsqueeze(1),
    "detached": lambda x: x.detach(),
    "a copy": lambda x: x.clone(),
    "another type": lambda x: x.to(torch.float64),
    "in place": lambda x: x.mul_(3),
    "in place, alone": lambda x: x.sigmoid_(),
    "zeros": lambda x: x.zero_(),
    "compared": lambda x: x > 0.5,
    "without autograd": lambda x: without_autograd(x),
    "written, something else": lambda x: None if x.add_(1) is x else x,
}


def without_autograd(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return x.cos()


def inputs() -> list[torch.Tensor]:
    return [torch.rand(3, 2), torch.rand(3, 2, dtype=torch.float64), torch.rand(2, 3).t()]


def replays() -> int:
    return saker.stats()["replays"]


def outcome(function: Callable, leaf: torch.Tensor) -> list:
    """One call on a tensor that has a history, and its backward."""
    x = leaf * 1 if leaf.requires_grad else leaf
    result = function(x)
    seen = [result, result is x, x._version, visible(x)]
    if isinstance(result, torch.Tensor):
        seen.append(visible(result))
        if result.requires_grad:
            (result * result).sum().backward()
            seen.append(leaf.grad)
    return seen


@pytest.mark.parametrize("name", OPERATORS)
def test_it_is_eager_mode(name: str) -> None:
    function = OPERATORS[name]
    compiled, before = saker.compile(function), replays()
    for grad in (False, True):
        for example in inputs():  # of one size: sizes that change are symbols, and no small call
            for _ in range(4):
                x = torch.empty_strided(example.size(), example.stride(), dtype=example.dtype).copy_(example)
                mine, theirs = x.clone().requires_grad_(grad), x.clone().requires_grad_(grad)
                same(outcome(compiled, mine), outcome(function, theirs))
    assert replays() - before >= 16


@pytest.mark.parametrize("name", ["sin", "transposed", "a row", "a number"])
def test_modes_around_it(name: str) -> None:
    function = OPERATORS[name]
    compiled = saker.compile(function)
    for _ in range(3):
        for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
            x = torch.rand(3, 2, requires_grad=True)
            with mode():
                mine, theirs = compiled(x), function(x)
            same(mine.detach(), theirs.detach())
            assert visible(mine) == visible(theirs)


def test_second_derivatives() -> None:
    compiled = saker.compile(lambda x: x.sin())
    for _ in range(3):
        x = torch.rand(3, requires_grad=True)
        (first,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        same([first.detach(), second], [x.detach().cos(), -x.detach().sin()])


def test_views_are_views() -> None:
    compiled = saker.compile(lambda x: x.t())
    for _ in range(3):
        leaf = torch.rand(3, 2, requires_grad=True)
        view = compiled(leaf)
        assert view._base is leaf
        with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
            view.add_(1)
        with torch.no_grad():
            view.mul_(2)
        assert view._version == leaf._version == 1


def test_a_closed_over_tensor() -> None:
    weight = torch.rand(3, requires_grad=True)
    compiled, before = saker.compile(lambda x: x * weight), replays()
    for step in range(5):
        with torch.no_grad():
            weight.add_(step)
        weight.grad = None
        compiled(torch.ones(3)).sum().backward()
        same(weight.grad, torch.ones(3))
        assert torch.equal(compiled(torch.ones(3)), weight)
    assert replays() - before == 9


def test_errors_are_eager_modes() -> None:
    compiled = saker.compile(lambda x: x.add_(1))
    for grad in (False, False, True, True, False):
        leaf = torch.rand(3, requires_grad=grad)
        if grad:
            with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
                compiled(leaf)
        else:
            assert compiled(leaf) is leaf


def test_a_profiler_sees_it() -> None:
    compiled = saker.compile(lambda x: x.sin())
    for _ in range(3):
        compiled(torch.rand(3))
    with profile() as seen:
        compiled(torch.rand(3))
    assert "aten::sin" in {event.key for event in seen.key_averages()}


def test_another_kernel_is_used() -> None:
    compiled = saker.compile(lambda x: x.erfinv())
    x = torch.rand(3)
    for _ in range(3):
        same(compiled(x), x.erfinv())
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("erfinv", lambda x: x + 5, "CPU")
        same(compiled(x), x + 5)
        same(compiled(x), x + 5)
    finally:
        library._destroy()
    same(compiled(x), x.erfinv())


def test_threads() -> None:
    compiled, wrong = saker.compile(lambda x: x.sin()), []

    def work(start: int) -> None:
        for step in range(300):
            x = torch.full((3,), float(start + step), requires_grad=step % 5 == 0)
            if not torch.equal(compiled(x), x.sin()):
                wrong.append(step)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_it_is_explained(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.rand(3, requires_grad=True)
    told = saker.explain(lambda x: x.sin())(x)
    assert told.captured and told.followed and not told.backward
    assert "follows the one small operator as in eager mode" in str(told)
    assert "Autograd follows the one small operator" in told.html()
    assert saker.explain(lambda x: x.sin() * 2)(x).backward
    large = torch.rand(100, 100, requires_grad=True)
    assert saker.explain(lambda x: x.sin())(large).backward
    assert capfd.readouterr().err == ""
