"""Random programs of what people write around tensors, in every way to run them, against eager mode."""

from __future__ import annotations

import pytest

import saker
from attack_programs import WAYS, difference

PROGRAMS, PARTS = 24, 2


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("way", WAYS)
def test_programs_are_as_in_eager_mode(way: str, part: int) -> None:
    before = saker.stats()["replays"]
    found = [difference(seed, way) for seed in range(part, PROGRAMS, PARTS)]
    assert not [text for text in found if text]
    if way in ("compile", "dynamic", "eager"):
        assert saker.stats()["replays"] - before >= PROGRAMS // PARTS
