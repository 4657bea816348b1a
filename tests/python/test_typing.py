"""What type checkers say about programs that use Saker: the samples have an error exactly where they say so.

The checkers are large (mypy 19 MB, basedpyright 280 MB with the node it brings), so ``make test`` does not install
them; ``make test-types``, a part of ``make test-all``, does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SAMPLES = sorted((HERE / "typing_samples").glob("*.py"))
PACKAGE = HERE.parents[1] / "python"


def program(name: str) -> str:
    folder = os.environ.get("SAKER_TYPE_CHECKERS", "")
    found = shutil.which(name, path=folder or None) or shutil.which(name, path=str(Path(sys.executable).parent))
    if not found:
        reason = f"{name} is not installed: `make test-types` installs it"
        print(f"skipped: {reason}")
        pytest.skip(reason)
    return found


def expected(sample: Path) -> set[int]:
    lines = sample.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# error")}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_mypy(sample: Path, tmp_path: Path) -> None:
    command = [program("mypy"), "--python-executable", sys.executable, "--cache-dir", str(tmp_path), "-O", "json"]
    done = subprocess.run(
        [*command, str(sample)],
        env={**os.environ, "MYPYPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    errors = {row["line"]: row["message"] for row in rows if row["severity"] == "error"}
    assert set(errors) == expected(sample), f"{errors}\n{done.stderr}"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_pyright(sample: Path, tmp_path: Path) -> None:
    settings = tmp_path / "pyrightconfig.json"
    settings.write_text(
        json.dumps({"include": [str(sample)], "extraPaths": [str(PACKAGE)], "typeCheckingMode": "standard"})
    )
    done = subprocess.run(
        [program("basedpyright"), "-p", str(settings), "--pythonpath", sys.executable, "--outputjson"],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    rows = json.loads(done.stdout)["generalDiagnostics"]
    errors = {row["range"]["start"]["line"] + 1: row["message"] for row in rows if row["severity"] == "error"}
    assert set(errors) == expected(sample), errors


def test_the_samples_have_errors() -> None:
    assert all(expected(sample) for sample in SAMPLES)
    assert SAMPLES
