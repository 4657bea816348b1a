"""Are two objects alike all the way down: types, values, and which of them are one and the same object."""

from __future__ import annotations

import collections
import dataclasses
import enum
import traceback
import types
from typing import Any

import numpy as np
import torch

_VALUES = (int, float, complex, bool, str, bytes, type(None), range, slice, torch.dtype, torch.device)


class Different(AssertionError):
    pass


def _frames(error: BaseException) -> list[Any]:
    frames = traceback.walk_tb(error.__traceback__)
    return [(frame.f_code.co_qualname, line, frame.f_globals["__name__"]) for frame, line in frames]


class _Comparison:
    def __init__(self) -> None:
        self.pairs: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self.kept: list[Any] = []

    def seen(self, a: Any, b: Any, path: str) -> bool:
        known = self.pairs.get(id(a))
        if known is None and id(b) not in self.back:
            self.pairs[id(a)] = id(b)
            self.back[id(b)] = id(a)
            self.kept += [a, b]
            return False
        if known != id(b):
            raise Different(f"{path}: one object here, two objects there")
        return True

    def same(self, a: Any, b: Any, path: str) -> None:
        if type(a).__qualname__ != type(b).__qualname__:
            raise Different(f"{path}: {type(a).__qualname__} and {type(b).__qualname__}")
        if isinstance(a, torch.Tensor):
            return self.tensors(a, b, path)
        if isinstance(a, (np.ndarray, np.generic)):
            told = [(str(v.dtype), v.shape, v.strides, v.flags.writeable, v.tobytes()) for v in (a, b)]
            return self.check(told[0] == told[1], a, b, path)
        if isinstance(a, enum.Enum):
            return self.check(a.name == b.name, a, b, path)
        if isinstance(a, _VALUES) and type(a) in _VALUES:
            return self.check(repr(a) == repr(b), a, b, path)
        if isinstance(a, type):
            return self.check(a.__qualname__ == b.__qualname__, a, b, path)
        if isinstance(a, (types.ModuleType, types.BuiltinFunctionType)) and a is b:
            return None
        if type(a) is tuple:  # may be shared by the compiler
            return self.sequence(a, b, path)
        if self.seen(a, b, path):
            return None
        if isinstance(a, dict):
            self.check(len(a) == len(b), a, b, path)
            for (k, v), (m, w) in zip(a.items(), b.items(), strict=True):
                self.same(k, m, f"{path} key")
                self.same(v, w, f"{path}[{k!r}]" if isinstance(k, (str, int)) else f"{path}[...]")
        elif isinstance(a, (list, tuple, collections.deque)):
            self.sequence(a, b, path)
        elif isinstance(a, (set, frozenset)):
            self.sequence(sorted(a, key=repr), sorted(b, key=repr), path)
        elif isinstance(a, (int, float, str, bytes)):
            self.check(repr(a) == repr(b), a, b, path)
        elif isinstance(a, types.FunctionType):
            self.check(a.__qualname__ == b.__qualname__ and a.__code__ == b.__code__, a, b, path)
            self.same(a.__defaults__, b.__defaults__, f"{path}.__defaults__")
            self.same([_content(c) for c in a.__closure__ or ()], [_content(c) for c in b.__closure__ or ()], path)
        elif isinstance(a, types.MethodType):
            self.same(a.__func__, b.__func__, f"{path}.__func__")
            self.same(a.__self__, b.__self__, f"{path}.__self__")
        elif isinstance(a, BaseException):
            self.same(a.args, b.args, f"{path}.args")
            self.same(_frames(a), _frames(b), f"{path}.__traceback__")
            self.same([a.__cause__, a.__context__], [b.__cause__, b.__context__], path)
            self.check(a.__suppress_context__ == b.__suppress_context__, a, b, path)
        elif hasattr(a, "func") and hasattr(a, "keywords"):
            self.same([a.func, a.args, a.keywords], [b.func, b.args, b.keywords], path)
        elif hasattr(a, "__next__"):
            self.same(list(a), list(b), f"{path} elements")
        self.attributes(a, b, path)

    def attributes(self, a: Any, b: Any, path: str) -> None:
        mine, theirs = getattr(a, "__dict__", None), getattr(b, "__dict__", None)
        if isinstance(mine, dict):
            self.same(mine, theirs, path + ".__dict__")
        for cls in type(a).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                self.same(getattr(a, name, "unset"), getattr(b, name, "unset"), f"{path}.{name}")

    def sequence(self, a: Any, b: Any, path: str) -> None:
        self.check(len(a) == len(b), a, b, path)
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            self.same(x, y, f"{path}[{i}]")

    def tensors(self, a: torch.Tensor, b: torch.Tensor, path: str) -> None:
        if self.seen(a, b, path):
            return
        for name in ("dtype", "shape", "requires_grad", "is_leaf"):
            self.check(getattr(a, name) == getattr(b, name), getattr(a, name), getattr(b, name), f"{path}.{name}")
        self.check(a.stride() == b.stride(), a.stride(), b.stride(), f"{path}.stride()")
        with torch._C.DisableTorchFunctionSubclass():
            equal = torch.allclose(a.detach(), b.detach(), rtol=1e-5, atol=1e-6, equal_nan=True)
        self.check(equal, a, b, path)

    @staticmethod
    def check(fine: bool, a: Any, b: Any, path: str) -> None:
        if not fine:
            raise Different(f"{path}: {a!r} and {b!r}")


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def compare(a: Any, b: Any, path: str = "result") -> None:
    """Raises Different with the path to the first difference."""
    _Comparison().same(a, b, path)


def tensors_in(objects: Any) -> list[torch.Tensor]:
    """All tensors that can be reached, in order."""
    found: list[torch.Tensor] = []
    seen: set[int] = set()

    def visit(o: Any) -> None:
        if id(o) in seen or isinstance(o, (type, types.ModuleType)):
            return
        seen.add(id(o))
        if isinstance(o, torch.Tensor):
            found.append(o)
        elif isinstance(o, dict):
            for v in o.values():
                visit(v)
        elif isinstance(o, (list, tuple, collections.deque)):
            for v in o:
                visit(v)
        elif isinstance(o, types.MethodType):
            visit(o.__self__)
        elif isinstance(o, types.FunctionType):
            for c in o.__closure__ or ():
                visit(_content(c))
        elif dataclasses.is_dataclass(o) or hasattr(o, "__dict__"):
            visit(getattr(o, "__dict__", {}))

    visit(objects)
    return found
