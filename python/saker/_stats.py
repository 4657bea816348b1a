"""Counts of what was compiled, since the start or the last reset."""

from __future__ import annotations

_COUNTS = {"graphs": 0, "operators": 0, "fallbacks": 0}


def stats() -> dict[str, int]:
    """What Saker has done: ``graphs`` compiled, ``operators`` in them, ``fallbacks`` to eager mode."""
    return dict(_COUNTS)


def reset() -> None:
    """Set all counts to zero."""
    for name in _COUNTS:
        _COUNTS[name] = 0


def count(name: str, by: int = 1) -> None:
    _COUNTS[name] += by
