"""Structures of values, and what changes in them from call to call: tensors, and numbers that depend on sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

# Numbers that may change, while capturing.
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def flatten(tree: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """PyTorch's, but a ``torch.Size`` is a leaf: out of parts it would be made again as a tuple."""
    return pytree.tree_flatten(tree, is_leaf=lambda node: isinstance(node, torch.Size))


class Leaves:
    """Where tensors and numbers that may change stand among leaves; what else is there is kept."""

    def __init__(self, leaves: list[Any]) -> None:
        self.tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.numbers = [i for i, leaf in enumerate(leaves) if isinstance(leaf, _NUMBERS)]
        # Sizes with such numbers: their other parts.
        self.sizes = {i: _without_numbers(leaf) for i, leaf in enumerate(leaves) if _changes(leaf)}
        changing = {*self.tensors, *self.numbers, *self.sizes}
        self.constants = {i: leaf for i, leaf in enumerate(leaves) if i not in changing}
        self._kept = [self.constants.get(i) for i in range(len(leaves))]

    def numbers_of(self, leaves: list[Any]) -> list[Any]:
        found = [leaves[i] for i in self.numbers]
        return found + [part for i in self.sizes for part in leaves[i] if isinstance(part, _NUMBERS)]

    def filled(self, tensors: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """The leaves, with these tensors and numbers."""
        leaves = list(self._kept)
        given = iter(numbers)
        for i, tensor in zip(self.tensors, tensors, strict=True):
            leaves[i] = tensor
        for i in self.numbers:
            leaves[i] = next(given)
        for i, parts in self.sizes.items():
            leaves[i] = torch.Size(next(given) if part is None else part for part in parts)
        return leaves


def _changes(leaf: Any) -> bool:
    return isinstance(leaf, torch.Size) and any(isinstance(part, _NUMBERS) for part in leaf)


def _without_numbers(size: torch.Size) -> list[int | None]:
    return [None if isinstance(part, _NUMBERS) else part for part in size]
