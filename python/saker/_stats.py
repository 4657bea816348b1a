"""Counts of what was compiled, since the start or the last reset."""

from __future__ import annotations

from typing import Any

from saker import _C

_COUNTS = {"graphs": 0, "operators": 0, "fallbacks": 0}


def stats() -> dict[str, Any]:
    """What Saker has done: ``graphs`` compiled, ``operators`` in them, ``fallbacks`` to eager mode.

    Of compiled functions also Python ``frames`` watched, ``guards`` made, ``replays``, ``recompiles``, ``breaks``, and
    ``stops``: how often each reason of ``saker.reasons()`` was told, by name; ``instead``: the same of recordings that
    are replayed, but whose gradients are not compiled. ``functions`` has one dict for each compiled function that was
    called, the last 64 that do not exist any more among them (``exists``): ``name``, ``file`` and ``line``; ``calls``,
    which are ``replays``, ``recordings`` or ``eager_calls``; ``reasons``, why it ran eagerly or its gradients are not
    compiled; ``changed``, what did not hold when it was last recorded again; and ``first_seconds``,
    ``replay_seconds``, ``eager_seconds`` and ``forced_seconds``: the first recorded call, the median of replays, of
    eager calls, and of calls that ``torch.compiler.set_stance("force_eager")`` made eager, as far as they were
    measured, or None.
    """
    counts = _C.frontend_counts()
    counts["functions"] = _C.usage_of_functions()
    for name, number in _COUNTS.items():
        counts[name] += number
    return counts


def reset(counts: bool = False) -> None:
    """Forget what compiled functions have recorded; with ``counts`` also set all counts to zero."""
    _C.forget_all()
    if counts:
        _C.reset_frontend_counts()
        for name in _COUNTS:
            _COUNTS[name] = 0


def count(name: str, by: int = 1) -> None:
    _COUNTS[name] += by
