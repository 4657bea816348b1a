"""A short run of the fuzzer over nests of control flow (control_flow_programs.py)."""

from __future__ import annotations

from collections import Counter

import pytest

import saker
from control_flow_programs import choose, difference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

PROGRAMS, PARTS = 300, 6


@pytest.mark.parametrize("part", range(PARTS))
def test_nests_are_as_in_python(part: int) -> None:
    found, programs, replays = [], Counter[bool](), Counter[bool]()
    for seed in range(part, PROGRAMS, PARTS):
        chosen = choose(seed)
        saker.reset(counts=True)
        found.append(difference(seed))
        if chosen.way == "compile":  # what is compiled ahead of time is not counted
            programs[chosen.functions] += 1
            replays[chosen.functions] += saker.stats()["replays"]
    assert not [text for text in found if text]
    # Each is called three times, or five times with sizes that change: all but few of the plain ones are replayed.
    # Those with Functions run as Python code where they need data.
    assert replays[False] >= 1.5 * programs[False]
    assert replays[True] >= 0.5 * programs[True]
