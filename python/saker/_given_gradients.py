"""What ``torch.autograd.grad`` is given for its results, in a recording whose sizes are symbols.

PyTorch compares the sizes of both by a module that loads its own solver of symbolic sizes, and by code of C, which must
not see symbols. What is not plain is left to PyTorch, with its errors.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import torch

# PyTorch's own under another name: what has its name is replaced by `make` where it is called.
_theirs: Any = torch.autograd._make_grads  # type: ignore[attr-defined]
_plain = types.FunctionType(_theirs.__code__.replace(co_name="_make_grads_of_sizes"), _theirs.__globals__)


def _fits(result: Any, gradient: Any) -> bool:
    if not isinstance(result, torch.Tensor) or not isinstance(gradient, torch.Tensor):
        return False
    if result.is_nested or gradient.is_nested or result.dtype.is_complex != gradient.dtype.is_complex:
        return False
    if result.dim() != gradient.dim():
        return False
    return all(result.size(i) == gradient.size(i) for i in range(result.dim()))


def make(outputs: Sequence[Any], grads: Sequence[Any], is_grads_batched: bool) -> tuple[Any, ...]:
    """Stands for ``torch.autograd._make_grads``."""
    if is_grads_batched:
        return _plain(outputs, grads, is_grads_batched)
    made: list[Any] = []
    for result, gradient in zip(outputs, grads, strict=False):
        fits = _fits(result, gradient)
        made.append(gradient if fits else _plain((result,), (gradient,), False)[0])
    return tuple(made)
