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


def test_a_gradient_takes_the_place_of_what_was_saved() -> None:
    """Two tensors of that size at one time: what arrives and what was saved, in whose place the gradient goes."""

    def function(x: Tensor) -> Tensor:
        return functional.layer_norm(x * 2, (256,))

    x = torch.randn(512, 256, requires_grad=True)
    native = saker.compile(function, backend="native", dynamic=False)
    given = torch.randn(512, 256)
    right = torch.autograd.grad(function(x), x, given)[0]
    for _ in range(3):
        found = torch.autograd.grad(native(x), x, given)[0]
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)
    out = native(x)
    assert peak(lambda: torch.autograd.grad(out, x, given)) < x.nbytes, "it needs no memory of its own"
    assert torch.equal(given, given.clone())


def test_a_graph_that_is_kept_is_not_overwritten() -> None:
    x = torch.randn(64, 32, requires_grad=True)
    native = saker.compile(lambda x: functional.layer_norm(x * 2, (32,)).tanh(), backend="native", dynamic=False)
    for _ in range(4):
        out = native(x)
        first = torch.autograd.grad(out.sum(), x, retain_graph=True)[0]
        second = torch.autograd.grad(out.sum(), x, retain_graph=True)[0]
        kept = first.clone()
        third = torch.autograd.grad(out.sum(), x)[0]
        assert torch.equal(first, second) and torch.equal(first, third) and torch.equal(first, kept)


def test_memory_that_others_see_is_not_overwritten() -> None:
    """Gradients that arrive: held by the caller, of NumPy's memory, views, expanded; and tensors that hooks keep."""
    native = saker.compile(lambda x: (x * 2).sigmoid() * 3, backend="native", dynamic=False)
    x = torch.randn(64, 32, requires_grad=True)
    for _ in range(3):
        torch.autograd.grad(native(x), x, torch.ones_like(x))
    eager = torch.autograd.grad((x * 2).sigmoid() * 3, x, torch.ones_like(x))[0]
    array = torch.ones(64, 32).numpy()
    base = torch.ones(2, 64, 32)
    held = torch.ones(64, 32)
    spread = torch.ones(())
    for given in (lambda: torch.from_numpy(array), lambda: base[1], lambda: held, lambda: spread.expand(64, 32)):
        torch.testing.assert_close(torch.autograd.grad(native(x), x, given())[0], eager)
    assert (array == 1).all() and (base == 1).all() and (held == 1).all()
    seen: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        out = native(x)
    before = [each.clone() for each in seen]
    torch.testing.assert_close(torch.autograd.grad(out, x, torch.ones_like(x))[0], eager)
    assert all(torch.equal(one, other) for one, other in zip(seen, before, strict=True))


def test_the_peak_is_that_of_what_is_alive() -> None:
    """Values that a run needs for a while do not add to those that it needs later."""
    layers = [[torch.nn.Linear(256, 256), torch.nn.LayerNorm(256), torch.nn.GELU()] for _ in range(5)]
    model = torch.nn.Sequential(*(each for layer in layers for each in layer))
    x = torch.randn(64, 256)

    def held(compiled: object) -> int:
        before = _C.workspace_bytes()
        with torch.no_grad():
            for _ in range(3):
                compiled(x)
            return peak(lambda: compiled(x)) + _C.workspace_bytes() - before

    native = saker.compile(model, backend="native", dynamic=False)
    assert held(native) <= 2 * x.nbytes + 4096
