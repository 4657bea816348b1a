"""Loops over graph modules that PyTorch has no operator for: functions that nodes of ``torch.fx`` graphs call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import torch

from saker._fakes import mode_of

Values = Sequence[torch.Tensor]


def while_backward(  # noqa: PLR0917 (as PyTorch's operators are called)
    cond_fn: Callable, body_fn: Callable, backward_fn: Callable, carried: Values, flowing: Values, closed: Values
) -> tuple[torch.Tensor, ...]:
    """Goes through the steps of a while loop from the last to the first, which are found by running the loop again.

    ``backward_fn`` takes what ``body_fn`` gave behind what is carried, what flows back, what the step was given, and
    ``closed``.
    """
    if mode_of([*carried, *flowing, *closed]) is not None and not _is_traced():
        return tuple(torch.empty_like(tensor) for tensor in flowing)  # how often it runs is not known
    values, steps = tuple(carried), []
    while cond_fn(*values, *closed):
        given, results = values, tuple(body_fn(*values, *closed))
        values, kept = results[: len(carried)], results[len(carried) :]
        steps.append((kept, given))
    if not steps:
        return tuple(tensor.clone() for tensor in flowing)
    for kept, given in reversed(steps):
        flowing = tuple(backward_fn(*kept, *flowing, *given, *closed))
    return tuple(flowing)


def _is_traced() -> bool:
    """Does PyTorch write down what is called? An error that says that there is no data is right then."""
    module = sys.modules.get("torch.fx.experimental.proxy_tensor")
    return module is not None and module.get_proxy_mode() is not None
