"""Forward-mode derivatives (``torch.func.jvp``, ``forward_ad.make_dual``) inside of captures.

Before a tangent is put on a tensor PyTorch asks whether both have as much memory, which stand-ins have not: they have
as much as their sizes and strides say. Where the answer is no, PyTorch copies the tangent. Tangents from outside of the
capture are refused: its graph would not know them.
"""

from __future__ import annotations

import threading

import torch
from torch.autograd import forward_ad

from saker._lines import here
from saker.errors import CaptureError


class _Outside(threading.local):
    has_level = False


_outside = _Outside()


class watched:
    """Around what is captured: notes whether there is a level of forward mode already."""

    def __enter__(self) -> None:
        self._before = _outside.has_level
        _outside.has_level = self._before or forward_ad._current_level >= 0

    def __exit__(self, *_: object) -> None:
        _outside.has_level = self._before


def _has_same_storage_numel(self: torch.Tensor, other: torch.Tensor) -> bool:
    if _outside.has_level:
        message = "a tensor has a tangent from outside of what is captured; open the level of forward mode inside"
        raise CaptureError("Unsupported", message, "", *here())
    return self.shape == other.shape and self.stride() == other.stride()


_library = None  # registered for as long as it lives


def install() -> None:
    global _library  # noqa: PLW0603
    if _library is None:
        _library = torch.library.Library("aten", "IMPL")
        _library.impl("_has_same_storage_numel", _has_same_storage_numel, "Fake")
