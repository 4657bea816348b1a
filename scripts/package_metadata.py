"""What pip is told about the package that pyproject.toml does not hold: its version, and the torch that it needs.

A build works with the torch release that it was built against and with no other, so the wheel asks for that release.
A source package does not know it yet, and asks for the range that Saker can be built against.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path
from typing import Any

_VERSION = Path(__file__).parents[1] / "python" / "saker" / "_version.py"
_SUPPORTED = "torch>=2.11,<2.16"
_state = "wheel"


def build_state(state: str) -> None:
    global _state  # noqa: PLW0603  (told by scikit-build-core before it asks)
    _state = state


def _torch() -> str:
    if _state == "sdist":
        return _SUPPORTED
    try:
        installed = metadata.version("torch")
    except metadata.PackageNotFoundError:  # CMake refuses to build without one
        return _SUPPORTED
    return f"torch=={installed.partition('+')[0]}"


def dynamic_metadata(settings: dict[str, Any], project: dict[str, Any]) -> dict[str, Any]:
    version = re.search(r'^__version__ = "(.+)"$', _VERSION.read_text(), re.MULTILINE)
    if version is None:
        raise RuntimeError(f"no __version__ in {_VERSION}")
    return {"version": version[1], "dependencies": [_torch()]}


def dynamic_wheel(settings: dict[str, Any]) -> dict[str, bool]:
    return {"dependencies": True}
