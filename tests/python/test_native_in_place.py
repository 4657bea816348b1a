"""Results of kernels that take the place of operands which end there, and memory that several programs lie in."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.nn import functional

import saker
from generated_code import at_once, needs_code  # noqa: F401 (a fixture of each test)
from saker import _C

Tensor = torch.Tensor
pytestmark = needs_code


def convolved(x: Tensor, weight: Tensor) -> Tensor:
    return functional.relu(functional.conv2d(x, weight) * 2 + 1)


def chain(x: Tensor, y: Tensor) -> Tensor:
    for _ in range(4):
        x = functional.softmax((x @ y).tanh() * 3, -1) - 0.5
    return x


def peak(call: object) -> int:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    now = most = 0
    events = [each for each in profile.profiler.kineto_results.events() if each.name() == "[memory]"]
    for event in sorted(events, key=lambda each: each.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def test_a_result_takes_the_place_of_what_a_library_made() -> None:
    x, weight = torch.randn(2, 8, 64, 64), torch.randn(8, 8, 1, 1)
    native, aten = saker.compile(convolved, backend="native", dynamic=False), saker.compile(convolved, dynamic=False)
    for _ in range(3):
        found, plain = native(x, weight), aten(x, weight)
    torch.testing.assert_close(found, convolved(x, weight))
    assert found.stride() == plain.stride()
    assert found._version == 0
    assert found.untyped_storage().nbytes() == plain.untyped_storage().nbytes()
    assert peak(lambda: native(x, weight)) <= peak(lambda: aten(x, weight))
    kept = found.clone()
    native(x + 1, weight)
    assert torch.equal(found, kept), "a result is the caller's"


@pytest.mark.parametrize("returned", ["before", "view", "both"])
def test_what_is_seen_elsewhere_stays(returned: str) -> None:
    def function(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        made = functional.conv2d(x, weight)
        after = functional.relu(made * 2 + 1)
        if returned == "before":
            return made, after
        if returned == "view":
            return made[0], after
        return made.flatten(1).sum(1), after, (made - 1).exp()

    x, weight = torch.randn(2, 8, 16, 16), torch.randn(8, 8, 1, 1)
    native = saker.compile(function, backend="native", dynamic=False)
    for _ in range(4):
        found, eager = native(x, weight), function(x, weight)
        for mine, right in zip(found, eager, strict=True):
            torch.testing.assert_close(mine, right)


def test_kernels_that_may_raise_leave_operands_alone() -> None:
    def function(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return ((x @ y) + 1).remainder(z) * 2

    x, y = torch.randint(0, 9, (8, 8)), torch.randint(0, 9, (8, 8))
    native = saker.compile(function, backend="native", dynamic=False)
    for _ in range(3):
        assert torch.equal(native(x, y, y + 1), function(x, y, y + 1))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        native(x, y, y * 0)
    assert torch.equal(native(x, y, y + 1), function(x, y, y + 1))


def test_programs_of_one_size_lie_in_one_place() -> None:
    model = torch.nn.Sequential(
        *(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.GELU()) for _ in range(4))
    )
    x = torch.randn(128, 64, requires_grad=True)
    leaves = [x, *model.parameters()]
    eager = torch.autograd.grad(model(x).square().sum(), leaves)
    before, taken = _C.workspace_bytes(), []
    for _ in range(3):
        native = saker.compile(lambda x: model(x), backend="native", dynamic=False)  # each has its own graphs
        for _ in range(4):
            found = torch.autograd.grad(native(x).square().sum(), leaves)
            for mine, right in zip(found, eager, strict=True):
                torch.testing.assert_close(mine, right, rtol=1e-4, atol=1e-4)
        taken.append(_C.workspace_bytes() - before)
    assert taken[1] == taken[0] and taken[2] == taken[0], "forwards and backwards use what others have left"


def test_programs_in_each_other_and_in_threads() -> None:
    """Several that lie in one place are in use at the same time: each has memory of its own."""
    x, y = torch.randn(64, 64), torch.randn(64, 64)
    programs = [saker.compile(chain, backend="native", dynamic=False) for _ in range(3)]
    right = chain(x, y)
    wrong: list[float] = []

    def work(which: int) -> None:
        for i in range(60):
            found = programs[(which + i) % 3](x, y)
            if not torch.allclose(found, right, rtol=1e-4, atol=1e-5):
                wrong.append(float((found - right).abs().max()))

    for program in programs:
        for _ in range(3):
            program(x, y)
    threads = [threading.Thread(target=work, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
