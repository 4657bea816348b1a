"""What compiled functions tell on stderr.

Notices, which every user gets, go through the logger "saker" of Python's ``logging``. Not through ``warnings``: a
program that turns warnings into errors would raise where it did not before, and one that collects warnings would find
others. The logger has a handler of its own, which writes to ``sys.stderr``, and does not propagate: the handlers of the
program, its files and its stdout see nothing, unless it attaches one to this logger or sets ``propagate``.
"""

from __future__ import annotations

import linecache
import logging
import os
import sys
import warnings

from saker import _C
from saker._names import meant

_MORE = "saker.explain(fn)(...) tells more; SAKER_LOGS= or saker.set_logs('') silences this"


class _ToStderr(logging.Handler):
    """Writes to whatever ``sys.stderr`` is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:
            sys.stderr.write(f"saker: {record.getMessage()}\n")


_logger = logging.getLogger("saker")
_logger.addHandler(_ToStderr())
_logger.propagate = False


def tell(text: str, name: str, file: str, line: int, hint: str) -> None:
    """One line about a place in the user's program. What goes wrong in telling goes no further."""
    where = f"{file}:{line}: " if file else ""
    source = linecache.getline(file, line).strip() if file else ""
    shown = f" ({source})" if source else ""
    _logger.warning("%s%s [%s]%s. What to do: %s. %s", where, text, name, shown, hint, _MORE)


def set_logs(topics: str | None = None) -> None:
    """Chooses what compiled functions tell on stderr; the variable ``SAKER_LOGS`` does so at the start.

    ``topics`` is a list with commas of captures, breaks, recompiles, guards, graph, effects, replays, stages, notices,
    or "all". Notices, one line for each place at which a function runs eagerly, are what is told without a choice
    (None), and are told besides all others. An empty list switches everything off.
    """
    if topics is not None and not isinstance(topics, str):
        raise TypeError(
            f'topics are one string with commas, such as "breaks,recompiles", not a {type(topics).__name__}'
        )
    unknown = _C.set_logs("notices" if topics is None else topics)
    if unknown:
        topic = meant(unknown.split(", ")[0], _C.log_topics().split(", "))
        raise ValueError(f"no such topics of logs: {unknown}; there are {_C.log_topics()}{topic}")


def set_stages(words: str = "") -> None:
    """Settings of the stages of compiling, to find a fault; the variable ``SAKER_STAGES`` makes them at the start.

    ``words`` is a list with commas: ``verify`` checks each graph behind each stage, ``-simplify`` and
    ``-differentiate`` leave a stage out, ``fuse`` does one that is off without it, ``dump=folder`` writes the graph
    behind each stage to a file of an existing folder, which ``saker-opt`` reads. An empty one takes all settings back.
    """
    if not isinstance(words, str):
        raise TypeError(f'settings are one string with commas, such as "verify,fuse", not a {type(words).__name__}')
    for word in words.split(","):
        name, _, folder = word.strip().partition("=")
        if name == "dump" and not os.path.isdir(folder):
            raise ValueError(f"dump={folder}: there is no such folder; make it first")
    unknown = _C.set_stages(words)
    if unknown:
        raise ValueError(
            f"no such settings of stages: {unknown}; there are verify, -simplify, -differentiate, fuse, dump=folder"
            f"{meant(unknown.split(', ')[0], ('verify', '-simplify', '-differentiate', 'fuse', 'dump=folder'))}"
        )


def from_environment() -> None:
    logs, stages = os.environ.get("SAKER_LOGS"), os.environ.get("SAKER_STAGES")
    for name, choose, words in (("SAKER_LOGS", set_logs, logs), ("SAKER_STAGES", set_stages, stages)):
        try:
            if words is not None or choose is set_logs:
                choose(words)
        except ValueError as error:
            warnings.warn(f"{name}: {error}", stacklevel=3)
