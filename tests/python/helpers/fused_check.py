"""Compares generated code with eager mode on one random program (``fused_programs``), and makes a failing one small."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

import saker
from fused_programs import Program

Tensor = torch.Tensor

# How far results may be off where eager mode does not determine all bits: times the precision of the least precise
# number on the way, times the largest number on the way. Sums are taken in another order, and functions are within 2
# units.
_RESULT = 64
_GRADIENT = 512


@dataclasses.dataclass
class Outcome:
    results: list[Tensor]
    gradients: list[Tensor | None]


def _run(function: Callable[..., list[Tensor]], program: Program, arguments: list[Tensor]) -> Outcome:
    if not program.backward:
        with torch.no_grad():
            return Outcome(function(*arguments), [])
    leaves = [each.detach().requires_grad_(each.is_floating_point()) for each in arguments]
    results = function(*leaves)
    followed = [each for each in results if each.requires_grad]
    if not followed:
        return Outcome(results, [])
    generator = torch.Generator().manual_seed(program.seed)
    tangents = [torch.randn(each.shape, generator=generator).to(each.dtype) for each in followed]
    wanted = [each for each in leaves if each.requires_grad]
    gradients = torch.autograd.grad(followed, wanted, tangents, allow_unused=True)
    return Outcome([each.detach() for each in results], list(gradients))


def _different(found: Tensor, expected: Tensor, allowed: float, signs: bool = False, strides: bool = True) -> str:
    """How they differ; empty: they do not. `allowed`: 0 for all bits; `signs`: those of zeros too."""
    told = [(each.dtype, tuple(each.shape), each.stride() if strides else ()) for each in (found, expected)]
    if told[0] != told[1]:
        return f"{told[0]} and not {told[1]}"
    if not expected.is_floating_point():
        return "" if torch.equal(found, expected) else _where(found, expected, found != expected)
    nans = expected.isnan()
    if not torch.equal(nans, found.isnan()):
        return _where(found, expected, nans != found.isnan())
    one, other = found.double().nan_to_num(0, 1e300, -1e300), expected.double().nan_to_num(0, 1e300, -1e300)
    if allowed:
        wrong = (one - other).abs() > allowed
    else:
        wrong = ((one != other) | (signs & (one.signbit() != other.signbit()))) & ~nans
    return _where(found, expected, wrong) if wrong.any() else ""


def _where(found: Tensor, expected: Tensor, wrong: Tensor) -> str:
    at = tuple(wrong.nonzero()[0].tolist())
    count = int(wrong.sum())
    return (
        f"{count} of {wrong.numel()} elements differ; at {list(at)}: {found[at].item()} and not {expected[at].item()}"
    )


def failure(program: Program, calls: int = 3, backend: str | None = None, bits: bool = False) -> str:
    """What is wrong with generated code of the program; empty: nothing. ``bits``: with ``precision="eager"``, of which
    all bits are eager mode's."""
    eager = program.function()
    options: dict[str, Any] = {} if backend is None else {"backend": backend}
    if bits:
        options = {"backend": "native", "options": {"precision": "eager"}}
    compiled = saker.compile(program.function(), dynamic=program.dynamic, **options)
    for call in range(calls):
        try:
            expected = _run(eager, program, program.arguments(call))
        except (RuntimeError, IndexError, ValueError):
            if call == 0:
                raise
            continue  # the program has no meaning for these sizes
        try:
            found = _run(compiled, program, program.arguments(call))
        except Exception as error:
            return f"call {call} raises {type(error).__name__}: {error}"
        scale = program.scales(program.arguments(call))
        for name, one, other in zip(program.returned, found.results, expected.results, strict=True):
            allowed = 0 if bits or program.exact[name] else _RESULT * program.eps[name] * max(scale[name], 1)
            if different := _different(one, other, allowed, program.keeps_signs):
                return f"call {call}, {name}: {different}"
        if different := _gradients(program, found, expected, scale, bits):
            return f"call {call}, {different}"
    return ""


def _gradients(program: Program, found: Outcome, expected: Outcome, scales: dict[str, float], bits: bool) -> str:
    floats = [f"x{i}" for i, each in enumerate(program.inputs) if each.dtype.is_floating_point]
    names = {line.name for line in program.lines} | set(floats)
    precisions = [torch.finfo(each.dtype).eps for each in program.inputs if each.dtype.is_floating_point]
    eps = max([*precisions, *(program.eps[name] for name in names)], default=0)
    scale = max([scales[name] for name in names], default=1)
    if len(found.gradients) != len(expected.gradients):
        return f"{len(found.gradients)} gradients and not {len(expected.gradients)}"
    for name, one, other in zip(floats, found.gradients, expected.gradients, strict=False):
        if (one is None) != (other is None):
            return f"the gradient of {name} is {'missing' if one is None else 'there'}"
        if one is None or other is None:
            continue
        largest = float(other.double().nan_to_num(0, 0, 0).abs().max()) if other.numel() else 1
        allowed = 0 if bits else _GRADIENT * eps * max(scale, 1) * max(largest, 1)
        # The order in which gradients are added decides their strides, with generated code or without.
        if different := _different(one, other, allowed, strides=False):
            return f"the gradient of {name}: {different}"
    return ""


def smallest(program: Program, wrong: str, bits: bool = False) -> tuple[Program, str]:
    """The shortest part of the program that is wrong too, and how."""
    tried = [program.keeping([line.name]) for line in program.lines]
    tried += [dataclasses.replace(each, backward=False) for each in tried if program.backward]
    tried += [dataclasses.replace(each, dynamic=False) for each in tried if program.dynamic]
    for each in sorted(tried, key=lambda one: (len(one.lines), one.backward, one.dynamic)):
        if len(each.lines) < len(program.lines) and (found := failure(each, bits=bits)):
            return each, found
    return program, wrong
