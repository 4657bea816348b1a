"""Containers of PyTorch's pytrees that the extension does not walk by itself."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

unflatten = pytree.tree_unflatten


def flatten(tree: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """PyTorch's, but a ``torch.Size`` is a leaf: out of parts it would be made again as a tuple."""
    return pytree.tree_flatten(tree, is_leaf=lambda node: isinstance(node, torch.Size))
