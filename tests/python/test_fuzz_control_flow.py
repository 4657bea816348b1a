"""A short run of the fuzzer over nests of control flow (control_flow_programs.py)."""

from __future__ import annotations

import pytest

import saker
from control_flow_programs import difference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

PROGRAMS, PARTS = 300, 6


@pytest.mark.parametrize("part", range(PARTS))
def test_nests_are_as_in_python(part: int) -> None:
    saker.reset(counts=True)
    found = [difference(seed) for seed in range(part, PROGRAMS, PARTS)]
    assert not [text for text in found if text]
    # Three calls of each; those with Functions, or with gradients inside, run as Python code where they need data.
    assert saker.stats()["replays"] >= 2 * PROGRAMS // PARTS // 3, saker.stats()["stops"]
