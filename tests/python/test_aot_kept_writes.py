"""``keep_inference_input_mutations``: graphs for inference write to their inputs themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker


def add(x, y):
    x.add_(y)
    return x * 2


def both(x, y):
    x.mul_(2)
    y.add_(x)
    return x - y


def only_write(x, y):
    x.copy_(y + 1)


def gives_the_argument(x, y):
    x.add_(1)
    return x


def gives_the_contents(x, y):
    z = y + 1
    x.copy_(z)
    return z


def view_of_it(x, y):
    x[1:].mul_(3)
    return x[0]


def swap(x, y):
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)


def kept_copy(x, y):
    before = x.clone()
    x.add_(1)
    return before


def by_data(x, y):
    x.data.add_(y)
    return x + 1


def nothing(x, y):
    return x + y


KEPT = [add, both, only_write, gives_the_argument, gives_the_contents, view_of_it, by_data]
PROGRAMS = [*KEPT, swap, kept_copy, nothing]


def outcome(fn: Callable, share: bool) -> Any:
    x = torch.arange(4.0)
    y = x[:] if share else torch.arange(4.0) + 2
    result = fn(x, y)
    told = None if result is None else (result.tolist(), result is x, result._is_view(), result._version)
    return told, x.tolist(), y.tolist(), x._version, y._version


@pytest.mark.parametrize("share", [False, True], ids=["apart", "shared"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_results_and_writes(fn: Callable, share: bool) -> None:
    graphs = []

    def compiler(module: Any, examples: Any) -> Any:
        graphs.append(module)
        return module

    compiled = saker.aot_function(fn, inference_compiler=compiler, keep_inference_input_mutations=True)
    with torch.no_grad():
        for _ in range(3):
            assert outcome(compiled, share) == outcome(fn, share)
    copies = [node for g in graphs for node in g.graph.nodes if node.target is torch.ops.aten.copy_.default]
    if not share and fn in (*KEPT, nothing):
        assert bool(copies) == (fn in KEPT)


def test_written_contents_are_no_results_of_the_graph() -> None:
    graphs = []

    def compiler(module: Any, examples: Any) -> Any:
        graphs.append(module)
        return module

    saker.aot_function(add, inference_compiler=compiler, keep_inference_input_mutations=True)(
        torch.ones(2), torch.ones(2)
    )
    saker.aot_function(add, inference_compiler=compiler)(torch.ones(2), torch.ones(2))
    kept, moved = (next(iter(reversed(module.graph.nodes))).args[0] for module in graphs)
    assert (len(kept), len(moved)) == (1, 2)


def test_modules() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x):
            self.steps.add_(1)
            return x * self.steps

    module = Counter()
    compiled = saker.aot_module(
        module, fw_compiler=lambda module, examples: module, keep_inference_input_mutations=True
    )
    for step in range(1, 4):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), float(step)))
    assert module.steps == 3


def test_gradients_are_as_ever() -> None:
    compiled = saker.aot_function(add, fw_compiler=lambda module, examples: module, keep_inference_input_mutations=True)
    y = torch.ones(4, requires_grad=True)
    x = torch.ones(4)
    compiled(x, y).sum().backward()
    assert torch.equal(y.grad, torch.full((4,), 2.0))
    assert torch.equal(x.detach(), torch.full((4,), 2.0))


def test_a_compiler_that_gives_too_little_is_told() -> None:
    short = lambda module, examples: lambda *inputs: list(module(*inputs))[:-1]  # noqa: E731
    compiled = saker.aot_function(add, inference_compiler=short, keep_inference_input_mutations=True)
    with pytest.raises(saker.BackendError, match="gave 0 results"):
        compiled(torch.ones(2), torch.ones(2))
