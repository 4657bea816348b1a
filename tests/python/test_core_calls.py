"""Which of PyTorch's core operators no kernel is made of: those of ``helpers/core_calls.txt``, each with its reason."""

from __future__ import annotations

import pathlib

import pytest
import torch

from missing_elements import core_operators
from saker import _C

LIST = pathlib.Path(__file__).parent / "helpers" / "core_calls.txt"
LINES = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
REASONS = {name: reason for name, _, reason in (line.partition(": ") for line in LINES)}
TABLE = {each["name"]: each for each in _C.operators()}


def test_all_others_have_rules() -> None:
    names = core_operators()
    assert len(names) > 150
    assert sorted(REASONS) == [name for name in names if not TABLE[name]["generated"]]


@pytest.mark.parametrize("name", [name for name, reason in REASONS.items() if reason == "composite"])
def test_composite_ones_are_recorded_as_others(name: str) -> None:
    """PyTorch makes other operators of them above the place where operators are recorded."""
    assert torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")


@pytest.mark.parametrize("word", ["library", "random"])
def test_reasons_agree_with_the_table(word: str) -> None:
    named = {name for name, reason in REASONS.items() if reason.startswith(word)}
    libraries = ("matmul", "convolution", "attention", "sort", "library")
    of_table = {
        name
        for name in REASONS
        if ("random" in TABLE[name]["traits"] if word == "random" else TABLE[name]["cost"] in libraries)
    }
    assert named == of_table
