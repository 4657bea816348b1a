"""The mathematics of ``flex_attention`` for some rows and some columns: scores, their changes, their mask, weights."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class _IndexByTensors(TorchFunctionMode):
    """``buffer[head, row]`` reads by tensors, and asks none of them for its number."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__getitem__:
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(i, torch.Tensor) for i in index) and all(
                isinstance(i, (torch.Tensor, int)) and not isinstance(i, bool) for i in index
            ):
                places = [i if isinstance(i, torch.Tensor) else torch.tensor(i) for i in index]
                return torch.ops.aten.index(args[0], places)
        return func(*args, **(kwargs or {}))


def _for_all(function: Callable, first: Sequence[int | None], buffers: int) -> Callable:
    """A function of numbers (batch, head, row, column) for all of these, the last one innermost."""
    for place in (3, 2, 1, 0):
        dims = [None] * 4
        dims[place] = 0
        function = torch.vmap(function, in_dims=(*first, *dims, *[None] * buffers))
    return function


class Attention:
    """What is the same for all rows and columns: one call of the operator."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.query, key, value, score_mod, self.block_mask, self.scale, _options, *buffers = arguments
        self.score_buffers, self.mask_buffers = (*buffers, (), ())[:2]
        self.batch, self.heads, self.length, _ = self.query.shape
        self.width = key.size(2)
        self.key, self.value = (self._for_each_head(tensor) for tensor in (key, value))
        self.precision = torch.float64 if self.query.dtype is torch.float64 else torch.float32
        # None: PyTorch's functions for programs that give none.
        plain = sys.modules.get("torch.nn.attention.flex_attention")
        self.score_mod = self.mask_mod = None
        if score_mod is not getattr(plain, "_identity", None):
            self.score_mod = _for_all(score_mod, (0,), len(self.score_buffers))
        if self.block_mask[-1] is not getattr(plain, "noop_mask", None):
            self.mask_mod = _for_all(self.block_mask[-1], (), len(self.mask_buffers))

    def _for_each_head(self, tensor: torch.Tensor) -> torch.Tensor:
        groups = self.heads // tensor.size(1)
        each = tensor if groups == 1 else tensor.repeat_interleave(groups, 1)
        return each.expand(self.batch, -1, -1, -1)

    def arange(self, size: int) -> torch.Tensor:
        return torch.arange(size, device=self.query.device)

    def rows(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        places: Sequence[torch.Tensor],
        there: torch.Tensor | None = None,
    ) -> Triple:
        """Results, logarithms of sums and largest scores. ``places``: the numbers of batches, heads, rows and columns.

        ``there``: which columns there are at all; None: all.
        """
        # In this order: products that overflow are infinite, as in eager mode, whatever the scale is.
        scores = query.to(self.precision) @ key.to(self.precision).transpose(-2, -1) * self.scale
        with _IndexByTensors():
            seen = there if self.mask_mod is None else self.mask_mod(*places, *self.mask_buffers)
            scores = scores if self.score_mod is None else self.score_mod(scores, *places, *self.score_buffers)
        if there is not None and self.mask_mod is not None:
            seen = seen & there
        # Rows that see nothing, or whose scores are all -inf, have equal weights, and no gradients that are no numbers.
        lowest = torch.finfo(self.precision).min
        scores = scores if seen is None else torch.where(seen, scores, lowest)
        scores = scores.clamp(min=lowest)
        largest, weights = scores.detach().amax(-1, keepdim=True), torch.softmax(scores, -1)
        blind = largest == lowest
        result = torch.where(blind, 0.0, weights.to(query.dtype) @ value.to(query.dtype))
        sums = torch.where(blind, -math.inf, _logarithms(scores, weights, largest))
        largest = torch.where(blind, -math.inf, largest)
        # PyTorch's operators give logarithms of base 2.
        return result, sums.squeeze(-1) / math.log(2), largest.squeeze(-1) / math.log(2)

    def blind(self, query: torch.Tensor) -> Triple:
        """The same for rows that see nothing."""
        nothing = query.new_full(query.shape[:-1], -math.inf, dtype=self.precision)
        return query.new_zeros((*query.shape[:-1], self.value.size(-1))), nothing, nothing.clone()


def _logarithms(scores: torch.Tensor, weights: torch.Tensor, largest: torch.Tensor) -> torch.Tensor:
    """Of sums of exponentials of scores. The largest weight is one divided by the sum; gradients are the weights."""
    if scores.requires_grad:
        return scores.logsumexp(-1, keepdim=True)
    return largest - weights.amax(-1, keepdim=True).log()


def like(result: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """In the order of dimensions that the query has in memory."""
    order = sorted(range(4), key=query.stride, reverse=True)
    return result.permute(order).contiguous().permute([order.index(dim) for dim in range(4)])
