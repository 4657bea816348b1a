"""Programs that once left another state behind than eager mode, or went another way: found by an attack."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import saker

Tensor = torch.Tensor

# --- operators that fail in the call that is recorded ---


def inverted(x: Tensor) -> Tensor:
    try:
        return torch.linalg.inv(x)
    except RuntimeError:
        return x * 100


def with_jitter(x: Tensor) -> Tensor:
    for jitter in (0.0, 1e-3, 1e-1):
        try:
            return torch.linalg.cholesky(x + jitter * torch.eye(2))
        except RuntimeError:
            continue
    return x


def indexed(x: Tensor) -> Tensor:
    try:
        return x[x[0].long() + 1] * 2
    except IndexError:
        return x - 1


@pytest.mark.parametrize("backend", ["aten", "eager"])
@pytest.mark.parametrize("order", [(0, 1, 1, 0, 1), (1, 0, 1, 1, 0), (0, 0, 0, 0, 0, 1, 1)])
@pytest.mark.parametrize("program", [inverted, with_jitter, indexed])
def test_what_fails_when_it_is_recorded(program: Callable, order: tuple[int, ...], backend: str) -> None:
    compiled = saker.compile(program, backend=backend)
    for good in order:
        x = torch.eye(2) * 0.5 if good else torch.zeros(2, 2) + 5 * (program is indexed)
        assert torch.equal(compiled(x), program(x))


def test_a_call_behind_a_failed_one_is_recorded() -> None:
    compiled = saker.compile(inverted)
    compiled(torch.zeros(2, 2))
    before = saker.stats()["replays"]
    for _ in range(3):
        compiled(torch.eye(2))
    assert saker.stats()["replays"] - before == 2


# --- classes that the call writes to ---


def counters() -> dict[str, Callable[[], Callable]]:
    class Counter:
        n, rate = 0, 2.0

        @classmethod
        def count(cls, x: Tensor) -> Tensor:
            cls.n += 1
            return x * cls.rate

    def plain() -> Callable:
        class A(Counter):
            pass

        def run(x: Tensor) -> tuple:
            A.n += 1
            return x * A.rate, A.n

        return run

    def by_method() -> Callable:
        class A(Counter):
            pass

        return lambda x: (A.count(x), A.n)

    def of_modules() -> Callable:
        class Net(nn.Module):
            calls = 0
            rate = 3.0

            def forward(self, x: Tensor) -> tuple:
                type(self).calls += 1
                return x * type(self).rate, type(self).calls

        return Net()

    return {"plain": plain, "by a method": by_method, "of a module": of_modules}


@pytest.mark.parametrize("name", counters())
def test_attributes_of_classes_that_are_written(name: str) -> None:
    def observe(call: Callable) -> list:
        return [(result.tolist(), number) for result, number in (call(torch.ones(1)) for _ in range(12))]

    make = counters()[name]
    assert observe(saker.compile(make())) == observe(make())


# --- gradients of operators of the user's ---

FACTOR = [1.0]
CALLS: list[int] = []


@torch.library.custom_op("saker_state::reversed", mutates_args=())
def reversing(x: Tensor) -> Tensor:
    return x.clone()


@torch.library.custom_op("saker_state::doubled", mutates_args=())
def doubled(x: Tensor) -> Tensor:
    return x * 2


@torch.library.custom_op("saker_state::positive", mutates_args=())
def positive(x: Tensor) -> Tensor:
    return x[x > 0].clone()


def _reverse(ctx: Any, g: Tensor) -> Tensor:
    CALLS.append(1)
    return -FACTOR[0] * g


reversing.register_fake(torch.empty_like)
reversing.register_autograd(_reverse)
doubled.register_fake(torch.empty_like)
doubled.register_autograd(lambda ctx, g: g * 3)


def under_no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = doubled(x)
    return y + x


def taught(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = doubled(doubled(x))
    return doubled(x) * y


@pytest.mark.parametrize("backend", ["aten", "eager"])
@pytest.mark.parametrize("program", [lambda x: reversing(x) * 2, under_no_grad, taught])
def test_gradients_of_operators_of_the_user(program: Callable, backend: str) -> None:
    def observe(call: Callable) -> list:
        found = []
        for i in range(4):
            FACTOR[0], CALLS[:] = float(i), []
            x = torch.ones(2, requires_grad=True)
            y = call(x)
            y.sum().backward()
            found.append((y.tolist(), x.grad.tolist(), len(CALLS)))
        return found

    assert observe(saker.compile(program, backend=backend)) == observe(program)


def test_results_of_operators_of_the_user_whose_size_is_data() -> None:
    for program in (lambda x: positive(x) * 2, lambda x: positive(positive(x) + 1).sum()):
        compiled = saker.compile(program)
        for values in ([1.0, -1.0], [1.0, -2.0], [1.0, 1.0], [-1.0, -1.0], [3.0, 1.0]):
            assert torch.equal(compiled(torch.tensor(values)), program(torch.tensor(values)))


# --- arguments that require grad, and overlap or are written ---


def observe_arguments(call: Callable, make: Callable, look: Callable) -> list:
    found = []
    for _ in range(4):
        leaf = torch.arange(1.0, 5.0).view(2, 2).requires_grad_()
        arguments = make(leaf)
        seen: list = []
        for argument in arguments:
            argument.register_hook(lambda g, seen=seen: seen.append(None if g is None else g.tolist()))
        result = call(*arguments)
        found.append((look(result, arguments, leaf), seen, [a._version for a in arguments]))
    return found


def whole_backward(result: Tensor, arguments: tuple, leaf: Tensor) -> Any:
    result.sum().backward()
    return leaf.grad.tolist()


def of_an_argument(result: Tensor, arguments: tuple, leaf: Tensor) -> Any:
    found = torch.autograd.grad(result.sum(), arguments, allow_unused=True)
    return [None if g is None else g.tolist() for g in found]


def one_by_one(result: Tensor, arguments: tuple, leaf: Tensor) -> Any:
    arguments[0].sum().backward(retain_graph=True)
    result.sum().backward()
    return leaf.grad.tolist()


def scaled_unseen(q: Tensor, k: Tensor) -> Tensor:
    with torch.no_grad():
        q.mul_(0.5)
    return q * 3 + k.sum()


def scaled_detached(q: Tensor, k: Tensor) -> Tensor:
    q.detach().mul_(2)
    return q * 3 + k.sum()


def written_behind(q: Tensor, k: Tensor) -> Tensor:
    y = q * 3
    q.mul_(2)
    return y + k.sum()


def written_alone(q: Tensor, k: Tensor) -> Tensor:
    q.mul_(2)
    return k * 2


ARGUMENTS = {
    "transposed": lambda w: (lambda z: (z.t(), z))(w * 1),
    "shifted": lambda w: (lambda z: (z[:1], z[-1:]))(w * 1),
    "overlapping": lambda w: (lambda z: (z.view(-1)[:3], z.view(-1)[1:]))(w * 1),
    "apart": lambda w: (w * 1, w * 2),
    "a view": lambda w: ((w * 1)[0], (w * 2)[1]),
}


@pytest.mark.parametrize("look", [whole_backward, of_an_argument, one_by_one])
@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("program", [lambda q, k: q * k, scaled_unseen, scaled_detached, written_behind, written_alone])
def test_arguments_that_require_grad(program: Callable, arguments: str, look: Callable) -> None:
    make = ARGUMENTS[arguments]
    try:
        want = observe_arguments(program, make, look)
    except RuntimeError:
        pytest.skip("eager mode raises")
    assert observe_arguments(saker.compile(program), make, look) == want


# --- refusals that the program catches ---


def looks_at_data(x: Tensor) -> Tensor:
    try:
        n = x.sum().item()
    except RuntimeError:
        n = -1.0
    return x * n


def looks_and_ignores(x: Tensor) -> Tensor:
    with contextlib.suppress(Exception):
        x = x * float(x.sum())
    return x + 1


@pytest.mark.parametrize("program", [looks_at_data, looks_and_ignores])
def test_refusals_are_not_swallowed(program: Callable) -> None:
    with pytest.raises(saker.CaptureError):
        saker.capture(program, torch.ones(2))(torch.ones(2))
    with pytest.raises(saker.CaptureError):
        saker.aot_function(program)(torch.ones(2))
    compiled = saker.compile(program)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), program(torch.ones(2)))


def test_errors_of_eager_mode_may_be_caught() -> None:
    def program(x: Tensor) -> Tensor:
        try:
            return x + torch.ones(5)
        except RuntimeError:
            return x * 2

    for call in (saker.capture(program, torch.ones(2)), saker.aot_function(program), saker.compile(program)):
        assert torch.equal(call(torch.ones(2)), torch.full((2,), 2.0))


# --- sizes that change ---


class ByView(nn.Module):
    def __init__(self, write: Callable) -> None:
        super().__init__()
        self.register_buffer("b", torch.ones(3))
        self.write = write

    def forward(self, x: Tensor) -> Tensor:
        self.write(self.b)
        return x * 2


WRITES = {
    "view": lambda b: b[0].add_(1),
    "detached": lambda b: b.detach().add_(1),
    "slice": lambda b: b.__setitem__(slice(0, 2), 2.0),
    "plain": lambda b: b.add_(1),
    "twice": lambda b: (b[0].add_(1), b.mul_(1)),
}


@pytest.mark.parametrize("name", WRITES)
def test_versions_of_buffers_that_are_written_by_views(name: str) -> None:
    eager, module = ByView(WRITES[name]), ByView(WRITES[name])
    compiled = saker.compile(module)
    for n in (2, 3, 4, 5, 6):
        eager(torch.ones(n))
        compiled(torch.ones(n))
        assert module.b._version == eager.b._version
        assert torch.equal(module.b, eager.b)


def test_effects_before_an_operator_that_fails() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.rate = 0, 1.0
            self.register_buffer("b", torch.zeros(2, 2))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.rate *= 0.5
            self.b.add_(1)
            return x + torch.linalg.inv(x)

    eager, module = Net(), Net()
    compiled = saker.compile(module)
    for i in range(8):
        for net, call in ((eager, eager), (module, compiled)):
            with contextlib.suppress(RuntimeError):
                call(torch.zeros(2, 2) if i in (4, 6) else torch.eye(2))
            del net
        assert (module.calls, module.rate, module.b._version) == (eager.calls, eager.rate, eager.b._version)
        assert torch.equal(module.b, eager.b)


# --- memory that is read and written by one operator ---


def every_other(x: Tensor) -> Tensor:
    b = x * 1
    b[::2].copy_(b[:5])
    return b * 2


def every_other_added(x: Tensor) -> Tensor:
    b = x * 1
    b[::2] += b[:5]
    return b * 2


def columns(x: Tensor) -> Tensor:
    b = x.view(3, 3) * 1
    b[:, 0].add_(b[:, 1])
    b[1:, 1:].mul_(b[:2, :2].clone())
    return b


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("way", [saker.compile, saker.aot_function])
@pytest.mark.parametrize("program", [every_other, every_other_added, columns])
def test_operands_that_overlap(program: Callable, way: Callable, grad: bool) -> None:
    compiled = way(program)
    for _ in range(3):
        x = torch.arange(9.0).requires_grad_(grad)
        assert torch.equal(compiled(x), program(x))


# --- threads ---


def test_threads_that_write() -> None:
    norm = nn.BatchNorm1d(4)
    compiled = saker.compile(norm)
    compiled(torch.randn(8, 4))

    def work() -> None:
        for _ in range(100):
            compiled(torch.randn(8, 4))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert norm.num_batches_tracked.item() == 301


# --- constants that are found elsewhere ---


def attribute_of(owner: Any) -> tuple[Callable, Callable, Callable]:
    def f(x):
        seen = [len(owner.args), owner.args]
        owner.args = (7,)
        return x, seen

    return f, lambda value: setattr(owner, "args", value), lambda: owner.args


def entry_of(owner: dict) -> tuple[Callable, Callable, Callable]:
    def f(x):
        seen = [len(owner["args"]), (7,)]
        owner["args"] = (7,)
        return x, seen

    return f, lambda value: owner.__setitem__("args", value), lambda: owner["args"]


def entry_beside(owner: dict) -> tuple[Callable, Callable, Callable]:
    def f(x):
        return x, [len(owner["args"]), (7,)]

    constant = next(each for each in f.__code__.co_consts if each == (7,))
    return f, lambda value: owner.__setitem__("args", constant if value == (7,) else value), lambda: owner["args"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: attribute_of(SimpleNamespace(args=(1, 2))),
        lambda: attribute_of(ValueError(1, 2)),
        lambda: entry_of({"args": (1, 2)}),
        lambda: entry_beside({"args": (1, 2)}),
    ],
    ids=["object", "exception", "dict", "beside"],
)
def test_a_constant_is_not_what_was_found(make: Callable) -> None:
    seen = []
    for compiler in (lambda f: f, saker.compile):
        f, put, found = make()
        call, results = compiler(f), []
        for value in ((1, 2), (7,), ("a",), ("b",)):
            put(value)
            results += [(call(torch.ones(1))[1], found()) for _ in range(2)]
        seen.append(results)
    assert seen[0] == seen[1]
