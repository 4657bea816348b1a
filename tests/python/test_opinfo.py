"""The OpInfo sweep as tests: one for each entry. A few samples of each normally, everything with SAKER_SWEEP=full.
What all of it showed, and what was not judged and why, stands at the end of pytest's report (conftest.py)."""

import os

import pytest

from conftest import SWEEPS
from judge import Judge
from opinfo_sweep import ENTRIES, FAST, FULL, Sweep, name_of


@pytest.fixture(scope="module")
def sweep(request: pytest.FixtureRequest) -> Sweep:
    sweep = Sweep(Judge(), FULL if os.environ.get("SAKER_SWEEP") == "full" else FAST)
    request.config.stash[SWEEPS].append(sweep)
    return sweep


@pytest.mark.parametrize("op", ENTRIES, ids=name_of)
def test_inference_equals_eager(sweep: Sweep, op) -> None:
    failures = sweep.run(op)
    assert not failures, f"{len(failures)} mismatches:\n" + "\n".join(failures[:20])
