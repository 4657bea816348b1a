"""The demo runs without a warning, and what it prints of Saker is true: results equal, everything captured, replays."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_demo_prints_that_results_are_equal() -> None:
    command = [sys.executable, "-W", "error", str(DEMO), "--layers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("saker.compile ")]
    assert len(rows) == 2, done.stdout  # inference and training
    assert all(row.endswith("equal, bit by bit") for row in rows), done.stdout
    assert "captured: whole" in done.stdout
    assert re.search(r"graphs recorded: 3, calls replayed: 60$", done.stdout.strip()), done.stdout
    assert not done.stderr
