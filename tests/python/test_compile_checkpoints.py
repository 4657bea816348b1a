"""torch.utils.checkpoint inside of saker.compile: plain ones and those with a policy, replayed with eager mode's choice
of what is saved and what is computed again; with sizes that change, inside of branches, and what runs eagerly."""

from __future__ import annotations

import contextlib
import functools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import saker
from torch_versions import captures_see_python

aten = torch.ops.aten
PRODUCTS = [aten.mm.default, aten.addmm.default]
W = torch.linspace(-1, 1, 16).view(4, 4).requires_grad_()


def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


def every_second() -> Any:
    """Keeps every second product: the count lives as long as the call."""
    count: dict[Any, int] = defaultdict(int)

    def choose(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        if op == aten.mm.default:
            count[op] += 1
        save = op == aten.mm.default and count[op] % 2 == 1
        return CheckpointPolicy.PREFER_SAVE if save else CheckpointPolicy.MUST_RECOMPUTE

    return create_selective_checkpoint_contexts(choose)


def by_size(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> bool:
    return op is aten.mm.default and args[0].shape[1] == 4 and not ctx.is_recompute


CONTEXTS: dict[str, Any] = {
    "none": None,
    "operators": functools.partial(create_selective_checkpoint_contexts, PRODUCTS),
    "function": functools.partial(create_selective_checkpoint_contexts, policy),
    "lambda": lambda: create_selective_checkpoint_contexts(policy),
    "every second": every_second,
    "sizes, bools": functools.partial(create_selective_checkpoint_contexts, by_size),
    "mutation allowed": functools.partial(create_selective_checkpoint_contexts, PRODUCTS, True),
}
# Saving by operator takes a mode that sees them.
NAMES = [name if name == "none" else pytest.param(name, marks=captures_see_python) for name in CONTEXTS]
# How many products of the function are computed again by a backward.
AGAIN = {"none": 2, "every second": 1}


def block(x: torch.Tensor) -> torch.Tensor:
    return ((x @ W).sin() @ W).exp().cos()


def program(context: Any, function: Callable = block) -> Callable:
    options = {} if context is None else {"context_fn": context}

    def call(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(function, x * 2, use_reentrant=False, **options) + 1

    return call


def outcome(function: Callable, x: torch.Tensor, seed: int = 3) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    x = x.clone().requires_grad_()
    made = function(x)
    gradients = torch.autograd.grad(made.square().sum(), [x, W], allow_unused=True)
    return [made.detach(), *(torch.zeros(()) if each is None else each for each in gradients), torch.get_rng_state()]


def same(compiled: Callable, plain: Callable, rows: tuple[int, ...] = (3, 3, 3)) -> None:
    for number, size in enumerate(rows):
        x = torch.linspace(-1, 1, size * 4).view(size, 4) + number
        torch.testing.assert_close(outcome(compiled, x), outcome(plain, x))


@pytest.mark.parametrize("name", NAMES)
def test_is_replayed(name: str) -> None:
    plain = program(CONTEXTS[name])
    compiled = saker.compile(plain)
    saker.reset(counts=True)
    same(compiled, plain)
    assert saker.stats()["replays"] == 2 and not saker.stats()["stops"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_computed_again_is_eager_modes_choice(name: str) -> None:
    report = saker.explain(saker.compile(program(CONTEXTS[name])))(torch.ones(3, 4, requires_grad=True))
    # Two for the gradient of each product, but for the last one's, which are there in any case.
    assert report.backward_operators["aten::mm"] == 4 + AGAIN.get(name, 0)


@pytest.mark.parametrize("name", NAMES)
def test_sizes_that_change(name: str) -> None:
    plain = program(CONTEXTS[name])
    compiled = saker.compile(plain, dynamic=True)
    saker.reset(counts=True)
    same(compiled, plain, (3, 5, 7, 4))
    assert saker.stats()["recompiles"] == 0 and not saker.stats()["stops"]
    report = saker.explain(saker.compile(plain, dynamic=True))(torch.ones(3, 4, requires_grad=True))
    assert report.backward_operators["aten::mm"] == 4 + AGAIN.get(name, 0)


@pytest.mark.parametrize("name", NAMES)
def test_inside_of_a_branch(name: str) -> None:
    options = {} if CONTEXTS[name] is None else {"context_fn": CONTEXTS[name]}

    def checked(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, x, use_reentrant=False, **options)

    compiled = saker.compile(lambda x: torch.cond(x.sum() > 0, checked, lambda v: v.sin() @ W, (x,)) * 2)
    saker.reset(counts=True)
    same(compiled, lambda x: (checked(x) if x.sum() > 0 else x.sin() @ W) * 2)
    assert saker.stats()["replays"] == 2 and not saker.stats()["stops"]


@pytest.mark.parametrize("dynamic", [None, True])
def test_random_numbers_are_the_same_again(dynamic: bool | None) -> None:
    def drawn(x: torch.Tensor) -> torch.Tensor:
        return F.dropout((x @ W).sin(), 0.4).exp() @ W

    for context in (None, CONTEXTS["function"]):
        plain = program(context, drawn)
        same(saker.compile(plain, dynamic=dynamic), plain, (3, 5, 3, 5))


def test_arguments_by_name_and_several_results() -> None:
    def pair(x: torch.Tensor, *, scale: float, shift: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x @ W).sin() * scale, x.cos() + shift

    def plain(x: torch.Tensor) -> torch.Tensor:
        a, b = checkpoint(pair, x, use_reentrant=False, determinism_check="none", scale=2.0, shift=x[0])
        return a * b

    for dynamic in (None, True):
        saker.reset(counts=True)
        same(saker.compile(plain, dynamic=dynamic), plain)
        assert saker.stats()["replays"] and not saker.stats()["stops"]


@captures_see_python
@pytest.mark.parametrize("inner", ["none", "operators"])
@pytest.mark.parametrize("outer", ["none", "operators", "every second"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_checkpoint_in_a_checkpoint(inner: str, outer: str, dynamic: bool | None) -> None:
    plain = program(CONTEXTS[outer], lambda x: program(CONTEXTS[inner])(x).sin() @ W)
    saker.reset(counts=True)
    same(saker.compile(plain, dynamic=dynamic), plain, (3, 5, 3))
    assert saker.stats()["replays"]


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 8))
            for _ in range(3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + checkpoint(layer, x, use_reentrant=False, context_fn=CONTEXTS["function"])
        return x


@captures_see_python
def test_training() -> None:
    def trained(wrap: Callable) -> list[Any]:
        torch.manual_seed(0)
        module = Layers()
        call, optimizer = wrap(module), torch.optim.SGD(module.parameters(), lr=0.1)
        for step in range(4):
            torch.manual_seed(step)
            optimizer.zero_grad()
            call(torch.randn(5, 8)).square().mean().backward()
            optimizer.step()
        return [*module.parameters(), torch.get_rng_state()]

    saker.reset(counts=True)
    torch.testing.assert_close(trained(saker.compile), trained(lambda module: module))
    assert saker.stats()["replays"] == 3


# --- guards ---


@captures_see_python
def test_what_a_policy_reads_is_guarded() -> None:
    kept = [aten.mm.default]

    def choose(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> bool:
        return op in kept

    plain = program(functools.partial(create_selective_checkpoint_contexts, choose))
    compiled = saker.compile(plain)
    x = torch.ones(3, 4, requires_grad=True)

    def computed_again() -> int:
        return saker.explain(compiled)(x).backward_operators["aten::mm"] - 4

    assert computed_again() == 0
    kept.clear()
    assert computed_again() == 2
    kept.append(aten.sin.default)
    same(compiled, plain)
    kept.append(aten.mm.default)
    assert computed_again() == 0


@captures_see_python
def test_a_list_of_operators_is_guarded() -> None:
    kept = [aten.mm.default]
    plain = program(functools.partial(create_selective_checkpoint_contexts, kept))
    compiled = saker.compile(plain)
    x = torch.ones(3, 4, requires_grad=True)
    assert saker.explain(compiled)(x).backward_operators["aten::mm"] == 4
    kept[0] = aten.sin.default
    assert saker.explain(compiled)(x).backward_operators["aten::mm"] == 6


def written_between(wrap: Callable, function: Callable) -> list[torch.Tensor]:
    weight = torch.linspace(0.1, 1, 4).requires_grad_()
    call = wrap(lambda x: checkpoint(lambda v: function(v, weight), x, use_reentrant=False) * 3)
    found = []
    for step in range(3):
        x = torch.linspace(-1, 1, 4).requires_grad_()
        made = call(x)
        with torch.no_grad():
            weight.add_(0.5 * step)
        found += torch.autograd.grad(made.sum(), [x, weight])
    return found


@pytest.mark.parametrize("function", [lambda v, w: (v + w).sin().exp(), lambda v, w: (v * w).sin().exp()])
def test_a_parameter_that_is_written_before_the_backward(function: Callable) -> None:
    """Eager mode computes again with what it holds then. Here only a part would be computed again: an error."""
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        written_between(saker.compile, function)


# --- what runs eagerly ---


def test_a_policy_that_changes_something_is_asked_in_each_call() -> None:
    def run(wrap: Callable) -> tuple[int, list[torch.Tensor]]:
        asked: list[Any] = []

        def choose(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> bool:
            asked.append(op)
            return op in PRODUCTS

        call = wrap(program(functools.partial(create_selective_checkpoint_contexts, choose)))
        return [outcome(call, torch.ones(3, 4)) for _ in range(3)], len(asked)

    torch.testing.assert_close(run(saker.compile), run(lambda function: function))


def test_a_policy_that_looks_at_data() -> None:
    def choose(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> bool:
        return op is aten.mm.default and bool(args[0].sum() > 0)

    plain = program(functools.partial(create_selective_checkpoint_contexts, choose))
    for dynamic in (None, True):
        same(saker.compile(plain, dynamic=dynamic), plain)


def test_contexts_of_the_programs_own() -> None:
    entered: list[str] = []

    @contextlib.contextmanager
    def told(name: str) -> Any:
        entered.append(name)
        yield

    plain = program(lambda: (told("forward"), told("again")))
    for dynamic in (None, True):
        compiled = saker.compile(plain, dynamic=dynamic)
        entered.clear()
        same(compiled, plain)
        assert entered == ["forward", "again"] * 6


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_policy_that_raises(dynamic: bool | None) -> None:
    limit = [5]

    def choose(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> bool:
        if limit[0] < 3:
            raise ValueError(f"no policy for {op}")
        return op in PRODUCTS

    plain = program(functools.partial(create_selective_checkpoint_contexts, choose))
    compiled = saker.compile(plain, dynamic=dynamic)
    same(compiled, plain)
    limit[0] = 2
    for call in (plain, compiled, compiled):
        with pytest.raises(ValueError, match="no policy for aten"):
            call(torch.ones(3, 4, requires_grad=True))
    limit[0] = 4
    same(compiled, plain)


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_function_that_writes_outside(dynamic: bool | None) -> None:
    def run(wrap: Callable) -> list[Any]:
        total = torch.zeros(4)

        def counted(x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                total.add_(1)
            return (x @ W).sin()

        call = wrap(program(None, counted))
        return [[*outcome(call, torch.ones(3, 4)), total.clone()] for _ in range(3)]

    torch.testing.assert_close(run(functools.partial(saker.compile, dynamic=dynamic)), run(lambda function: function))


@pytest.mark.parametrize("name", ["none", "operators"])
def test_without_gradients(name: str) -> None:
    plain = program(CONTEXTS[name])
    compiled = saker.compile(plain)
    saker.reset(counts=True)
    with torch.no_grad():
        for number in range(3):
            x = torch.ones(3, 4) * number
            assert torch.equal(compiled(x), plain(x))
    assert saker.stats()["replays"] == 2 and not saker.stats()["stops"]
