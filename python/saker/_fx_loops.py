"""Loops over graph modules that PyTorch has no operator for: functions that nodes of ``torch.fx`` graphs call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

Values = Sequence[torch.Tensor]


def while_backward(  # noqa: PLR0917 (as PyTorch's operators are called)
    cond_fn: Callable, body_fn: Callable, backward_fn: Callable, carried: Values, flowing: Values, closed: Values
) -> tuple[torch.Tensor, ...]:
    """Goes through the steps of a while loop from the last to the first, which are found by running the loop again.

    ``backward_fn`` takes what flows back, what the step was given, and ``closed``.
    """
    values, steps = tuple(carried), []
    while cond_fn(*values, *closed):
        steps.append(values)
        values = tuple(body_fn(*values, *closed))
    if not steps:
        return tuple(tensor.clone() for tensor in flowing)
    for values in reversed(steps):
        flowing = tuple(backward_fn(*flowing, *values, *closed))
    return tuple(flowing)
