"""Functions of torch.autograd made for tests, and what can be seen of a call with one, eagerly and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import saker
from differential import same

Tensor = torch.Tensor


def function(forward: Callable, backward: Callable, **more: Any) -> Any:
    names = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    names.update({name: staticmethod(each) for name, each in more.items()})
    return type(torch.autograd.Function)("Made", (torch.autograd.Function,), names)


def weights() -> list[Tensor]:
    torch.manual_seed(7)
    return [torch.randn(4, 4, requires_grad=True), torch.randn(4, requires_grad=True)]


def outcome(call: Callable, seed: int, gradient: Callable | None = None) -> tuple[list[Any], bool]:
    """Results and gradients of a call, and whether its gradients came from a compiled graph."""
    parameters = weights()
    torch.manual_seed(seed)
    x = torch.randn(3, 4, requires_grad=True)
    made = call(x, *parameters)
    results = [each for each in (made if isinstance(made, tuple) else (made,)) if each is not None]
    followed = [each for each in results if each.requires_grad]
    compiled = "CompiledFunction" in type(followed[0].grad_fn).__name__
    if gradient:
        extra = gradient(followed, [x, *parameters])
    else:
        extra = None
        sum((each.sin() * torch.arange(4.0)).sum() for each in followed).backward()
    grads = [each.grad for each in (x, *parameters)]
    return [[each.detach() for each in results], [each.requires_grad for each in results], grads, extra], compiled


def check(call: Callable, opened: bool, gradient: Callable | None = None, calls: int = 6) -> Any:
    compiled = saker.compile(call)
    seen = []
    for step in range(calls):
        expected, _ = outcome(call, step, gradient)
        got, how = outcome(compiled, step, gradient)
        same(got, expected)
        seen.append(how)
    assert seen == [False, False] + [opened] * (calls - 2)
    return compiled
