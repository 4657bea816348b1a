"""For tests of generated code: skipped where there is none, with the stage that makes it on, and compiled at once."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
import torch

import saker
from saker import _C

# Saker is built without where there is no LLVM 22.
library = pathlib.Path(_C.__file__).parent / "libsaker_codegen.so"
needs_code = pytest.mark.skipif(not library.exists(), reason="built without code generation: LLVM 22 is missing")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each test of a module that imports it."""
    monkeypatch.setenv("SAKER_COMPILE", "sync")
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def fused(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In each test of a module that imports it."""
    monkeypatch.setenv("SAKER_COMPILE", "sync")
    saker.set_stages("fuse,verify")
    torch.manual_seed(0)
    yield
    saker.set_stages("")
