"""The OpInfo sweep over replays of saker.compile as tests, one for each entry: two samples of float32 normally, all
samples of five dtypes with SAKER_SWEEP=full. What is not replayed is counted by reason at the end of the report."""

from __future__ import annotations

import os
import warnings

import pytest
import torch

from conftest import REPLAY_SWEEP
from opinfo_sweep import ENTRIES, name_of
from replay_opinfo import DTYPES, Outcome, run_entry

FULL = os.environ.get("SAKER_SWEEP") == "full"


@pytest.fixture(scope="module")
def total(request: pytest.FixtureRequest) -> Outcome:
    torch.set_num_threads(1)
    request.config.stash[REPLAY_SWEEP].append(Outcome())
    return request.config.stash[REPLAY_SWEEP][-1]


@pytest.mark.parametrize("op", ENTRIES, ids=name_of)
def test_replay_equals_eager(total: Outcome, op) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = run_entry(op, None if FULL else 2, DTYPES if FULL else DTYPES[:1])
    total.add(outcome)
    failed = [f"{case}: {why}" for case, why in outcome.failed.items()]
    assert not failed, f"{len(failed)} cases differ:\n" + "\n".join(failed[:20])
