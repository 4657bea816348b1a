"""Runs PyTorch's tests of its compiler against Saker, and counts.

    run.py FOLDER [FILE...]      FOLDER as filled by fetch.sh; FILE such as functorch/test_aotdispatch.py

A test counts when it passes and something was captured in it. baseline/ lists the tests that count with torch.compile
itself, but for those that excused.txt takes out; known_*.txt say why one of them does not with Saker. With --twice
each compiled function is called on copies of its arguments first, and what the test sees must be a replay
(baseline-twice/). Prints a line for each file and one for each test that is
missing. The exit status is 1 if a test is missing that is not known.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOT_HERE = "not cuda and not OpInfo and not ModuleInfo and not Exhaustive"


def outcomes(test: Path, args: argparse.Namespace) -> tuple[dict[str, set[str]], str]:
    """Names of tests by outcome, and pytest's last line."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        results.touch()
        package = HERE.parent.parent / "python"
        paths = [str(HERE), os.environ.get("PYTHONPATH", ""), str(package)]
        variables = {"UPSTREAM_ENGINE": args.engine, "UPSTREAM_TWICE": "1" if args.twice else "0"}
        variables |= {"UPSTREAM_RESULTS": str(results), "PYTHONPATH": os.pathsep.join(paths)}
        select = f"{NOT_HERE} and ({args.k})" if args.k else NOT_HERE
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(args.jobs), "-p", "no:cacheprovider", "-p", "engine"]
        command += ["--timeout", "60", "-k", select, test.name]
        ran = subprocess.run(
            command, cwd=test.parent, env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
        found: dict[str, set[str]] = {"passed": set(), "failed": set(), "skipped": set()}
        for line in results.read_text().splitlines():
            outcome, _, name = line.partition(" ")
            found[outcome].add(name)
    lines = (ran.stdout + ran.stderr).strip().splitlines()
    return found, lines[-1] if lines else "pytest said nothing"


def known_reasons(stem: str) -> dict[str, str]:
    """Lines `name: reason`; a name that ends in * stands for all that begin so."""
    path = HERE / f"known_{stem.removeprefix('test_')}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    pairs = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {name: reason for name, _, reason in pairs}


def reason_of(name: str, known: dict[str, str]) -> str | None:
    for key, reason in known.items():
        if name == key or (key.endswith("*") and name.startswith(key[:-1])):
            return reason
    return None


def report(test: Path, root: Path, args: argparse.Namespace) -> tuple[int, int, int]:
    """Prints what came out; gives how many tests count, how many should, and how many miss for no known reason."""
    found, last = outcomes(test, args)
    passed = found["passed"] - found["failed"] - found["skipped"]
    baseline = HERE / ("baseline-twice" if args.twice else "baseline") / f"{test.stem}.txt"
    expected = set(baseline.read_text().split()) if baseline.exists() else set()
    missing = sorted(expected - passed)
    print(f"{test.relative_to(root)}: {len(expected & passed)} of {len(expected)}   ({last})", flush=True)
    known = known_reasons(test.stem)
    unknown = 0
    for name in missing:
        reason = reason_of(name, known)
        unknown += reason is None
        how = "failed" if name in found["failed"] else "nothing was captured"
        print(f"    {name}: {reason or how + ', NOT KNOWN'}")
    return len(expected & passed), len(expected), unknown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["saker", "torch"], default="saker")
    parser.add_argument("--twice", action="store_true", help="look at replays")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-k", default="", help="only tests that match this expression of pytest's")
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    root = args.folder.resolve()
    tests = [root / name for name in args.files] or sorted(root.glob("*/test_*.py"))
    counts = [report(test, root, args) for test in tests]
    print(f"{sum(c[0] for c in counts)} of {sum(c[1] for c in counts)} tests that torch.compile passes")
    return 1 if any(c[2] for c in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
