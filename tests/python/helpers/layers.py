"""A layer that models repeat, and the comparison of results and gradients to the last bit."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 16), nn.Linear(16, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def same_bits(found: Sequence[torch.Tensor | None], expected: Sequence[torch.Tensor | None]) -> None:
    """Values and strides; None where the other one is."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert torch.equal(one, other)
            assert one.stride() == other.stride()
