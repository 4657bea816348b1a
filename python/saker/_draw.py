"""Graphs to look at: Graphviz' language, and HTML for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

from saker import _C

# A drawing of more is of no use, and slow to lay out.
_MOST_NODES = 2000


def _operands(args: Any) -> Iterator[int]:
    for arg in args:
        if isinstance(arg, list):
            yield from _operands(arg)
        elif isinstance(arg, tuple) and arg[0] == "value":
            yield arg[1]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def to_dot(graph: _C.Graph) -> str:
    """One box for each operator and parameter, one arrow for each value that is read; results are at the bottom."""
    described = _C.describe_graph(graph)
    lines = [f"digraph {_quoted(described['name'])} {{", "  node [shape=box, fontname=monospace, fontsize=10];"]
    owner: dict[int, str] = {}  # of each value
    for parameter in described["parameters"]:
        name = f"p{parameter['id']}"
        owner[parameter["id"]] = name
        label = f"%{parameter['name'] or parameter['id']}\n{parameter['text']}"
        lines.append(f"  {name} [label={_quoted(label)}, style=filled, fillcolor=lightblue];")
    shown = described["nodes"][:_MOST_NODES]
    for node in shown:
        name = f"n{node['id']}"
        types = "\n".join(result["text"] for result in node["results"])
        where = node["location"]
        tip = f", tooltip={_quoted(f'{where[0]}:{where[1]}')}" if where else ""
        operator_and_types = f"{node['op']}\n{types}"
        lines.append(f"  {name} [label={_quoted(operator_and_types)}{tip}];")
        for operand in dict.fromkeys(_operands(node["args"])):
            lines.append(f"  {owner[operand]} -> {name};")
        for result in node["results"]:
            owner[result["id"]] = name
    lines.append("  return [shape=ellipse, style=filled, fillcolor=lightgrey];")
    for operand in dict.fromkeys(_operands(described["returns"])):
        if operand in owner:  # not among those that are left out
            lines.append(f"  {owner[operand]} -> return;")
    left = len(described["nodes"]) - len(shown)
    if left:
        lines.append(f"  more [shape=plaintext, label={_quoted(f'{left} more operators')}];")
    lines.append("}")
    return "\n".join(lines) + "\n"


def to_html(graph: _C.Graph) -> str:
    """A table: an operator a row, its arguments, its results' types and where it was called."""
    described = _C.describe_graph(graph)

    def text(arg: Any) -> str:
        if isinstance(arg, list):
            return "[" + ", ".join(map(text, arg)) + "]"
        if isinstance(arg, tuple):
            return f"%{arg[1]}" if arg[0] == "value" else str(arg[2])
        return repr(arg) if isinstance(arg, str) else str(arg)

    def row(*cells: str) -> str:
        return "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in cells) + "</tr>"

    rows = [row(f"%{p['name'] or p['id']}", "parameter", "", p["text"], "") for p in described["parameters"]]
    for node in described["nodes"][:_MOST_NODES]:
        where = node["location"]
        rows.append(
            row(
                ", ".join(f"%{result['id']}" for result in node["results"]),
                node["op"],
                ", ".join(map(text, node["args"])),
                ", ".join(result["text"] for result in node["results"]),
                f"{where[0].rpartition('/')[2]}:{where[1]}" if where else "",
            )
        )
    left = len(described["nodes"]) - _MOST_NODES
    if left > 0:
        rows.append(row("...", f"{left} more operators", "", "", ""))
    rows.append(row("", "return", ", ".join(map(text, described["returns"])), "", ""))
    head = "".join(f"<th style='text-align:left'>{name}</th>" for name in ("", "operator", "arguments", "type", "line"))
    summary = f"{html.escape(described['name'])}: {len(described['nodes'])} operators"
    return (
        f"<details open><summary>{summary}</summary>"
        f"<table style='font-family:monospace'><thead><tr>{head}</tr></thead><tbody>"
        + "".join(rows)
        + "</tbody></table></details>"
    )
