"""A short run of the fuzzer over pairs of a random program and a random change of the world (fuzz_pairs.py)."""

from __future__ import annotations

import pytest

import fuzz_pairs
from alone import alone

PAIRS = 4000
SEED = 1_000


@pytest.mark.parametrize("part", range(4))
@alone
def test_changes_between_calls_are_noticed(part: int) -> None:
    counts, found = fuzz_pairs.run(PAIRS // 4, SEED + 10_000 * part)
    assert not found, found[0]
    assert sum(counts.replayed.values()) > PAIRS // 16
