"""``saker.report``: what became of the compiled functions of this process, as a table."""

from __future__ import annotations

import dataclasses
import html
import linecache
from typing import Any

from saker import _C

_COLUMNS = ("function", "calls", "replays", "recordings", "eager", "first call", "replay", "eager call", "saved")


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 0:
        return f"-{_time(-seconds)}"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _saved(function: dict[str, Any]) -> float | None:
    """An estimate, from calls that the user has forced to be eager: the eager time of a replayed call is not known."""
    replayed, forced = function["replay_seconds"], function["forced_seconds"]
    return None if replayed is None or forced is None else function["replays"] * (forced - replayed)


@dataclasses.dataclass
class Report:
    """One dict for each compiled function: see ``saker.stats()["functions"]``. Printing it shows a table.

    >>> report = saker.report()
    >>> [each["name"] for each in report.functions if each["eager_calls"]]
    ['train.step']
    """

    functions: list[dict[str, Any]]

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                each["name"],
                *(str(each[key]) for key in ("calls", "replays", "recordings", "eager_calls")),
                *(_time(each[key]) for key in ("first_seconds", "replay_seconds", "eager_seconds")),
                _time(_saved(each)),
            )
            for each in self.functions
        ]

    def _notes(self, function: dict[str, Any]) -> list[str]:
        lines = [] if function["exists"] else ["it does not exist any more"]
        for reason in function["reasons"]:
            instead = reason["kind"] == "the recording itself runs"
            count = reason["eager_calls"]
            times = f", {count} eager call{'s' if count > 1 else ''}" if count else ""
            head = "gradients are not compiled" if instead else "eager"
            lines.append(f"{head}: {reason['text']} [{reason['name']}]{times}")
            if reason["file"]:
                source = linecache.getline(reason["file"], reason["line"]).strip()
                lines.append(f"  at {reason['file']}:{reason['line']}" + (f": {source}" if source else ""))
            lines.append(f"  what to do: {reason['hint']}")
        if function["changed"]:
            lines.append(f"recorded again, since {function['changed']}")
        return lines

    def __str__(self) -> str:
        if not self.functions:
            return "saker.report: no compiled function was called"
        rows = [_COLUMNS, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
        notes: list[list[str]] = [[], *(self._notes(each) for each in self.functions)]
        lines = ["saker.report"]
        for row, more in zip(rows, notes, strict=True):
            cells = [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
            lines.append("  " + "  ".join(cells))
            lines += [f"      {line}" for line in more]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def report() -> Report:
    """Prints a table of the compiled functions that were called, and gives it. The last 64 that do not exist any more
    are among them.

    For each: calls, replays, recordings and eager calls, why calls are eager, and times. ``first call`` is the first
    recorded one, with running and compiling; ``replay`` and ``eager call`` are medians of those that were measured, one
    in 64 and the first ones. ``saved`` is an estimate of the time that replays have saved, where the function was also
    called a few times under ``torch.compiler.set_stance("force_eager")``: the number of replays times the difference of
    the medians of such calls and of replays. Without such calls nobody knows how long eager mode takes.

    >>> saker.report()  # at the end of a program
    """
    made = Report(_C.usage_of_functions())
    print(made)
    return made
