"""Which kernels of machine code a graph becomes: for ``Graph.kernels()`` and ``saker.explain``."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

from saker import _C


@dataclasses.dataclass
class Kernel:
    """Operators that one kernel, or several launched in turn, computes."""

    operators: list[str]  # in order, views and fills too
    texts: list[str]  # the kernels, in the language that ``saker-kernel`` reads
    bytes_read: int | None  # of tensors, each counted once and whole; None: sizes are not known
    bytes_written: int | None
    seconds: float  # of compiling; of kernels that are kept already, when they were compiled
    code_bytes: int  # 0: they are not compiled
    ended: str  # why no further operator is part of it

    def __str__(self) -> str:
        from saker._explain import duration, size

        counts = collections.Counter(name.removeprefix("aten::").split(".")[0] for name in self.operators)
        names = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counts.items())
        moved = [f"{what} {size(count)}" for what, count in self._moved() if count is not None]
        made = f"compiled in {duration(self.seconds)} to {size(self.code_bytes)}" if self.code_bytes else "not compiled"
        kernels = "1 kernel" if len(self.texts) == 1 else f"{len(self.texts)} kernels"
        return f"{len(self.operators)} operators in {kernels} ({names}): {', '.join([*moved, made])}"

    def _moved(self) -> list[tuple[str, int | None]]:
        return [("reads", self.bytes_read), ("writes", self.bytes_written)]


@dataclasses.dataclass
class Kernels:
    """What generated code makes of a graph. Printing it shows a line for each group of operators."""

    groups: list[Kernel]
    outside: list[str]  # operators that are called one by one
    refused: list[str]  # why groups that were found have no kernels
    reason: str  # why nothing is fused, or nothing compiled; empty: it is
    seconds: dict[str, float]  # by step: "fuse", "lower", "compile"

    def __len__(self) -> int:
        return len(self.groups)

    def __str__(self) -> str:
        lines = [str(each) for each in self.groups]
        if self.outside:
            counts = collections.Counter(self.outside)
            lines.append("called one by one: " + ", ".join(f"{name} x{count}" for name, count in counts.most_common()))
        lines += [f"no kernels: {each}" for each in self.refused]
        if self.reason:
            lines.append(self.reason)
        return "\n".join(lines)


def _sum(kernels: list[dict[str, Any]], key: str) -> int | None:
    numbers = [each[key] for each in kernels]
    return None if None in numbers else sum(numbers)


def kernels_of(graph: _C.Graph, *, simplified: bool, compiled: bool, to_the_bit: bool = False) -> Kernels:
    """``simplified``: the graph has passed that stage. ``compiled``: machine code is made, if it is not there."""
    told = _C.kernels_of(graph, simplified, compiled, to_the_bit)
    groups = [
        Kernel(
            operators=group["operators"],
            texts=[each["text"] for each in group["kernels"]],
            bytes_read=_sum(group["kernels"], "bytes_read"),
            bytes_written=_sum(group["kernels"], "bytes_written"),
            seconds=sum(each["seconds"] for each in group["kernels"]),
            code_bytes=sum(each["code_bytes"] for each in group["kernels"]),
            ended=group["ended"],
        )
        for group in told["groups"]
    ]
    return Kernels(groups, told["outside"], told["refused"], told["reason"], told["seconds"])
