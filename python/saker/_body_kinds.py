"""Which tensors bodies give: their dtypes, devices and sizes, and how errors tell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

Meta = tuple[torch.dtype, torch.device, tuple[int, ...]]

DIFFER = "result {} of {} is {}, and of {} {}; both branches must return tensors of the same dtype, device and sizes"


def meta_of(tensor: torch.Tensor) -> Meta:
    return tensor.dtype, tensor.device, tuple(tensor.shape)


def text_of(meta: Meta) -> str:
    return f"{str(meta[0]).removeprefix('torch.')}{list(meta[2])} on {meta[1]}"


def check_carried(body: Any, given: Sequence[torch.Tensor]) -> None:
    """What a loop carries must stay of one kind."""
    for i, tensor in enumerate(given):
        before = meta_of(tensor)
        if i >= len(body.metas) or body.metas[i] != before:
            after = text_of(body.metas[i]) if i < len(body.metas) else "missing"
            raise body.error(f"is given {text_of(before)} as value {i} that is carried, and what it returns is {after}")
