"""Small programs in families: each module here is one, each function in it makes the world of one program."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType

from .world import World

_TOOLS = {"__init__", "__main__", "alike", "run", "world"}


def programs() -> Iterator[tuple[str, Callable[[], World]]]:
    """Name (family.program) and maker of every program, in order."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem in _TOOLS:
            continue
        module = importlib.import_module(f"{__name__}.{path.stem}")
        for name, make in list(vars(module).items()):
            if isinstance(make, FunctionType) and make.__module__ == module.__name__ and not name.startswith("_"):
                yield f"{path.stem}.{name}", make
