"""The OpInfo sweep through generated code as tests, one for each entry: a sample of float32 and of one other dtype
normally, all samples of five dtypes in three layouts with SAKER_SWEEP=full; once more with ``precision="eager"``, which
has eager mode's bits."""

from __future__ import annotations

import os
import warnings

import pytest
import torch

from generated_code import needs_code
from native_opinfo import DTYPES, run_entry
from opinfo_sweep import ENTRIES, name_of

FULL = os.environ.get("SAKER_SWEEP") == "full"
pytestmark = needs_code


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAKER_COMPILE", "sync")
    torch.set_num_threads(1)


@pytest.mark.parametrize("number", range(len(ENTRIES)), ids=lambda number: name_of(ENTRIES[number]))
def test_generated_code_equals_eager(number: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = (DTYPES[0], DTYPES[1 + number % (len(DTYPES) - 1)])
        outcome = run_entry(ENTRIES[number], None if FULL else 1, DTYPES if FULL else few, every=FULL)
        exact = run_entry(ENTRIES[number], None if FULL else 1, DTYPES if FULL else few[:1], every=FULL, bits=True)
    outcome.failed.update(exact.failed)
    failed = [f"{case}: {why}" for case, why in outcome.failed.items()]
    assert not failed, f"{len(failed)} cases differ:\n" + "\n".join(failed[:20])
