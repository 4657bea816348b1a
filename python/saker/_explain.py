"""``saker.explain``: what compiling a function makes of one call, as text and as HTML."""

from __future__ import annotations

import collections
import dataclasses
import html
import linecache
import re
from collections.abc import Callable
from typing import Any

from saker import _C
from saker._compile import CompiledModule, compile
from saker._describe import Described


@dataclasses.dataclass
class Break:
    """Why a call was not captured, where, and what to do about it: a row of ``saker.reasons()`` with its operands."""

    reason: str  # the sentence
    file: str
    line: int
    hint: str
    name: str = ""  # of the row, as "depends-on-data"
    kind: str = ""  # "a segment ends here" or "cannot be replayed"

    @property
    def source(self) -> str:
        return linecache.getline(self.file, self.line).strip() if self.file else ""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""


@dataclasses.dataclass
class Explanation:
    """What ``saker.explain`` found out. Printing it shows all of it but the graphs and most guards."""

    function: str
    result: Any  # what the call returned
    graphs: list[Any]  # one for each captured call: .text, and len() is the number of nodes
    operators: dict[str, int]  # how often each is called, the most frequent first
    breaks: list[Break]
    guards: list[str]
    effects: int  # writes and calls that a replay does besides the graph
    frames: int  # Python frames that were watched
    seconds: dict[str, float]  # by phase
    instead: list[Break] = dataclasses.field(default_factory=list)  # why gradients are not compiled
    stages: dict[str, float] = dataclasses.field(default_factory=dict)  # of compiling: seconds
    bodies: dict[str, int] = dataclasses.field(default_factory=dict)  # how many graphs operators like saker::if run

    @property
    def captured(self) -> bool:
        return not self.breaks

    def _facts(self) -> list[tuple[str, str]]:
        times = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in self.seconds.items())
        most = ", ".join(f"{name} x{count}" for name, count in list(self.operators.items())[:8])
        return [
            ("captured", "whole" if self.captured else "no: it runs eagerly"),
            ("graphs", str(len(self.graphs))),
            ("operators", f"{sum(self.operators.values())}" + (f" ({most})" if most else "")),
            *self._bodies(),
            ("Python frames watched", str(self.frames)),
            ("guards", str(len(self.guards))),
            ("done again besides the graph", str(self.effects)),
            ("time", times),
            *self._gradients(),
        ]

    def _bodies(self) -> list[tuple[str, str]]:
        owners = ", ".join(f"{name} x{count}" for name, count in self.bodies.items())
        return [("bodies", f"{sum(self.bodies.values())} (of {owners})")] if self.bodies else []

    def _gradients(self) -> list[tuple[str, str]]:
        if self.instead:
            why = "; ".join(f"{each.reason} [{each.name}]" for each in self.instead)
            return [("gradients", f"by autograd, which follows the recording: {why}")]
        times = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in self.stages.items())
        return [("gradients", f"compiled ({times})")] if self.stages else []

    def __str__(self) -> str:
        lines = [f"saker.explain: {self.function}"]
        lines += [f"  {name}: {text}" for name, text in self._facts()]
        for each in self.breaks:
            lines.append(f"  not captured: {each.reason} [{each.name}: {each.kind}]")
            if each.where:
                lines.append(f"    at {each.where}")
            if each.source:
                lines.append(f"      {each.source}")
            lines.append(f"    what to do: {each.hint}")
        shown = self.guards[:20]
        if shown:
            lines.append("  guards, in the order in which they are checked:")
            lines += [f"    {guard}" for guard in shown]
            if len(self.guards) > len(shown):
                lines.append(f"    and {len(self.guards) - len(shown)} more in .guards")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        def row(*cells: str) -> str:
            return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"

        parts = [f"<b>saker.explain: {html.escape(self.function)}</b>"]
        parts.append("<table>" + "".join(row(html.escape(a), html.escape(b)) for a, b in self._facts()) + "</table>")
        if self.breaks:
            cells = []
            for each in self.breaks:
                source = f"<code>{html.escape(each.source)}</code>"
                texts = [html.escape(text) for text in (each.reason, each.name, each.where)]
                cells.append(row(*texts, source, html.escape(each.hint)))
            head = "<tr><th>not captured</th><th>name</th><th>at</th><th>line</th><th>what to do</th></tr>"
            parts.append(f"<table>{head}{''.join(cells)}</table>")
        for title, texts in (("guards", self.guards), ("graphs", [graph.text for graph in self.graphs])):
            body = html.escape("\n".join(texts))
            parts.append(f"<details><summary>{len(texts)} {title}</summary><pre>{body}</pre></details>")
        return "".join(parts)


def _operators(graphs: list[Any]) -> dict[str, int]:
    names: collections.Counter[str] = collections.Counter()
    for graph in graphs:
        names.update(re.findall(r"(?:= |^ *)(\w+::[\w.]+)\(", graph.text, re.MULTILINE))
    return dict(names.most_common())


def _bodies(graphs: list[Any]) -> dict[str, int]:
    counts: collections.Counter[str] = collections.Counter()

    def count(described: Described) -> None:
        for node in described["nodes"]:
            for body in node["bodies"]:
                counts[node["op"]] += 1
                count(body)

    for graph in graphs:
        count(_C.describe_graph(graph))
    return dict(counts)


_INSTEAD = "the recording itself runs"


def _stages(reports: list[dict[str, Any]]) -> dict[str, float]:
    seconds: collections.Counter[str] = collections.Counter()
    for report in reports:
        for name, _, took, _ in report["stages"]:
            seconds[name] += took
    return dict(seconds)


def explain(fn: Callable, **options: Any) -> Callable[..., Explanation]:
    """Calls ``fn`` once under ``saker.compile`` and tells what came of it.

    >>> print(saker.explain(model)(x))

    The call really happens, with everything it does. ``options`` are those of ``saker.compile``; what ``fn`` has been
    compiled to before is not touched.
    """
    if isinstance(fn, CompiledModule):
        fn = fn._orig_mod
    elif isinstance(fn, _C.Compiled):
        fn = _C.compiled_function(fn)

    def run(*args: Any, **kwargs: Any) -> Explanation:
        compiled = compile(fn, **{**options, "fullgraph": False})
        inner = compiled._compiled if isinstance(compiled, CompiledModule) else compiled
        result = compiled(*args, **kwargs)
        reports = _C.compiled_reports(inner)
        versions = _C.compiled_versions(inner)
        graphs = [version["program"].graph for version in versions if version["program"] and not version["eager"]]
        breaks = [
            Break(*(report[key] for key in ("why", "file", "line", "hint", "reason", "kind")))
            for report in reports
            if report["outcome"] == "eager"
        ]
        return Explanation(
            function=getattr(fn, "__qualname__", type(fn).__name__),
            result=result,
            graphs=graphs,
            operators=_operators(graphs),
            breaks=breaks,
            guards=[guard for version in versions for guard in version["guards"] if not version["eager"]],
            effects=sum(version["effects"] for version in versions),
            frames=sum(report["frames"] for report in reports),
            instead=[
                Break(report["instead"], "", 0, report["instead_hint"], report["instead_name"], _INSTEAD)
                for report in reports
                if report["instead"]
            ],
            stages=_stages(reports),
            bodies=_bodies(graphs),
            seconds={
                "running and recording": sum(report["watching"] for report in reports),
                "compiling": sum(report["compiling"] for report in reports),
            },
        )

    return run
