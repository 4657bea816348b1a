"""The OpInfo sweep through saker.aot_function as tests, one for each entry: a sample of each dtype normally, all with
SAKER_SWEEP=full. What is known not to pass stands in aot_opinfo_known.txt with its reason, and at the end of pytest's
report; a sample that is named there and passes is a failure too."""

from __future__ import annotations

import os
import warnings

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from aot_opinfo import Outcome, name_of, read_known, run_entry
from conftest import AOT_SWEEP
from torch_versions import KNOWN_FAILURES_ARE_CURRENT

FULL = os.environ.get("SAKER_SWEEP") == "full"
KNOWN = read_known()
LIMIT = None if FULL else 1


@pytest.fixture(scope="module")
def total(request: pytest.FixtureRequest) -> Outcome:
    torch.set_num_threads(1)
    request.config.stash[AOT_SWEEP].append(Outcome())
    return request.config.stash[AOT_SWEEP][-1]


@pytest.mark.parametrize("op", op_db, ids=name_of)
def test_compiled_equals_eager(total: Outcome, op) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = run_entry(op, LIMIT)
    total.add(outcome)
    new = [f"{sample}: {why}" for sample, why in outcome.failed.items() if sample not in KNOWN]
    assert not new, f"{len(new)} samples fail:\n" + "\n".join(new[:20])
    fixed = [str(sample) for sample in outcome.ran if sample in KNOWN and sample not in outcome.failed]
    assert not fixed or not KNOWN_FAILURES_ARE_CURRENT, "these pass, and are listed as failing: " + ", ".join(
        fixed[:20]
    )


def test_known_failures_are_few() -> None:
    """All samples there are: some 37,500 (torch 2.13)."""
    assert len(KNOWN) < 37_500 * 0.03
