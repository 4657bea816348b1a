"""``SAKER_VERIFY=1``: what the first replay of a version gives, beside what eager mode gives on copies."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any

import torch

from saker.errors import VerifyError


def run(function: Callable, args: tuple, kwargs: dict[str, Any], replay: Callable[[], Any]) -> Any:
    """What ``replay`` gives. Raises VerifyError where the function gives something else."""
    try:
        owner = getattr(function, "__self__", None)
        target = owner if owner is not None else function
        own, mine, named = copy.deepcopy((target if isinstance(target, torch.nn.Module) else owner, args, kwargs))
    except Exception:  # what cannot be copied is not verified
        return replay()
    if owner is not None:
        callee = types.MethodType(function.__func__, own) if isinstance(function, types.MethodType) else function
    else:
        callee = own if own is not None else function
    before = torch.get_rng_state()
    try:
        expected = callee(*mine, **named)
    except Exception:
        torch.set_rng_state(before)
        return replay()
    torch.set_rng_state(before)
    got = replay()
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    where = f"{code.co_filename}:{code.co_firstlineno}: " if code else ""
    _compare(expected, got, f"{where}{getattr(function, '__qualname__', type(function).__qualname__)}: result", set())
    return got


def _compare(expected: Any, got: Any, path: str, seen: set[int]) -> None:
    if id(expected) in seen:
        return
    seen.add(id(expected))

    def fail(a: Any, b: Any) -> None:
        raise VerifyError(f"{path}: the replay gives {b!r}, eager mode {a!r}")

    if type(expected) is not type(got):
        fail(type(expected), type(got))
    if isinstance(expected, torch.Tensor):
        for name in ("dtype", "shape", "requires_grad", "device"):
            if getattr(expected, name) != getattr(got, name):
                fail(f"{name} {getattr(expected, name)}", f"{name} {getattr(got, name)}")
        if expected.layout != torch.strided or expected.is_meta:
            return
        loose = expected.dtype in (torch.bfloat16, torch.float16)
        a, b = expected.detach(), got.detach()
        if not torch.allclose(a, b, rtol=1e-2 if loose else 1e-4, atol=1e-2 if loose else 1e-5, equal_nan=True):
            fail(expected, got)
    elif isinstance(expected, (list, tuple)):
        if len(expected) != len(got):
            fail(len(expected), len(got))
        for i, (a, b) in enumerate(zip(expected, got, strict=True)):
            _compare(a, b, f"{path}[{i}]", seen)
    elif isinstance(expected, dict):
        if [k for k in expected if isinstance(k, (int, str))] != [k for k in got if isinstance(k, (int, str))]:
            fail(list(expected), list(got))
        for (k, a), b in zip(expected.items(), got.values(), strict=True):
            _compare(a, b, f"{path}[{k!r}]", seen)
    elif isinstance(expected, (int, float, complex, str, bytes)):
        if repr(expected) != repr(got):
            fail(expected, got)
    elif isinstance(getattr(expected, "__dict__", None), dict) and not isinstance(expected, (type, types.FunctionType)):
        _compare(expected.__dict__, got.__dict__, path, seen)
