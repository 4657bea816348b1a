"""``flex_attention`` with a block mask: a ``map`` over blocks of rows, each of which reads the blocks that it sees.

How many these are is data. A ``cond`` chooses between functions of a few widths, whose columns are gathered: blocks that
the mask leaves out are neither read nor computed, and a recording stays right when the mask changes. Backward, the same
functions are run again. A loop over blocks of columns with running sums was not taken: its gradients of keys and values
are added up as a whole in each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from saker._flex_scores import Attention, Triple

_FEWEST_ROWS = 16


def _widths(blocks: int) -> list[int]:
    """Of functions: about one and a half times the last one each."""
    found, width = [0], 1
    while width < blocks:
        found += [width, width * 3 // 2] if width > 1 and width * 3 // 2 < blocks else [width]
        width *= 2
    return [*found, blocks]


def _padded(tensor: torch.Tensor, length: int) -> torch.Tensor:
    """As many rows: the last one is repeated."""
    if tensor.size(2) == length:
        return tensor
    return tensor.index_select(2, torch.arange(length, device=tensor.device).clamp(max=tensor.size(2) - 1))


class Blocks:
    """The blocks of a mask, and how rows are taken."""

    def __init__(self, attention: Attention, scores: int) -> None:
        mask = attention.block_mask
        self.attention = attention
        self.lists = [(mask[2], mask[3]), (mask[4], mask[5])]
        self.high, self.wide = min(int(mask[-3]), int(attention.length)), int(mask[-2])
        self.down, self.across = -(-int(attention.length) // self.high), -(-int(attention.width) // self.wide)
        self.outer = tuple(mask[2].shape[:2])  # batches and heads that have lists of their own
        at_once = (attention.batch // self.outer[0]) * (attention.heads // self.outer[1])
        columns = self.across * self.wide
        if at_once * self.high * columns > scores:
            self.outer, at_once = (attention.batch, attention.heads), 1
        most = max(_FEWEST_ROWS, scores // (at_once * columns))
        self.rows = max(n for n in range(1, self.high + 1) if self.high % n == 0 and n <= most)

    def seen(self) -> tuple[torch.Tensor, torch.Tensor]:
        """For each block of rows: how many blocks of columns it sees, and which, these first."""
        found = None
        for counts, indices in self.lists:
            if counts is None:
                continue
            counts, indices = counts[:, :, : self.down, None], indices[:, :, : self.down].long()
            listed = self.attention.arange(indices.size(-1)) < counts
            places = torch.where(listed, indices, self.across).clamp(0, self.across)
            none = torch.zeros((*places.shape[:-1], self.across + 1), dtype=torch.bool, device=places.device)
            each = none.scatter(-1, places, True)[..., : self.across]
            found = each if found is None else found | each
        counts = found.sum(-1)
        table = found.to(torch.int8).argsort(dim=-1, descending=True, stable=True)
        inside = self.attention.arange(self.across) < counts.unsqueeze(-1)
        return counts, torch.where(inside, table, table[..., :1])

    def spread(self, tensor: torch.Tensor) -> torch.Tensor:
        """[batches, heads, ...] as [batches and heads with lists of their own, their batches, their heads, ...]."""
        batches, heads = self.outer
        return tensor.unflatten(0, (batches, -1)).unflatten(2, (heads, -1)).movedim(2, 1).flatten(0, 1)

    def gathered(self, tensor: torch.Tensor) -> torch.Tensor:
        """The reverse of ``spread``."""
        return tensor.unflatten(0, self.outer).movedim(1, 2).flatten(2, 3).flatten(0, 1)


def is_for(attention: Attention) -> bool:
    """Is there a block mask with more than one block of columns?"""
    mask, query = attention.block_mask, attention.query
    if len(mask) < 9 or not isinstance(mask[2], torch.Tensor) or mask[2].dim() != 3 or min(query.shape) == 0:
        return False
    high, wide = mask[-3], mask[-2]
    if attention.width <= wide or min(high, wide) < _FEWEST_ROWS or mask[2].size(2) * high < attention.length:
        return False
    lists = tuple(mask[2].shape[:2])
    if lists[0] not in (1, attention.batch) or lists[1] not in (1, attention.heads):
        return False
    # Gradients of what functions close over are added up as a whole in each step.
    followed = [b for b in attention.score_buffers if isinstance(b, torch.Tensor) and b.requires_grad]
    return lists == (1, 1) or all(buffer.numel() <= attention.key.numel() for buffer in followed)


def attend(record: Callable, attention: Attention, scores: int) -> Triple:
    """Results, logarithms of sums and largest scores; ``record`` records operators, ``scores`` exist at a time."""
    blocks = Blocks(attention, scores)
    steps = blocks.down * blocks.high // blocks.rows
    numbers = attention.arange(steps * blocks.rows).clamp(max=attention.length - 1).unflatten(0, (steps, -1))
    counts, table = (_repeated(each, blocks.high // blocks.rows) for each in blocks.seen())
    query = _padded(attention.query, steps * blocks.rows).unflatten(2, (steps, -1))
    key, value = (
        _padded(each, blocks.across * blocks.wide).unflatten(2, (blocks.across, -1))
        for each in (attention.key, attention.value)
    )
    batches, heads = attention.arange(attention.batch), attention.arange(attention.heads)

    def over_rows(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, counts: torch.Tensor, table: torch.Tensor, *who: Any
    ) -> Triple:
        def step(rows: torch.Tensor, numbers: torch.Tensor, count: torch.Tensor, table: torch.Tensor) -> Triple:
            return _choose(record, _widths(blocks.across), count, lambda width: at(width, rows, numbers, count, table))

        def at(width: int, rows: torch.Tensor, numbers: torch.Tensor, count: torch.Tensor, table: torch.Tensor) -> Triple:
            if width == 0:
                return attention.blind(rows)
            chosen = table[:width]
            columns = chosen.unsqueeze(-1) * blocks.wide + attention.arange(blocks.wide)
            there = (attention.arange(width) < count).unsqueeze(-1) & (columns < attention.width)
            places = (*who, numbers, columns.flatten().clamp(max=attention.width - 1))
            taken = (each.index_select(2, chosen).flatten(2, 3) for each in (key, value))
            return attention.rows(rows, *taken, places, there.flatten())

        found = record("map_impl", step, [query.movedim(2, 0), numbers, counts, table], ())
        return tuple(each.movedim(0, 2).flatten(2, 3) for each in found)

    if math.prod(blocks.outer) == 1:
        found = over_rows(query, key, value, counts[0, 0], table[0, 0], batches, heads)
    else:
        lists = (each.expand(*blocks.outer, *each.shape[2:]).flatten(0, 1) for each in (counts, table))
        who = (blocks.spread(each) for each in _pairs(batches, heads))
        tensors = [*(blocks.spread(each) for each in (query, key, value)), *lists]
        tensors += [each.select(dim, 0) for each, dim in zip(who, (2, 1), strict=True)]
        found = tuple(blocks.gathered(each) for each in record("map_impl", over_rows, tensors, ()))
    return tuple(each[:, :, : attention.length] for each in found)


def _repeated(tensor: torch.Tensor, times: int) -> torch.Tensor:
    return tensor if times == 1 else tensor.repeat_interleave(times, 2)


def _pairs(batches: torch.Tensor, heads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers of batches and heads for all pairs of them."""
    return batches[:, None].expand(-1, heads.size(0)), heads[None].expand(batches.size(0), -1)


def _choose(record: Callable, widths: Sequence[int], count: torch.Tensor, at: Callable[[int], Triple]) -> Triple:
    """The function of the smallest width that is enough."""
    if len(widths) == 1:
        return at(widths[0])
    middle = len(widths) // 2
    left, right = widths[:middle], widths[middle:]
    return record(
        "cond",
        count <= left[-1],
        lambda: _choose(record, left, count, at),
        lambda: _choose(record, right, count, at),
        (),
    )
