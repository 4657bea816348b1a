"""``flex_attention`` with a block mask: a ``map`` over blocks of rows, each of which reads the blocks that it sees.

How many these are is data. Nodes of ``cond`` choose between functions of a few widths, which gather their columns:
blocks that the mask leaves out are neither read nor computed, and a recording stays right when the mask changes. The
backward is the one of these nodes. A loop over blocks of columns with running sums was not taken: gradients of keys and
values would be added up as a whole in each of its steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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
        self.steps = self.down * self.high // self.rows

    def sums(self, others: int) -> float:
        """How many numbers may be added up in a step backward; ``others``: the steps of all columns together."""
        lists = math.prod(self.outer)
        if lists * self.steps <= others:
            return math.inf
        return 2 * (self.attention.key.numel() + self.attention.value.numel()) / lists

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
    batches, heads = mask[2].shape[:2]
    return batches in (1, attention.batch) and heads in (1, attention.heads)


class _Columns:
    """Keys and values in blocks, [batches, heads, blocks, columns, numbers], and which batches and heads these are."""

    def __init__(self, blocks: Blocks, key: torch.Tensor, value: torch.Tensor, *who: torch.Tensor) -> None:
        self.blocks, self.key, self.value, self.who = blocks, key, value, who

    def seen_by(self, rows: torch.Tensor, numbers: torch.Tensor, count: torch.Tensor, table: torch.Tensor) -> Triple:
        """What attention gives for ``rows``: they see ``count`` of the blocks in ``table``."""
        attention, wide = self.blocks.attention, self.blocks.wide
        if table.size(0) == 0:
            return attention.blind(rows)
        columns = table.unsqueeze(-1) * wide + attention.arange(wide)
        there = (attention.arange(table.size(0)) < count).unsqueeze(-1) & (columns < attention.width)
        places = (*self.who, numbers, columns.flatten().clamp(max=attention.width - 1))
        taken = (each.index_select(2, table).flatten(2, 3) for each in (self.key, self.value))
        return attention.rows(rows, *taken, places, there.flatten())


def attend(record: Callable, attention: Attention, scores: int, others: int) -> Triple:
    """Results, logarithms of sums and largest scores; ``record`` records operators, or raises where that is slower than
    the ``others`` steps that all columns take. ``scores`` exist at a time.
    """
    blocks = Blocks(attention, scores)
    numbers = attention.arange(blocks.steps * blocks.rows).clamp(max=attention.length - 1)
    numbers = numbers.unflatten(0, (blocks.steps, -1))
    counts, table = (_repeated(each, blocks.high // blocks.rows) for each in blocks.seen())
    query = _padded(attention.query, blocks.steps * blocks.rows).unflatten(2, (blocks.steps, -1))
    key, value = (
        _padded(each, blocks.across * blocks.wide).unflatten(2, (blocks.across, -1))
        for each in (attention.key, attention.value)
    )
    batches, heads = attention.arange(attention.batch), attention.arange(attention.heads)

    def over_rows(query: torch.Tensor, counts: torch.Tensor, table: torch.Tensor, *those: torch.Tensor) -> Triple:
        columns = _Columns(blocks, *those)

        def step(rows: torch.Tensor, numbers: torch.Tensor, count: torch.Tensor, table: torch.Tensor) -> Triple:
            return _choose(
                record,
                _widths(blocks.across),
                count,
                lambda width: columns.seen_by(rows, numbers, count, table[:width]),
            )

        found = record("map_impl", step, [query.movedim(2, 0), numbers, counts, table], (), sums=blocks.sums(others))
        return tuple(each.movedim(0, 2).flatten(2, 3) for each in found)

    if math.prod(blocks.outer) == 1:
        found = over_rows(query, counts[0, 0], table[0, 0], key, value, batches, heads)
    else:
        counts, table = (each.expand(*blocks.outer, *each.shape[2:]).flatten(0, 1) for each in (counts, table))
        batches = blocks.spread(batches[:, None].expand(-1, attention.heads)).select(2, 0)
        heads = blocks.spread(heads.expand(attention.batch, -1)).select(1, 0)
        query, key, value = (blocks.spread(each) for each in (query, key, value))
        found = record("map_impl", over_rows, [query, counts, table, key, value, batches, heads], ())
        found = tuple(blocks.gathered(each) for each in found)
    return tuple(each[:, :, : attention.length] for each in found)


def _repeated(tensor: torch.Tensor, times: int) -> torch.Tensor:
    return tensor if times == 1 else tensor.repeat_interleave(times, 2)


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
