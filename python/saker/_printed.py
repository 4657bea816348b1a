"""``torch.ops.higher_order.print`` in what ``saker.capture`` records: an operator that prints, once in each run."""

from __future__ import annotations

import builtins
import functools
import json
from collections.abc import Sequence
from typing import Any

import torch

_PLAIN = (str, int, float, bool, type(None))


@functools.cache
def _operator() -> Any:
    library = torch.library.Library("saker", "FRAGMENT")
    library.define("print(str text, str given, Tensor[] tensors, SymInt[] sizes) -> ()")
    library.impl("print", _show, "CompositeExplicitAutograd")
    library.impl("print", lambda *_: None, "Meta")
    _operator.library = library  # what it defines goes with it
    return torch.ops.saker.print.default


def _show(text: str, given: str, tensors: Sequence[torch.Tensor], sizes: Sequence[int]) -> None:
    found = {"tensor": tensors, "size": sizes}

    def value(written: list[Any]) -> Any:
        kind, what = written
        return found[kind][what] if kind in found else what

    args, kwargs = json.loads(given)
    builtins.print(text.format(*map(value, args), **{name: value(each) for name, each in kwargs.items()}))


def record(text: Any, *args: Any, **kwargs: Any) -> bool:
    """False: what it is given is in no graph, or PyTorch would print it in another way or refuse it."""
    if not isinstance(text, str) or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    tensors: list[torch.Tensor] = []
    sizes: list[Any] = []

    def written(value: Any) -> list[Any] | None:
        if type(value) in _PLAIN:
            return ["plain", value]
        if isinstance(value, torch.SymInt):
            sizes.append(value)
            return ["size", len(sizes) - 1]
        if type(value) in (torch.Tensor, torch.nn.Parameter) and not value.requires_grad:
            tensors.append(value)
            return ["tensor", len(tensors) - 1]
        return None

    given = [written(each) for each in args], {name: written(each) for name, each in kwargs.items()}
    if None in given[0] or None in given[1].values():
        return False
    _operator()(text, json.dumps(given), tensors, sizes)
    return True
