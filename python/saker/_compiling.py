"""``torch.compiler.is_compiling()`` as a captured program sees it.

Programs that ask may compute something else when it is true. ``saker.compile`` and ``saker.aot_function`` leave it as
it is, so such programs get eager mode's answer and numbers; where the program then asks for data, it is captured once
more with True (``saker.compile``: by the next call). Inside of ``saker.capture``, which gives a graph or none, it is
true for the capturing thread; optimizers and ``nn.Module.__call__`` still see False there.
"""

from __future__ import annotations

import functools
import sys
import threading
from types import TracebackType

import torch

_SEES_EAGER = ("torch.optim.", "torch.nn.modules.module")

_state = threading.local()


class _Question:
    """Stands in the place of ``torch.compiler.is_compiling`` while some thread captures, and at no other time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._captures = 0
        self._original = torch.compiler.is_compiling

    def enter(self) -> None:
        with self._lock:
            self._captures += 1
            if self._captures == 1:
                self._original = torch.compiler.is_compiling
                torch.compiler.is_compiling = self._answering(self._original)

    def leave(self) -> None:
        with self._lock:
            self._captures -= 1
            if self._captures == 0:
                torch.compiler.is_compiling = self._original

    @staticmethod
    def _answering(original):
        @functools.wraps(original)
        def is_compiling() -> bool:
            if getattr(_state, "depth", 0):
                asking = sys._getframe(1).f_globals.get("__name__", "")
                return not asking.startswith(_SEES_EAGER)
            _state.asked = True
            return original()

        return is_compiling


_question = _Question()


def yes() -> bool:
    """What programs call in place of ``is_compiling`` where ``saker.compile`` tells them so."""
    return True


class compiling:
    """While entered, this thread is compiling."""

    def __enter__(self) -> None:
        _question.enter()
        _state.depth = getattr(_state, "depth", 0) + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _state.depth -= 1
        _question.leave()


class asking:
    """While entered, it is noted whether the program asks; the answer is eager mode's. ``asked`` tells afterwards."""

    asked = False

    def __enter__(self) -> asking:
        _question.enter()
        _state.asked = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.asked = _state.asked
        _question.leave()
