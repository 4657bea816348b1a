"""Names that nobody knows: errors that say which one was meant. Keywords of public functions, and SAKER_ variables."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import warnings
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import torch

_F = TypeVar("_F", bound=Callable)

# Variables of the environment, with the values that they may have: any, where there is nothing.
_VARIABLES: dict[str, tuple[str, ...]] = {
    "SAKER_CODEGEN_LIBRARY": (),
    "SAKER_COMPILE": ("sync",),
    "SAKER_CPU": ("avx512", "avx2", "sse4", "scalar"),
    "SAKER_KEEP_MEMORY": ("0", "1"),
    "SAKER_LOGS": (),
    "SAKER_OPT": (),
    "SAKER_PERF_MAP": (),
    "SAKER_RECOMPILE_LIMIT": (),
    "SAKER_STAGES": (),
    "SAKER_VERIFY": (),
}
# Those of the build and of the tests are none of the package's, and look like some of these.
_OF_THE_SOURCE = ("SAKER_CODEGEN", "SAKER_KERNEL", "SAKER_OTHER_PYTHONS", "SAKER_TORCH", "SAKER_WATCH_MODULE")


def meant(name: object, known: Iterable[str]) -> str:
    """The rest of a sentence about a name that is unknown; empty where none is like it."""
    close = difflib.get_close_matches(name.lower(), known, 1, 0.6) if isinstance(name, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""


def check_keywords(function: str, given: Iterable[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            raise TypeError(f"{function} has no keyword {name!r}{meant(name, known) or '; it has ' + ', '.join(known)}")


def keywords_of(function: Callable) -> list[str]:
    """Parameters that can be given by their names."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [name for name, each in inspect.signature(function).parameters.items() if each.kind in kinds]


def checks_keywords(*ignored: str) -> Callable[[_F], _F]:
    """The function, with an error that names the nearest keyword. ``ignored`` are accepted and change nothing."""

    def decorate(function: _F) -> _F:
        known = keywords_of(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not kwargs.keys() <= set(known):
                kwargs = {name: value for name, value in kwargs.items() if name not in ignored}
                check_keywords(f"saker.{function.__name__}", kwargs, known)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def takes(function: Callable, name: str) -> bool:
    """Whether a function may have this keyword; yes, where its signature is unknown."""
    if isinstance(function, torch.nn.Module):
        function = function.forward
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True
    return name in parameters or any(each.kind == each.VAR_KEYWORD for each in parameters.values())


def check_environment() -> None:
    """Tells of variables that look like ours and are not, and of values that are none."""
    for name, value in sorted(os.environ.items()):
        if not name.startswith("SAKER_") or name in _OF_THE_SOURCE:
            continue
        if name not in _VARIABLES:
            close = difflib.get_close_matches(name, _VARIABLES, 1, 0.8)
            if close:
                warnings.warn(f"Saker reads no variable {name}; did you mean {close[0]}?", stacklevel=3)
            continue
        values = _VARIABLES[name]
        if values and value and value not in values:
            told = " or ".join(values) if len(values) < 3 else "one of " + ", ".join(values)
            warnings.warn(f"{name} must be {told}, not {value!r}", stacklevel=3)
