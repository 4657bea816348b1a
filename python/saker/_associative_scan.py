"""``associative_scan`` where sizes are symbols. If the length is one: two loops that go up and down a tree, for all
lengths alike. If only others are: PyTorch's pairs, without its questions about the number of elements.

PyTorch's own form calls the function on slices whose number depends on the length. Here each round works on all rows:
values stay where the scan leaves them in place, and rows that a round does not change are computed from a pair that it
does combine, and dropped. The pairs are PyTorch's, so results are too; rounds are twice the logarithm of the length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.utils import _pytree as pytree

from saker import _control_flow
from saker.errors import BodyError

Tensor = torch.Tensor


def _combined(
    function: Callable, values: Sequence[Tensor], chosen: Tensor, left: Tensor, right: Tensor
) -> list[Tensor]:
    lefts = [value.index_select(0, left) for value in values]
    made = pytree.tree_leaves(function(*lefts, *[value.index_select(0, right) for value in values]))
    rows = []
    for new, old in zip(made, values, strict=True):
        rows.append(torch.where(chosen.view(-1, *[1] * (old.dim() - 1)), new, old))
    return rows


def _loops(function: Callable, values: Sequence[Tensor]) -> list[Tensor]:
    length = values[0].shape[0]
    places = torch.arange(length, device=values[0].device)
    last = places[-1]

    def goes_up(step: Tensor, *_values: Tensor) -> Tensor:
        return step * 2 <= last + 1

    def up(step: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        chosen = (places + 1) % (step * 2) == 0
        right = torch.where(chosen, places, step * 2 - 1)
        return (step * 2, *_combined(function, values, chosen, right - step, right))

    def goes_down(step: Tensor, *_values: Tensor) -> Tensor:
        return step >= 1

    def down(step: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        chosen = ((places + 1) % (step * 2) == step) & (places >= step * 2)
        right = torch.where(chosen, places, step * 3 - 1)
        return (step // 2, *_combined(function, values, chosen, right - step, right))

    one = torch.ones((), dtype=torch.int64, device=places.device)
    step, *values = _control_flow.call("while_loop", goes_up, up, (one, *values))
    first = torch.where(step // 2 * 3 <= last + 1, step // 2, step // 4)  # the first round that has a pair
    return list(_control_flow.call("while_loop", goes_down, down, (first, *values)))[1:]


def _by_pairs(function: Callable, values: Sequence[Tensor]) -> list[Tensor]:
    """Of a length that is a number."""
    length = int(values[0].shape[0])
    if length < 2:
        return list(values)
    pairs = [value[: length // 2 * 2] for value in values]
    made = pytree.tree_leaves(function(*[each[0::2] for each in pairs], *[each[1::2] for each in pairs]))
    odd = _by_pairs(function, made)
    even = [value[:1] for value in values]
    if length > 2:
        inner = [each[: (length - 1) // 2] for each in odd]
        made = pytree.tree_leaves(function(*inner, *[value[2::2] for value in values]))
        even = [torch.cat([one, rest]) for one, rest in zip(even, made, strict=True)]
    rows = []
    for left, right in zip(even, odd, strict=True):
        both = torch.stack([left[: length // 2], right], 1).flatten(0, 1)
        rows.append(torch.cat([both, left[-1:]]) if length % 2 else both)
    return rows


def scan(function: Callable, leaves: Sequence[Tensor]) -> list[Tensor] | None:
    """What PyTorch's ``generic_associative_scan`` gives; None: that is to be called, since the length is a number, or
    loops cannot do it."""
    if not isinstance(leaves[0].shape[0], torch.SymInt):
        sizes = [size for leaf in leaves for size in leaf.shape]
        return _by_pairs(function, leaves) if any(isinstance(size, torch.SymInt) for size in sizes) else None
    if not _may_loop():
        return None
    try:
        return _loops(function, leaves)
    except BodyError:  # what the function gives has another dtype, which no loop carries
        return None


def _may_loop() -> bool:
    """Transforms other than ``vmap`` see the operators of a loop, one step after the other."""
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return all(each.key() == torch._C._functorch.TransformType.Vmap for each in stack)
