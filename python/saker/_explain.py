"""``saker.explain``: what compiling a function makes of one call, as text and as HTML."""

from __future__ import annotations

import collections
import dataclasses
import linecache
import os
import re
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from saker import _C
from saker._compile import CompiledModule, compile
from saker._describe import Described
from saker._explain_time import Timing, measure, why_not
from saker._kernels import Kernels, kernels_of
from saker._names import check_keywords, keywords_of
from saker._options import backend_of, wants_all_bits

# Of each group of guards, as text.
_MOST_GUARDS = 8
GROUPS = {
    "arguments": "arguments",
    "module": "module",
    "globals": "globals and code",
    "internals": "PyTorch's and Python's own",
}


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
        """The line of the program, as it is in the file."""
        return linecache.getline(self.file, self.line).strip() if self.file else ""

    @property
    def where(self) -> str:
        """``file:line``, or nothing."""
        return f"{self.file}:{self.line}" if self.file else ""


@dataclasses.dataclass
class Saved:
    """What a forward keeps for its backward."""

    tensors: int  # that it computes
    bytes: int  # of their memory, by the sizes of this call
    inputs: int  # parameters and arguments, which are there anyway


@dataclasses.dataclass
class Explanation:
    """What ``saker.explain`` found out. Printing it shows all of it but the graphs and most guards.

    >>> told = saker.explain(model)(x)
    >>> print(told)
    >>> told.save("report.html")
    >>> told.operators["aten::addmm"], told.guard_groups["arguments"]
    """

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
    guard_groups: dict[str, list[str]] = dataclasses.field(default_factory=dict)  # the guards, by what they look at
    backward: list[Any] = dataclasses.field(default_factory=list)  # graphs of the backward, where they are compiled
    backward_operators: dict[str, int] = dataclasses.field(default_factory=dict)
    saved: list[Saved] = dataclasses.field(default_factory=list)  # for each of these
    kernels: list[Kernels] = dataclasses.field(default_factory=list)  # of each graph, where code is generated
    backward_kernels: list[Kernels] = dataclasses.field(default_factory=list)
    timing: Timing | None = None
    not_timed: str = ""  # why there is no timing
    first: list[Break] = dataclasses.field(default_factory=list)  # why the first call was not captured, but the second

    @property
    def captured(self) -> bool:
        """Whether the whole call is replayed from now on."""
        return not self.breaks

    def facts(self) -> list[tuple[str, str]]:
        """What is told in one line each: its name and its text."""
        facts = [
            ("captured", self._captured()),
            *self._first(),
            ("graphs", str(len(self.graphs))),
            ("operators", _counted(self.operators)),
        ]
        if self.bodies:
            facts.append(("bodies", f"{sum(self.bodies.values())} (of {_times(self.bodies)})"))
        facts += [
            ("Python frames watched", str(self.frames)),
            ("guards", self._guard_counts()),
            ("done again besides the graph", str(self.effects)),
            ("time of this call", ", ".join(f"{name} {duration(each)}" for name, each in self.seconds.items())),
            ("time of a later call", self._timed()),
            *self._slowest(),
            *self._gradients(),
            *self._generated(),
        ]
        return facts

    def _captured(self) -> str:
        if not self.captured:
            return "no: it runs eagerly"
        return "whole, at the second call" if self.first else "whole"

    def _first(self) -> list[tuple[str, str]]:
        return [("the first call", f"ran eagerly: {each.reason} [{each.name}]{_at(each)}") for each in self.first]

    def _generated(self) -> list[tuple[str, str]]:
        """Generated code, in numbers; the kernels themselves are listed below."""
        facts = []
        for name, all_ in (("kernels", self.kernels), ("kernels of the backward", self.backward_kernels)):
            if not all_:
                continue
            fused = sum(len(group.operators) for each in all_ for group in each.groups)
            called = sum(len(each.outside) for each in all_)
            count = sum(len(group.texts) for each in all_ for group in each.groups)
            facts.append((name, f"{count} of {fused} operators; {called} operators are called"))
        seconds: collections.Counter[str] = collections.Counter()
        for each in (*self.kernels, *self.backward_kernels):
            seconds.update(each.seconds)
        if facts:
            times = ", ".join(f"{name} {duration(took)}" for name, took in seconds.items())
            facts.append(("time of generating code", times))
        return facts

    def _guard_counts(self) -> str:
        parts = [f"{len(texts)} {GROUPS[name]}" for name, texts in self.guard_groups.items() if texts]
        return str(len(self.guards)) + (f" ({', '.join(parts)})" if parts else "")

    def _timed(self) -> str:
        timing = self.timing
        if timing is None:
            return f"not measured: {self.not_timed}"
        text = f"eager {duration(timing.eager)}"
        if timing.replay is not None:
            text += f", replayed {duration(timing.replay)}: {timing.speedup:.2f} times as fast"
        return f"{text} ({timing.told})"

    def _slowest(self) -> list[tuple[str, str]]:
        rows = self.timing.operators if self.timing else []
        if not rows:
            return []
        total = sum(row.seconds for row in rows)
        texts = [f"{row.name} x{row.count} {duration(row.seconds)} ({share(row.seconds, total)})" for row in rows[:5]]
        return [("slowest operators", ", ".join(texts))]

    def _gradients(self) -> list[tuple[str, str]]:
        if self.instead:
            why = "; ".join(f"{each.reason} [{each.name}]" for each in self.instead)
            return [("gradients", f"by autograd, which follows the recording: {why}")]
        facts = []
        if self.backward:
            facts.append(("gradients", f"compiled: {_counted(self.backward_operators)} in the backward"))
            facts.append(("saved for the backward", "; ".join(map(_saved_text, self.saved))))
        if self.stages:
            texts = [f"{name} {duration(seconds)}" for name, seconds in self.stages.items()]
            facts.append(("stages of compiling", ", ".join(texts)))
        return facts

    def __str__(self) -> str:
        lines = [f"saker.explain: {self.function}"]
        lines += [f"  {name}: {text}" for name, text in self.facts()]
        for each in self.breaks:
            lines.append(f"  not captured: {each.reason} [{each.name}]")
            if each.where:
                lines.append(f"    at {each.where}")
            if each.source:
                lines.append(f"      {each.source}")
            lines.append(f"    what to do: {each.hint}")
        for name, all_ in (("kernels", self.kernels), ("kernels of the backward", self.backward_kernels)):
            for each in all_:
                lines += [f"  {name}:", *(f"    {line}" for line in str(each).splitlines())]
        for name, texts in self.guard_groups.items():
            if not texts or name == "internals":
                continue
            lines.append(f"  guards on {GROUPS[name]}:")
            lines += [f"    {text}" for text in texts[:_MOST_GUARDS]]
            if len(texts) > _MOST_GUARDS:
                lines.append(f'    and {len(texts) - _MOST_GUARDS} more in .guard_groups["{name}"]')
        return "\n".join(lines)

    def html(self) -> str:
        """A page by itself: no scripts, nothing from elsewhere, light and dark."""
        from saker._explain_html import page

        return page(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file.

        >>> saker.explain(model)(x).save("report.html")
        """
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html())

    def _repr_html_(self) -> str:
        from saker._explain_html import fragment

        return fragment(self)

    def __getstate__(self) -> dict[str, Any]:
        """A result that autograd follows is kept without its history, which can be neither copied nor pickled."""

        def plain(leaf: Any) -> Any:
            return leaf.detach() if isinstance(leaf, torch.Tensor) and not leaf.is_leaf else leaf

        return {**self.__dict__, "result": pytree.tree_map(plain, self.result)}


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def share(part: float, total: float) -> str:
    """In percent."""
    return f"{part / total:.0%}" if part >= total / 100 else "<1%"


def size(count: int) -> str:
    """A number of bytes, in a unit that suits it."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} bytes"


def _at(place: Break) -> str:
    return f" at {place.where}" if place.where else ""


def _saved_text(saved: Saved) -> str:
    return f"{saved.tensors} tensors of {size(saved.bytes)}, and {saved.inputs} inputs as they are"


def _times(counts: dict[str, int], most: int | None = None) -> str:
    return ", ".join(f"{name} x{count}" for name, count in list(counts.items())[:most])


def _counted(operators: dict[str, int]) -> str:
    most = _times(operators, 6)
    return str(sum(operators.values())) + (f" ({most})" if most else "")


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
# The dicts in which modules keep their parts, on the way to one.
_PARTS = re.compile(
    r"(?:\.__dict__\['_(?:modules|parameters|buffers)'\]|\._(?:modules|parameters|buffers))\['([^']*)'\]"
)


def _grouped(versions: list[dict[str, Any]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {name: [] for name in GROUPS}
    for version in versions:
        for group, text in zip(version["groups"], version["guards"], strict=True):
            readable = _PARTS.sub(lambda found: f".{found[1]}", text)
            groups[group].append(readable)
    return groups


def _stages(reports: list[dict[str, Any]]) -> dict[str, float]:
    seconds: collections.Counter[str] = collections.Counter()
    for report in reports:
        for name, _, took, _ in report["stages"]:
            seconds[name] += took
    return dict(seconds)


def explain(fn: Callable, *, repeat: int | None = None, **options: Any) -> Callable[..., Explanation]:
    """Calls ``fn`` under ``saker.compile`` and tells what came of it.

    >>> print(saker.explain(model)(x))
    >>> saker.explain(model, repeat=20)(x).save("report.html")

    The call really happens, with everything it does. Where the first call is not captured, but the next one is recorded
    in another way (a model that asks ``torch.compiler.is_compiling()`` before it looks at data, as many of
    ``transformers`` do), ``fn`` is called a second time, and that is what is told. ``options`` are those of
    ``saker.compile``; what ``fn`` has been compiled to before is not touched.

    Later calls are timed, eagerly and replayed, where the recording shows that calling ``fn`` again changes nothing,
    and the call was short. With ``repeat`` they are timed in any case: ``fn`` is then called ``2 * repeat + 2`` times
    more, with everything it does; with ``repeat=0`` never.
    """
    if repeat is not None and (not isinstance(repeat, int) or isinstance(repeat, bool) or repeat < 0):
        raise TypeError(f"repeat is a number of calls, not {repeat!r}")
    if not callable(fn):
        raise TypeError(f"saker.explain takes a function or a module, not a {type(fn).__name__}")
    known = [name for name in keywords_of(compile) if name != "model"]
    check_keywords("saker.explain", options, ["repeat", *known])
    if isinstance(fn, CompiledModule):
        fn = fn._orig_mod
    elif isinstance(fn, _C.Compiled):
        fn = _C.compiled_function(fn)

    compile(fn, **options)  # wrong options are told at once

    def run(*args: Any, **kwargs: Any) -> Explanation:
        compiled = compile(fn, **{**options, "fullgraph": False})
        inner = compiled._compiled if isinstance(compiled, CompiledModule) else compiled
        result = compiled(*args, **kwargs)
        if _is_recorded_again(inner):
            result = compiled(*args, **kwargs)
        reports = _C.compiled_reports(inner)
        told = _told(fn, result, reports, _C.compiled_versions(inner))
        runs = backend_of(options.get("backend", "aten"))
        if runs.native or (_C.fuses() and runs.compiler is None):
            _tell_kernels(told, _C.compiled_versions(inner), wants_all_bits(options.get("options")))
        told.not_timed = why_not(repeat, _C.compiled_versions(inner), sum(told.seconds.values()))
        if not told.not_timed:
            told.timing = measure(fn, compiled, inner, (args, kwargs), repeat)
        return told

    return run


def _is_recorded_again(compiled: Any) -> bool:
    """Whether the call was not captured, and the next one is recorded in another way."""
    reports = _C.compiled_reports(compiled)
    return bool(reports) and reports[-1]["again"]


def _tell_kernels(told: Explanation, versions: list[dict[str, Any]], to_the_bit: bool) -> None:
    for version in versions:
        if version["eager"] or not version["program"]:
            continue
        halves = version["compiled"]
        graph = version["program"].graph if halves is None else halves.forward
        simplified = halves is not None
        told.kernels.append(kernels_of(graph, simplified=simplified, compiled=True, to_the_bit=to_the_bit))
        if simplified and halves.training:
            told.backward_kernels.append(
                kernels_of(halves.backward, simplified=True, compiled=True, to_the_bit=to_the_bit)
            )


def _told(fn: Callable, result: Any, reports: list[dict[str, Any]], versions: list[dict[str, Any]]) -> Explanation:
    replayed = [version for version in versions if not version["eager"]]
    graphs = [version["program"].graph for version in replayed if version["program"]]
    halves = [version["compiled"] for version in replayed if version["compiled"] and version["compiled"].training]
    backward = [each.backward for each in halves]
    stopped = [
        (report["again"], Break(*(report[key] for key in ("why", "file", "line", "hint", "reason", "kind"))))
        for report in reports
        if report["outcome"] == "eager"
    ]
    first = [each for again, each in stopped[:1] if again and len(reports) > 1]
    breaks = [each for _, each in stopped[len(first) :]]
    return Explanation(
        function=getattr(fn, "__qualname__", type(fn).__name__),
        result=result,
        graphs=graphs,
        operators=_operators(graphs),
        breaks=breaks,
        first=first,
        guards=[guard for version in replayed for guard in version["guards"]],
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
        guard_groups=_grouped(replayed),
        backward=backward,
        backward_operators=_operators(backward),
        saved=[Saved(*each.saved) for each in halves],
    )
