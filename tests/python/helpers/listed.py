"""Programs that a file of tests lists with a decorator; each is a parameter of one test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest

_F = TypeVar("_F", bound=Callable[..., Any])


class Listed(dict[str, Callable[..., Any]]):
    """By name."""

    def add(self, fn: _F) -> _F:
        self[fn.__name__] = fn
        return fn

    def names(self, known: Mapping[str, str]) -> list[Any]:
        """Those that are ``known`` to differ, by name with the reason, must differ."""
        return [
            pytest.param(name, marks=[pytest.mark.xfail(strict=True, reason=known[name])] if name in known else [])
            for name in self
        ]
