"""Graphs as dicts, which the engine makes: what a region has, and what its nodes read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# "parameters", "nodes" and "returns" of a region; its nodes have "bodies", which are regions.
Described = dict[str, Any]


def operands(args: Any) -> Iterator[int]:
    """The values among arguments."""
    for arg in args:
        if isinstance(arg, list):
            yield from operands(arg)
        elif isinstance(arg, tuple) and arg[0] == "value":
            yield arg[1]
