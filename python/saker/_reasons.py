"""Why calls are not compiled: the table of ``src/capture/reasons.def``."""

from __future__ import annotations

import dataclasses

from saker import _C


@dataclasses.dataclass(frozen=True)
class Reason:
    """One row: what ``explain``, logs, errors and ``stats()["stops"]`` tell.

    >>> saker.reasons()[0].hint
    """

    name: str  # stable, for programs
    kind: str  # "a segment ends here" or "cannot be replayed"
    text: str  # each {} is an operand
    hint: str  # what to do about it


def reasons() -> list[Reason]:
    """All reasons for which a call may run eagerly.

    >>> {reason.name: reason.hint for reason in saker.reasons()}
    """
    return [Reason(*row) for row in _C.stop_reasons()]
