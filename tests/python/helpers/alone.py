"""Tests that need a process of their own: they replace parts of PyTorch, or need the only thread.

CPython does not give a class its old slots back when a special method that was replaced is put back, and a worker of
pytest has two threads.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


def alone(test: Callable) -> Callable:
    """The test, run by a pytest of its own where pytest runs in several processes."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return test

    def run(request: pytest.FixtureRequest, **_: object) -> None:
        around = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        node = f"{test.__code__.co_filename}::{request.node.name}"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", node]
        where = Path(__file__).parents[3]
        done = subprocess.run(command, env=around, cwd=where, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout

    # pytest asks for the parameters of the test by their names.
    named = inspect.signature(test).parameters
    kinds = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("request", *named)]
    run.__signature__ = inspect.Signature(list({each.name: each for each in kinds}.values()))  # type: ignore[attr-defined]
    return run
