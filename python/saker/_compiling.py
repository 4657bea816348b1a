"""``torch.compiler.is_compiling()`` as a captured program sees it.

Libraries ask it to decide whether they may look at data. Inside ``saker.capture`` it is true for the capturing thread
alone; optimizers and ``nn.Module.__call__`` still see False, since they would take paths that eager mode does not.
"""

from __future__ import annotations

import functools
import sys
import threading
from types import TracebackType

import torch

_SEES_EAGER = ("torch.optim.", "torch.nn.modules.module")

_state = threading.local()


@functools.cache
def _install() -> None:
    original = torch.compiler.is_compiling

    @functools.wraps(original)
    def is_compiling() -> bool:
        if getattr(_state, "depth", 0):
            asking = sys._getframe(1).f_globals.get("__name__", "")
            return not asking.startswith(_SEES_EAGER)
        return original()

    torch.compiler.is_compiling = is_compiling


class compiling:
    """While entered, this thread is compiling."""

    def __enter__(self) -> None:
        _install()
        _state.depth = getattr(_state, "depth", 0) + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _state.depth -= 1
