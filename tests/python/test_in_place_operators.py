"""Pointwise operators that replays let compute into one of their operands: each may, whichever operand it is."""

from __future__ import annotations

import pytest
import torch

from saker import ops

TABLE = {row.name: row for row in ops.operators()}
SHAPES = [(37, 41), (3, 4), (1,)]
KINDS = [(torch.float32, False), (torch.int64, True), (torch.bfloat16, False), (torch.bool, True)]


def overload(name: str) -> torch._ops.OpOverload | None:
    base, _, form = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, base, None), form or "default", None)


def into(name: str) -> torch._ops.OpOverload | None:
    """The variant that computes into its last argument, with a kernel of its own (src/runtime/plan_memory.cpp)."""
    base, _, form = name.partition(".")
    plain = overload(name)
    for variant in (f"{form}_out" if form else "out", "out"):
        found = overload(f"{base}.{variant}")
        if found is None or not torch._C._dispatch_has_kernel_for_dispatch_key(found.name(), "CPU"):
            continue
        taken, wanted = found._schema.arguments[:-1], plain._schema.arguments
        if [(a.name, str(a.type)) for a in taken] == [(a.name, str(a.type)) for a in wanted]:
            return found
    return None


def in_place(name: str) -> str:
    base, dot, form = name.partition(".")
    return f"{base}_{dot}{form}"


NAMES = [
    row.name
    for row in TABLE.values()
    if row.cost == "pointwise"
    and row.variant == "functional"
    and "random" not in row.traits
    and in_place(row.name) in TABLE
    and overload(row.name) is not None
    and into(row.name) is not None
]


def given(kind: str, dtype: torch.dtype, shape: tuple[int, ...], whole: bool) -> object:
    if kind == "Tensor":
        return torch.randint(1, 7, shape).to(dtype) if whole else (torch.rand(shape) * 2 + 0.1).to(dtype)
    if "number" in kind and "Optional" not in kind:
        return 2 if whole else 0.5
    return {"int": 1, "float": 0.5, "bool": False, "str": "none"}.get(kind)


def test_there_are_many() -> None:
    assert len(NAMES) > 80


@pytest.mark.parametrize("name", NAMES)
def test_into_an_operand(name: str) -> None:
    torch.manual_seed(0)
    plain, out = overload(name), into(name)
    arguments = plain._schema.arguments
    ran = 0
    for shape in SHAPES:
        for dtype, whole in KINDS:
            made = {a.name: given(str(a.type), dtype, shape, whole) for a in arguments}
            try:
                expected = plain(**made)
            except RuntimeError:  # not for this dtype
                continue
            for key, value in made.items():
                if not isinstance(value, torch.Tensor) or (value.dtype, value.shape) != (
                    expected.dtype,
                    expected.shape,
                ):
                    continue
                fresh = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in made.items()}
                place = fresh[key].as_strided(value.shape, value.stride())  # another tensor on the same memory
                out(**fresh, **{out._schema.arguments[-1].name: place})
                assert torch.equal(place.nan_to_num(), expected.nan_to_num()), (key, dtype, shape)
                ran += 1
    if not ran:
        pytest.skip("no argument of it has the dtype of its result, or it wants other arguments")
