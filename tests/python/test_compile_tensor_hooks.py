"""Hooks on tensors in compiled code: made of values of the call, several on one tensor, removed through their handles,
and handles that leave the call. What the caller can see of them is eager mode's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.hooks import RemovableHandle

import saker
from differential import same

Tensor = torch.Tensor
LOG: list[Any] = []
BACKENDS = ["aten", "eager", "aot_eager", lambda gm, examples: gm.forward]
backends = pytest.mark.parametrize("backend", BACKENDS, ids=["aten", "eager", "aot_eager", "user"])


def note(name: str, gradient: Tensor) -> None:
    LOG.append((name, gradient.detach().clone()))


def doubles(gradient: Tensor) -> Tensor:
    note("doubles", gradient)
    return gradient * 2


def adds(gradient: Tensor, *, amount: Any = 0) -> Tensor:
    note("adds", gradient)
    return gradient + amount


def scales(gradient: Tensor, *, box: Box) -> Tensor:
    note("scales", gradient)
    return gradient * box.value


class Box:
    def __init__(self, value: Any) -> None:
        self.value = value
        self.count = 0
        self.handle: Any = None

    def hook(self, gradient: Tensor) -> Tensor:
        self.count += 1
        note(f"box {self.count}", gradient)
        return gradient * self.value


# --- hooks that are made of values of the call ---


def of_an_intermediate(x: Tensor, w: Tensor, box: Box) -> Any:
    y = (x * w).sin()
    y.register_hook(lambda g: g * y.detach())
    return (y * 2).sum()


def of_another_intermediate(x: Tensor, w: Tensor, box: Box) -> Any:
    y = (x * w).sin()
    z = y.exp()
    y.register_hook(lambda g, z=z: g + z)
    return (y * z).sum()


def of_what_comes_later(x: Tensor, w: Tensor, box: Box) -> Any:
    y, factor = (x * w).sin(), 1
    y.register_hook(lambda g: g * factor)
    factor = y.detach() + 1
    return (y * 2).sum()


def of_a_counter(x: Tensor, w: Tensor, box: Box) -> Any:
    count = 0

    def hook(g: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return g * count

    y = (x * w).sin()
    y.register_hook(hook)
    y.register_hook(hook)
    return (y * 2).sum()


def of_a_partial(x: Tensor, w: Tensor, box: Box) -> Any:
    y = (x * w).sin()
    y.register_hook(functools.partial(adds, amount=3))
    y.register_hook(functools.partial(adds, amount=y.detach()))
    return (y * 2).sum()


def of_an_argument(x: Tensor, w: Tensor, box: Box) -> Any:
    y = (x * w).sin()
    y.register_hook(lambda g: g * box.value)
    y.register_hook(functools.partial(scales, box=box))
    return (y * 2).sum()


def of_a_method(x: Tensor, w: Tensor, box: Box) -> Any:
    y = (x * w).sin()
    y.register_hook(box.hook)
    own = Box(3)
    y.register_hook(own.hook)
    y.register_hook(own.hook)
    return (y * 2).sum()


def before_a_write(x: Tensor, w: Tensor, box: Box) -> Any:
    y = (x * w).sin()
    y.register_hook(lambda g: g * y.detach().sum())
    y.mul_(2)
    y.register_hook(hook=lambda g: (note("after", g), g + 1)[1])
    return (y * 2).sum()


def on_an_argument(x: Tensor, w: Tensor, box: Box) -> Any:
    y = (x * w).sin()
    w.register_hook(lambda g: g + y.detach())
    w.register_hook(doubles)
    w.register_hook(functools.partial(adds, amount=1))
    return (y * 2).sum()


def after_accumulation(x: Tensor, w: Tensor, box: Box) -> Any:
    y = x * w
    w.register_post_accumulate_grad_hook(lambda p: (note("after", p.grad), p.grad.add_(y.detach()))[0])
    return y.sum()


def twice_the_same_function(x: Tensor, w: Tensor, box: Box) -> Any:
    def hook(g: Tensor) -> Tensor:
        note("twice", g)
        return g * 2

    y = x * w
    z = y.sin()
    y.register_hook(hook)
    z.register_hook(hook)
    return z.sum()


# --- handles ---


def removed(x: Tensor, w: Tensor, box: Box) -> Any:
    y = (x * w).sin()
    handle = y.register_hook(doubles)
    other = w.register_hook(lambda g: g + y.detach())
    handle.remove()
    other.remove()
    handle.remove()
    return (y * 2).sum()


def removed_in_the_middle(x: Tensor, w: Tensor, box: Box) -> Any:
    y = (x * w).sin()
    first = y.register_hook(doubles)
    y.register_hook(functools.partial(adds, amount=1))
    first.remove()
    y.register_hook(doubles)
    return (y * 2).sum()


def removed_by_with(x: Tensor, w: Tensor, box: Box) -> Any:
    y = (x * w).sin()
    with y.register_hook(doubles) as handle:
        z = y * 3
    assert isinstance(handle, RemovableHandle)
    return z.sum()


def returned(x: Tensor, w: Tensor, box: Box) -> Any:
    y = (x * w).sin()
    handle = y.register_hook(doubles)
    return (y * 2).sum(), handle, handle


def returned_in_a_list(x: Tensor, w: Tensor, box: Box) -> Any:
    y = (x * w).sin()
    hooks = [doubles, lambda g: g + y.detach(), functools.partial(adds, amount=4)]
    return (y * 2).sum(), [w.register_hook(hook) for hook in hooks]


def stored(x: Tensor, w: Tensor, box: Box) -> Any:
    box.handle = w.register_hook(lambda g: g * box.value)
    return (x * w).sum(), box.handle


def returned_after_removal(x: Tensor, w: Tensor, box: Box) -> Any:
    handle = w.register_hook(doubles)
    handle.remove()
    return (x * w).sum(), handle


MADE = [
    *[of_an_intermediate, of_another_intermediate, of_what_comes_later, of_a_counter, of_a_partial, of_an_argument],
    *[of_a_method, before_a_write, on_an_argument, after_accumulation, twice_the_same_function],
]
HANDLES = [
    *[removed, removed_in_the_middle, removed_by_with, returned, returned_in_a_list, stored, returned_after_removal]
]


def outcome(call: Callable, step: int) -> Any:
    """Everything that a caller sees: the result, what hooks were given, gradients with and without the handles."""
    torch.manual_seed(step)
    x, w, box = torch.randn(3), torch.randn(3, requires_grad=True), Box(step + 2)
    LOG.clear()
    result = call(x, w, box)
    loss, *rest = result if isinstance(result, tuple) else (result,)
    assert box.handle is None or box.handle is rest[0]
    handles = rest[0] if rest and isinstance(rest[0], list) else rest
    shown = [handle is handles[0] for handle in handles], [type(handle) for handle in handles]
    on_w = [len(w._backward_hooks or ()), len(w._post_accumulate_grad_hooks or ())]
    names = [getattr(hook, "__name__", type(hook).__name__) for hook in (w._backward_hooks or {}).values()]
    loss.backward(retain_graph=True)
    first, w.grad = w.grad, None
    for handle in handles:
        handle.remove()
    loss.backward()
    return loss.detach(), first, w.grad, list(LOG), box.count, shown, on_w, names


@backends
@pytest.mark.parametrize("function", MADE + HANDLES)
def test_hooks_and_handles(function: Callable, backend: Any) -> None:
    compiled = saker.compile(function, backend=backend, fullgraph=True)
    before = saker.stats()["replays"]
    for step in range(4):
        same(outcome(compiled, step), outcome(function, step))
    assert saker.stats()["replays"] - before >= 2


def test_hooks_add_up_on_one_tensor() -> None:
    function = on_an_argument
    compiled = saker.compile(function, fullgraph=True)
    seen = []
    for call in (function, compiled):
        x, w = torch.ones(3), torch.ones(3, requires_grad=True)
        LOG.clear()
        for _ in range(3):
            call(x, w, Box(1)).backward()
        seen.append((w.grad, list(LOG), len(w._backward_hooks)))
    same(seen[1], seen[0])
    assert len(seen[0][1]) == 2 * (1 + 2 + 3)


def test_a_hook_that_raises() -> None:
    def function(x: Tensor, why: str) -> Tensor:
        y = x.sin()

        def hook(g: Tensor) -> Tensor:
            raise ValueError(why, tuple(y.shape))

        y.register_hook(hook)
        return y.sum()

    compiled = saker.compile(function, fullgraph=True)
    for why in ("a", "a", "a"):
        seen = []
        for call in (function, compiled):
            x = torch.ones(3, requires_grad=True)
            with pytest.raises(ValueError) as error:
                call(x, why).backward()
            seen.append((error.value.args, x.grad))
        assert seen[0] == seen[1]


NAME = "id"


@pytest.mark.parametrize("read", [lambda h: h.id, lambda h: getattr(h, NAME), lambda h: vars(h)[NAME], repr])
def test_what_tells_one_handle_from_another_is_not_recorded(read: Callable) -> None:
    def function(x: Tensor) -> Any:
        return x * 2, read(x.register_hook(doubles))

    compiled = saker.compile(function)
    seen = [compiled(torch.ones(2, requires_grad=True))[1] for _ in range(3)]
    assert len(set(seen)) == 3 or read is repr


def test_attributes_of_a_handle() -> None:
    def function(x: Tensor) -> Any:
        handle = x.register_hook(doubles)
        handle.mine = 3
        return x * 2, handle

    compiled = saker.compile(function)
    for _ in range(3):
        assert compiled(torch.ones(2, requires_grad=True))[1].mine == 3


# --- hooks and gradients that the call takes itself ---


def gradient_inside(x: Tensor, w: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad((x * w).sin().sum(), x)
    return gradient * 3


def gradient_past_a_hook(x: Tensor, w: Tensor) -> Tensor:
    y = (x * w).sin()
    y.register_hook(lambda g: g * y.detach())
    (gradient,) = torch.autograd.grad(y.sum(), x)
    return gradient * 3


def gradient_of_a_hooked_argument(x: Tensor, w: Tensor) -> Tensor:
    x.register_hook(doubles)
    (gradient,) = torch.autograd.grad((x * w).sum(), x)
    return gradient * 3


@pytest.mark.parametrize("hooked", [{2}, {0}, {0, 1, 2, 3}, {1, 2}, set()])
@pytest.mark.parametrize("function", [gradient_inside, gradient_past_a_hook, gradient_of_a_hooked_argument])
def test_hooks_on_arguments_and_gradients_inside(function: Callable, hooked: set[int]) -> None:
    compiled = saker.compile(function)
    before = saker.stats()["replays"]
    for i in range(4):
        seen = []
        for call in (function, compiled):
            x, w = torch.full((3,), float(i), requires_grad=True), torch.ones(3)
            if i in hooked:
                x.register_hook(lambda g: (LOG.append("ran"), g * 5)[1])
            LOG.clear()
            seen.append((call(x, w), len(LOG)))
        same(seen[1], seen[0])
    if not hooked and function is not gradient_of_a_hooked_argument:
        assert saker.stats()["replays"] - before == 3


# --- an operator that fails behind a hook ---


def fails_behind(x: Tensor, w: Tensor, index: Tensor) -> Tensor:
    y = x * w
    y.register_hook(lambda g: g * y.detach())
    return y[index].sum()


def fails_behind_a_hook_on_an_argument(x: Tensor, w: Tensor, index: Tensor) -> Tensor:
    factor = 3
    w.register_hook(lambda g: g * factor)
    return (x * w)[index].sum()


def fails_behind_a_hook_of_a_value(x: Tensor, w: Tensor, index: Tensor) -> Tensor:
    y = x * w
    w.register_hook(lambda g: g * y.detach())
    return y[index].sum()


@pytest.mark.parametrize("function", [fails_behind, fails_behind_a_hook_on_an_argument, fails_behind_a_hook_of_a_value])
def test_an_operator_fails_behind_a_hook(function: Callable) -> None:
    compiled = saker.compile(function)
    before = saker.stats()["replays"]
    for number in (0, 1, 2, 9, 1):
        seen = []
        for call in (function, compiled):
            x, w = torch.arange(3.0), torch.ones(3, requires_grad=True)
            try:
                call(x, w, torch.tensor([number])).backward()
            except IndexError as error:
                (w * 2).sum().backward()
                seen.append(str(error).splitlines()[0])
            seen.append((w.grad, len(w._backward_hooks or ())))
        half = len(seen) // 2
        same(seen[half:], seen[:half])
    if function is not fails_behind_a_hook_of_a_value:
        assert saker.stats()["replays"] - before >= 2


def _traced_by_torch(module: torch.fx.GraphModule, examples: list[Tensor]) -> Callable:
    """A back end that hands the graph to PyTorch's own ahead-of-time autograd, which runs it on fake tensors."""
    from functorch.compile import nop
    from torch._functorch.aot_autograd import aot_module_simplified

    return aot_module_simplified(module, examples, fw_compiler=nop)


def test_hooks_on_arguments_are_no_part_of_graphs():
    """They are set on the caller's tensors, whatever a back end runs the graph on."""

    def grow(x: Tensor) -> None:
        LOG.append(("grown", x.grad.clone()))
        x.grad.mul_(5)

    def fn(x: Tensor, y: Tensor) -> Tensor:
        x.register_post_accumulate_grad_hook(grow)
        y.register_hook(doubles)
        return (x * y).sin()

    fast = saker.compile(fn, backend=_traced_by_torch)
    before = saker.stats()["replays"]
    for i in range(3):
        found = []
        for run in (fast, fn):
            LOG.clear()
            x, y = torch.arange(3.0).requires_grad_(), torch.full((3,), 2.0 + i).requires_grad_()
            run(x, y).sum().backward()
            found.append((list(LOG), x.grad, y.grad))
        same(*found)
    assert saker.stats()["replays"] - before == 2
