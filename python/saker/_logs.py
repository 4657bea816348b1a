"""What compiled functions tell on stderr."""

from __future__ import annotations

import os
import warnings

from saker import _C


def set_logs(topics: str = "") -> None:
    """Chooses what compiled functions tell on stderr; the variable ``SAKER_LOGS`` does so at the start.

    ``topics`` is a list with commas of captures, breaks, recompiles, guards, graph, effects, replays, or "all"; an
    empty one switches everything off.
    """
    unknown = _C.set_logs(topics)
    if unknown:
        raise ValueError(f"no such topics of logs: {unknown}; there are {_C.log_topics()}")


def from_environment() -> None:
    try:
        set_logs(os.environ.get("SAKER_LOGS", ""))
    except ValueError as error:
        warnings.warn(f"SAKER_LOGS: {error}", stacklevel=2)
