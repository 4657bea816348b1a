"""The options of ``saker.compile``: which modes, options and names of back ends there are.

PyTorch's compiler is not imported to find out. A name that nobody knows is an error that lists those that are known.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any, NamedTuple

import torch

from saker._names import meant
from saker.errors import OptionError

# Modes of torch.compile. They choose how code is generated, so they change nothing here.
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")

# Options that torch.compile tells of. They are about generated code and about which guards are kept: accepted, and
# without effect.
_OF_TORCH = (
    "epilogue_fusion",
    "fallback_random",
    "guard_filter_fn",
    "max_autotune",
    "shape_padding",
    "trace.enabled",
    "trace.graph_diagram",
    "triton.cudagraphs",
    "use_aoti",
)


class Backend(NamedTuple):
    """What runs recorded programs: Saker's own executor, or a callable of the user's."""

    ahead: bool  # through ahead-of-time autograd
    compiler: Callable | None
    native: bool = False  # operators that belong together become kernels of machine code


_ATEN = Backend(True, None)
_OWN = {
    "aten": _ATEN,
    "native": Backend(True, None, native=True),
    "inductor": _ATEN,
    "aot_eager": _ATEN,
    "eager": Backend(False, None),
}

# Of generated code: which functions it calls for exp and its like.
PRECISIONS = ("default", "eager")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


@functools.cache
def _entry_points() -> dict[str, metadata.EntryPoint]:
    return {entry.name: entry for entry in metadata.entry_points(group="torch_dynamo_backends")}


def _registered() -> dict[str, Callable]:
    """Back ends that the program has registered with PyTorch; none if its registry was never loaded."""
    registry = sys.modules.get("torch._dynamo.backends.registry")
    return dict(getattr(registry, "_COMPILER_FNS", {}))


def backend_of(backend: Any) -> Backend:
    """The back end that was asked for, by name or as a callable."""
    if callable(backend):
        return Backend(False, backend)
    if not isinstance(backend, str):
        raise TypeError(f"backend must be a name or a callable, not a {type(backend).__name__}")
    if backend in _OWN:
        return _OWN[backend]
    found = _registered().get(backend)
    if found is None and backend in _entry_points():
        found = _entry_points()[backend].load()
    if found is None:
        others = sorted({*_registered(), *_entry_points()} - set(_OWN))
        more = f"; registered with PyTorch: {_listed(others)}" if others else ""
        more += meant(backend, [*_OWN, *others])
        raise OptionError(f"unknown backend {backend!r}: one of {_listed(_OWN)}, or a callable{more}")
    if not callable(found):
        raise TypeError(f"the back end {backend!r} that is registered with PyTorch is a {type(found).__name__}")
    return Backend(False, found)


@functools.cache
def _inductor_options() -> frozenset[str]:
    """The names of PyTorch's code generator's options, as its file spells them."""
    path = os.path.join(os.path.dirname(torch.__file__), "_inductor", "config.py")
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError):
        return frozenset()
    return frozenset(_assigned(tree.body, ""))


def _assigned(statements: list[ast.stmt], prefix: str) -> Iterable[str]:
    for statement in statements:
        if isinstance(statement, ast.ClassDef):
            yield from _assigned(statement.body, f"{prefix}{statement.name}.")
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield prefix + statement.target.id
        elif isinstance(statement, ast.Assign):
            yield from (prefix + target.id for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.If):
            yield from _assigned([*statement.body, *statement.orelse], prefix)


def check_flags(dynamic: Any = None, **flags: Any) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise OptionError(f"{name} must be True or False, not {value!r}")
    if dynamic is not None and not isinstance(dynamic, bool):
        raise OptionError(f"dynamic must be True, False or None, not {dynamic!r}")


def check_mode(mode: Any, options: Any) -> None:
    if mode is not None and mode not in MODES:
        raise OptionError(f"unknown mode {mode!r}: one of {_listed(MODES)}{meant(mode, MODES)}")
    if mode is not None and options is not None:
        raise OptionError("either mode or options can be given, not both")


def check_options(options: Any, backend: Backend) -> None:
    """A callable gets the options that it is given; Saker's own executor must know them."""
    if options is None:
        return
    if not isinstance(options, dict):
        raise TypeError(f"options must be a dict, not a {type(options).__name__}")
    if backend.compiler is not None:
        return
    for name, value in options.items():
        if name == "precision" and backend.native:
            if value not in PRECISIONS:
                raise OptionError(
                    f"unknown precision {value!r}: one of {_listed(PRECISIONS)}{meant(value, PRECISIONS)}"
                )
            continue
        if name in _OF_TORCH or (isinstance(name, str) and name.replace("-", "_") in _inductor_options()):
            continue
        raise OptionError(
            f'unknown option {name!r}: Saker has "precision", with backend="native"; those of torch.compile\'s code '
            f"generator are accepted and change nothing ({_listed(_OF_TORCH)}, ...)"
            f"{meant(name, ['precision', *_OF_TORCH, *_inductor_options()])}"
        )


def wants_all_bits(options: dict[str, Any] | None) -> bool:
    return (options or {}).get("precision") == "eager"


def limit_of(limit: Any) -> int:
    """How often a function is recorded; 0 stands for the setting of the process."""
    return 0 if limit is None else checked_limit(limit)


def checked_limit(limit: Any) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"a recompile limit must be an int, not a {type(limit).__name__}")
    if limit < 1:
        raise OptionError(f"a recompile limit must be at least 1, not {limit}")
    return limit


def checked_budget(budget: Any) -> float:
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise TypeError(f"memory_budget must be a number, not a {type(budget).__name__}")
    if not 0 <= budget <= 1:
        raise OptionError(f"memory_budget must lie between 0 and 1, not at {budget}")
    return float(budget)


def checked_compiler(name: str, compiler: Any) -> Any:
    if compiler is not None and not callable(compiler):
        raise TypeError(f"{name} must be a callable, not a {type(compiler).__name__}")
    return compiler
