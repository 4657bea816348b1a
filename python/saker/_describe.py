"""Graphs as dicts, with the bodies of their nodes.

``_C.describe_graph`` says how many bodies a node has, and not what is in them. They are read from the graph's text:
each one is parsed as a graph of its own, in which values from outside are further parameters.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from saker import _C

# A value, and whether its type follows: then it is defined there. Strings are skipped.
_VALUE = re.compile(r'%(?P<name>"(?:\\.|[^"\\])*"|[\w.]+)(?P<defined>:)?|"(?:\\.|[^"\\])*"')
_STEP = 2  # by which what is inside of braces is indented

Described = dict[str, Any]


def describe_graph(graph: _C.Graph) -> Described:
    """What ``_C.describe_graph`` gives; each node has "bodies" too, a list of dicts with parameters, nodes, returns.

    Numbers of values and nodes are those of the graph outside of bodies, and unique inside.
    """
    return _with_bodies(_C.describe_graph(graph), graph)


def describe_program(program: _C.Program) -> Described:
    """What ``_C.describe_program`` gives, with bodies."""
    return _with_bodies(_C.describe_program(program), program.graph)


def operands(args: Any) -> Iterator[int]:
    """The values among arguments."""
    for arg in args:
        if isinstance(arg, list):
            yield from operands(arg)
        elif isinstance(arg, tuple) and arg[0] == "value":
            yield arg[1]


def _with_bodies(described: Described, graph: _C.Graph) -> Described:
    for node in described["nodes"]:
        node["bodies"] = []
    if any(node["regions"] for node in described["nodes"]):
        _Reader(graph.text, described).read()
    return described


class _Reader:
    def __init__(self, text: str, described: Described) -> None:
        lines = text.rstrip().split("\n")
        start = next(i for i, line in enumerate(lines) if line.startswith("graph @"))
        self._symbols = lines[:start]
        self._lines = lines[start:-1]  # without the brace at the end
        self._described = described
        values = [*described["parameters"], *(r for node in described["nodes"] for r in node["results"])]
        numbers = [each["id"] for each in (*values, *described["nodes"])]
        self._unused = itertools.count(max(numbers, default=0) + 1)

    def read(self) -> None:
        self._read(self._described, self._lines, _STEP, {})

    def _read(self, described: Described, lines: list[str], indent: int, known: dict[str, Described]) -> None:
        """Adds bodies to the nodes of a region, given as its lines; ``known`` are values around it, by name."""
        head = next(i for i, line in enumerate(lines) if line.endswith(" {")) + 1
        known.update(zip(_defined("\n".join(lines[:head])), described["parameters"], strict=False))
        statements = _blocks(lines[head:], indent)
        for node, statement in zip(described["nodes"], statements, strict=False):
            known.update(zip(_defined(statement[0]), node["results"], strict=False))
            bodies = _blocks(statement[1:-1], indent + _STEP)
            node["bodies"] = [self._body(body, indent + 2 * _STEP, known) for body in bodies]

    def _body(self, lines: list[str], indent: int, known: dict[str, Described]) -> Described:
        lines = lines[:-1]  # without its brace
        text = "\n".join(lines)
        defined = set(_defined(text))
        free = list(dict.fromkeys(name for name in _used(text) if name not in defined))
        head, inside = text.split(" {\n", 1)
        more = ", ".join(f"%{name}: {known[name]['text']}" for name in free)
        start = head.strip().removesuffix(")")
        start += ", " + more if more and start != "(" else more
        made = _C.parse("\n".join([*self._symbols, f"graph @body{start}) {{", inside, "}"]))
        described = _C.describe_graph(made)
        count = len(described["parameters"]) - len(free)
        around = {
            parameter["id"]: known[name]["id"]
            for parameter, name in zip(described["parameters"][count:], free, strict=True)
        }
        described["parameters"] = described["parameters"][:count]
        self._renumber(described, around)
        self._read(described, lines, indent, dict(known))
        return described

    def _renumber(self, described: Described, around: dict[int, int]) -> None:
        numbers = dict(around)
        for value in (*described["parameters"], *(r for node in described["nodes"] for r in node["results"])):
            numbers[value["id"]] = next(self._unused)
            value["id"] = numbers[value["id"]]

        def renumbered(arg: Any) -> Any:
            if isinstance(arg, list):
                return [renumbered(item) for item in arg]
            return ("value", numbers[arg[1]]) if isinstance(arg, tuple) and arg[0] == "value" else arg

        for node in described["nodes"]:
            node["id"] = next(self._unused)
            node["args"] = renumbered(node["args"])
            node["bodies"] = []
        described["returns"] = renumbered(described["returns"])


def _blocks(lines: list[str], indent: int) -> list[list[str]]:
    """Lines that are indented by so much begin something; what is indented by more, and a brace, belongs to it."""
    blocks: list[list[str]] = []
    for line in lines:
        if line[:indent].isspace() and line[indent] not in " }":
            blocks.append([])
        blocks[-1].append(line)
    return blocks


def _defined(text: str) -> list[str]:
    return [found["name"] for found in _VALUE.finditer(text) if found["defined"]]


def _used(text: str) -> list[str]:
    return [found["name"] for found in _VALUE.finditer(text) if found["name"] and not found["defined"]]
