"""What Python sees of an argument besides the tensor: its class, where that is ``nn.Parameter``, and its attributes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

Dress = tuple[bool, dict]


def dress_of(tensor: torch.Tensor) -> Dress | None:
    """Nothing for a plain tensor without attributes."""
    attributes, parameter = tensor.__dict__, type(tensor) is torch.nn.Parameter
    return (parameter, dict(attributes)) if parameter or attributes else None


def put_on(stand_ins: Sequence[torch.Tensor], dresses: Sequence[Dress | None]) -> None:
    """Stand-ins look as the arguments do. Those that are of another class than a plain tensor's look so already."""
    for stand_in, dress in zip(stand_ins, dresses, strict=True):
        if dress is None or type(stand_in) is not torch.Tensor:
            continue
        parameter, attributes = dress
        stand_in.__dict__.update(attributes)
        if parameter:
            stand_in.__class__ = torch.nn.Parameter
