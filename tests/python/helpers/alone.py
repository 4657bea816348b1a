"""Tests that need a process of their own: they replace parts of PyTorch, or need the only thread.

CPython does not give a class its old slots back when a special method that was replaced is put back, and a worker of
pytest has two threads.
"""

from __future__ import annotations

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
    names = test.__code__.co_varnames[: test.__code__.co_argcount]

    def run(request: pytest.FixtureRequest) -> None:
        around = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        node = f"{test.__code__.co_filename}::{request.node.name}"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", node]
        where = Path(__file__).parents[3]
        done = subprocess.run(command, env=around, cwd=where, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout

    if "grad" in names:
        return lambda request, grad: run(request)
    return (lambda request, part: run(request)) if "part" in names else run
