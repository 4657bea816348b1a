"""Graphs to look at: Graphviz' language, and HTML for notebooks."""

from __future__ import annotations

import html
from typing import Any

from saker import _C
from saker._describe import Described, operands

# A drawing of more is of no use, and slow to lay out.
_MOST_NODES = 2000


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _count(described: Described) -> int:
    """Operators, those of bodies included."""
    return sum(1 + sum(map(_count, node["bodies"])) for node in described["nodes"])


class _Dot:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shown = 0
        self._owner: dict[int, str] = {}  # of each value

    def add(self, described: Described, end: str, indent: str) -> None:
        """The inside of a graph or of a body, up to the node that returns."""
        for parameter in described["parameters"]:
            name = f"p{parameter['id']}"
            self._owner[parameter["id"]] = name
            label = f"{parameter['label']}\n{parameter['text']}"
            self.lines.append(f"{indent}{name} [label={_quoted(label)}, style=filled, fillcolor=lightblue];")
        for node in described["nodes"]:
            if self.shown < _MOST_NODES:
                self._add_node(node, indent)
        self.lines.append(f"{indent}{end} [label=return, shape=ellipse, style=filled, fillcolor=lightgrey];")
        self._add_arrows(described["returns"], end, indent)

    def _add_node(self, node: Described, indent: str) -> None:
        self.shown += 1
        name = f"n{node['id']}"
        types = "\n".join(f"{result['label']}: {result['text']}" for result in node["results"])
        where = node["location"]
        tip = f", tooltip={_quoted(f'{where[0]}:{where[1]}')}" if where else ""
        operator_and_types = f"{node['op']}\n{types}"
        self.lines.append(f"{indent}{name} [label={_quoted(operator_and_types)}{tip}];")
        self._add_arrows(node["args"], name, indent)
        for number, body in enumerate(node["bodies"]):
            end, title = f"return{node['id']}_{number}", f"body {number} of {node['op']}"
            self.lines.append(f"{indent}subgraph cluster{node['id']}_{number} {{")
            self.lines.append(f"{indent}  label={_quoted(title)};")
            self.add(body, end, indent + "  ")
            self.lines.append(f"{indent}}}")
            self.lines.append(f"{indent}{end} -> {name} [style=dashed];")
        for result in node["results"]:
            self._owner[result["id"]] = name

    def _add_arrows(self, args: Any, name: str, indent: str) -> None:
        for operand in dict.fromkeys(operands(args)):
            if operand in self._owner:  # not among those that are left out
                self.lines.append(f"{indent}{self._owner[operand]} -> {name};")


def to_dot(graph: _C.Graph) -> str:
    """One box for each operator and parameter, one arrow for each value that is read; results are at the bottom.

    A body is a box around its operators, with a dashed arrow to the operator that runs it.
    """
    described = _C.describe_graph(graph)
    drawing = _Dot()
    drawing.add(described, "return", "  ")
    left = _count(described) - drawing.shown
    if left:
        drawing.lines.append(f"  more [shape=plaintext, label={_quoted(f'{left} more operators')}];")
    head = [f"digraph {_quoted(described['name'])} {{", "  node [shape=box, fontname=monospace, fontsize=10];"]
    return "\n".join([*head, *drawing.lines, "}"]) + "\n"


def _labels(described: Described) -> dict[int, str]:
    """What values are called in the text of the graph, those of bodies included."""
    values = [*described["parameters"], *(result for node in described["nodes"] for result in node["results"])]
    labels = {value["id"]: value["label"] for value in values}
    for node in described["nodes"]:
        for body in node["bodies"]:
            labels.update(_labels(body))
    return labels


class _Table:
    def __init__(self, labels: dict[int, str]) -> None:
        self.rows: list[str] = []
        self.shown = 0
        self._labels = labels  # of values, as in the text of the graph

    def add_row(self, *cells: str) -> None:
        texts = (f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in cells)
        self.rows.append("<tr>" + "".join(texts) + "</tr>")

    def add(self, described: Described, indent: str = "") -> None:
        for p in described["parameters"]:
            self.add_row(f"{indent}{p['label']}", "parameter", "", p["text"], "")
        for node in described["nodes"]:
            if self.shown < _MOST_NODES:
                self._add_node(node, indent)

    def add_end(self, described: Described, indent: str = "") -> None:
        self.add_row(indent, "return", ", ".join(map(self._text, described["returns"])), "", "")

    def _add_node(self, node: Described, indent: str) -> None:
        self.shown += 1
        where = node["location"]
        self.add_row(
            indent + ", ".join(result["label"] for result in node["results"]),
            node["op"],
            ", ".join(map(self._text, node["args"])),
            ", ".join(result["text"] for result in node["results"]),
            f"{where[0].rpartition('/')[2]}:{where[1]}" if where else "",
        )
        for number, body in enumerate(node["bodies"]):
            inner = indent + "\u2003"
            self.add_row(inner, f"body {number} of {node['op']}", "", "", "")
            self.add(body, inner)
            self.add_end(body, inner)

    def _text(self, arg: Any) -> str:
        if isinstance(arg, list):
            return "[" + ", ".join(map(self._text, arg)) + "]"
        if isinstance(arg, tuple):
            return self._labels[arg[1]] if arg[0] == "value" else str(arg[2])
        return repr(arg) if isinstance(arg, str) else str(arg)


def to_html(graph: _C.Graph) -> str:
    """A table: an operator a row, its arguments, its results' types and where it was called; its bodies below it."""
    described = _C.describe_graph(graph)
    table = _Table(_labels(described))
    table.add(described)
    left = _count(described) - table.shown
    if left > 0:
        table.add_row("...", f"{left} more operators", "", "", "")
    table.add_end(described)
    head = "".join(f"<th style='text-align:left'>{name}</th>" for name in ("", "operator", "arguments", "type", "line"))
    summary = f"{html.escape(described['name'])}: {_count(described)} operators"
    return (
        f"<details open><summary>{summary}</summary>"
        f"<table style='font-family:monospace'><thead><tr>{head}</tr></thead><tbody>"
        + "".join(table.rows)
        + "</tbody></table></details>"
    )
