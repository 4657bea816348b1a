"""The operator table: what Saker knows about PyTorch's operators, and inference of their results.

>>> import torch, saker
>>> saker.ops.infer("aten::mm", torch.empty(2, 3), torch.empty(3, 4)).results[0].sizes
(2, 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import torch

from saker import _C

Size: TypeAlias = int | torch.SymInt


class OperatorInfo(NamedTuple):
    """One operator of the table."""

    name: str  # "aten::add.Tensor"
    schema: str
    cost: str  # how its time is spent: "pointwise", "reduction", "matmul", ...
    variant: str  # "functional", "inplace", "out" or "view"
    traits: tuple[str, ...]  # what the schema does not say: "random", "fails_on_data", ...
    writes: tuple[str, ...]  # arguments that are written


class TensorResult(NamedTuple):
    """What a result tensor looks like."""

    dtype: torch.dtype
    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size
    device: torch.device
    layout: torch.layout
    is_conj: bool
    is_neg: bool


class Inferred(NamedTuple):
    """The results of a call. Lists of tensors are laid out flat."""

    source: str  # "table", or "fallback" for an operator that has no entry
    results: tuple[TensorResult | str, ...]  # of a result that is no tensor the kind: "int", "bool", ...


def operators() -> list[OperatorInfo]:
    """All operators of the table, sorted by name."""
    return [
        OperatorInfo(o["name"], o["schema"], o["cost"], o["variant"], tuple(o["traits"]), tuple(o["writes"]))
        for o in _C.operators()
    ]


def infer(op: torch._ops.OpOverload | str, *args: Any, **kwargs: Any) -> Inferred:
    """What ``op(*args, **kwargs)`` would return, without running it.

    ``op`` is an overload (``torch.ops.aten.add.Tensor``) or its name (``"aten::add.Tensor"``). Raises
    :class:`saker.Refusal` where the operator would not accept the arguments, or where the result depends on data.
    """
    source, results = _C.infer(op, args, kwargs)
    return Inferred(source, tuple(TensorResult(*r[1:]) if r[0] == "tensor" else r[0] for r in results))


def has_entry(op: torch._ops.OpOverload | str) -> bool:
    """Whether the table has an entry for ``op``; the others are inferred by PyTorch's own, slow meta kernels."""
    return _C.has_entry(op)


def fallback_counts() -> dict[str, int]:
    """How often inference had to use a meta kernel, by operator, since the start or the last :func:`reset_counts`."""
    return _C.fallback_counts()


def reset_counts() -> None:
    """Sets the fallback counts to zero."""
    _C.reset_counts()


def fallback_report() -> str:
    """The fallback counts as text, most frequent first."""
    counts: Sequence[tuple[str, int]] = sorted(_C.fallback_counts().items(), key=lambda item: (-item[1], item[0]))
    if not counts:
        return "no operator was inferred by a meta kernel"
    return "\n".join(f"{count:8d}  {name}" for name, count in counts)
