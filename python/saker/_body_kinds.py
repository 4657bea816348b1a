"""Which tensors bodies give: their dtypes, devices and sizes, and how errors tell them."""

from __future__ import annotations

import torch

Meta = tuple[torch.dtype, torch.device, tuple[int, ...]]

DIFFER = "result {} of {} is {}, and of {} {}; both branches must return tensors of the same dtype, device and sizes"


def meta_of(tensor: torch.Tensor) -> Meta:
    return tensor.dtype, tensor.device, tuple(tensor.shape)


def text_of(meta: Meta) -> str:
    return f"{str(meta[0]).removeprefix('torch.')}{list(meta[2])} on {meta[1]}"
