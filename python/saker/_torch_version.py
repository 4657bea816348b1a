"""Refuses a PyTorch that this Saker was not built against. Its C++ interface differs from release to release: without
this, the import ends with the name of a symbol that is not there, or worse, it does not end."""

from __future__ import annotations

from pathlib import Path

# Written by the build, beside the extension.
_BUILT = Path(__file__).with_name("torch_version.txt")


def check(installed: str, built: str | None = None) -> None:
    """Raises ImportError if the two are not the same release; what follows a plus (cpu, cu130) may differ."""
    if built is None:
        try:
            built = _BUILT.read_text().strip()
        except FileNotFoundError:
            raise ImportError(f"this Saker has not been built: there is no {_BUILT.name} beside its extension") from None
    if installed.partition("+")[0] != built.partition("+")[0]:
        raise ImportError(
            f"this Saker was built against torch {built}, and the torch that is installed is {installed}; "
            f"install torch {built.partition('+')[0]}, or build Saker against torch {installed}"
        )
