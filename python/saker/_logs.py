"""What compiled functions tell on stderr."""

from __future__ import annotations

import os
import warnings

from saker import _C


def set_logs(topics: str = "") -> None:
    """Chooses what compiled functions tell on stderr; the variable ``SAKER_LOGS`` does so at the start.

    ``topics`` is a list with commas of captures, breaks, recompiles, guards, graph, effects, replays, stages, or
    "all"; an empty one switches everything off.
    """
    unknown = _C.set_logs(topics)
    if unknown:
        raise ValueError(f"no such topics of logs: {unknown}; there are {_C.log_topics()}")


def set_stages(words: str = "") -> None:
    """Settings of the stages of compiling, to find a fault; the variable ``SAKER_STAGES`` makes them at the start.

    ``words`` is a list with commas: ``verify`` checks each graph behind each stage, ``-simplify`` and
    ``-differentiate`` leave a stage out, ``dump=folder`` writes the graph behind each stage to a file of an existing
    folder, which ``saker-opt`` reads. An empty one takes all settings back.
    """
    unknown = _C.set_stages(words)
    if unknown:
        raise ValueError(
            f"no such settings of stages: {unknown}; there are verify, -simplify, -differentiate, dump=folder"
        )


def from_environment() -> None:
    try:
        set_logs(os.environ.get("SAKER_LOGS", ""))
    except ValueError as error:
        warnings.warn(f"SAKER_LOGS: {error}", stacklevel=2)
