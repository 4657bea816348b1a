"""The matrix: what a program does to an argument, what it returns, how its arguments are related, what requires grad,
and the grad mode of the caller. Everything that a caller can see is compared with eager mode."""

from __future__ import annotations

import itertools
import math
import os
import random
import warnings
from typing import Any

import pytest
import torch

import aot_matrix
import saker
from aot_matrix import EARLY_VIEW, GRADS, MODES, MUTATIONS, RELATIONS, RESULTS

torch.set_num_threads(1)

# One in so many of all 50,400 combinations; which ones is fixed. With SAKER_SWEEP=full, all.
SHARE = 1 if os.environ.get("SAKER_SWEEP") == "full" else 12


def close(got: Any, expected: Any) -> bool:
    if got == expected:  # nearly always, and fast
        return True
    if isinstance(got, float) and isinstance(expected, float):
        if math.isnan(got) or math.isnan(expected):
            return math.isnan(got) and math.isnan(expected)
        return got == expected or abs(got - expected) <= 1e-5 * max(1.0, abs(expected))
    if isinstance(got, (list, tuple)) and type(got) is type(expected):
        return len(got) == len(expected) and all(map(close, got, expected))
    return type(got) is type(expected) and got == expected


def difference(mutation: str, result: str, relation: str, grad: str, mode: str) -> str | None:
    fn = aot_matrix.program(mutation, result)
    expected = list(aot_matrix.outcome(fn, relation, grad, mode))
    for turn, partition in (("first", "default"), ("first", "min_cut"), ("second", "min_cut")):
        if turn == "first":
            compiled = saker.aot_function(fn, partition_fn=partition)
        got = list(aot_matrix.outcome(compiled, relation, grad, mode))
        for (step, seen), (expected_step, wanted) in zip(got, expected, strict=False):
            if step != expected_step or not close(seen, wanted):
                return f"{partition}, {turn} call, {step}: {seen} instead of {expected_step}: {wanted}"
        if len(got) != len(expected):
            return f"{turn} call: {len(got)} steps instead of {len(expected)}"
    return None


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_matrix(mutation: str, relation: str) -> None:
    cases = list(itertools.product((*RESULTS, EARLY_VIEW), GRADS, MODES))
    random.Random(f"{mutation} {relation}").shuffle(cases)
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for result, grad, mode in cases[: len(cases) // SHARE]:
            found = difference(mutation, result, relation, grad, mode)
            if found:
                wrong.append(f"{result} / {grad} / {mode}: {found}")
    assert not wrong, "\n".join([f"{len(wrong)} differ", *wrong[:5]])


# Autograd sees these writes: results depend on the written argument, which is a result itself, and the backward is not
# cut at what is written in place.
SEEN = {"mul_", "add_ the other", "copy_", "through a view", "through t", "twice", "hidden, then seen", "squeeze_"}
SEEN |= {"as_strided_", "t_ and mul_", "mul_, transpose_, add_"}
SEEN |= {"data"}  # autograd does not see it, and what it follows has other numbers (writes-data-of-argument)


@pytest.mark.parametrize(("grad", "eager"), [("no grad", set()), ("history", SEEN)])
def test_matrix_is_compiled(grad: str, eager: set[str]) -> None:
    """Eager mode is a way out for what autograd or the caller refuses, and for results that depend on a write."""
    ran = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # After t_ under no_grad, gradients have sizes that eager mode's own backward refuses.
        mutations = [name for name in MUTATIONS if name != "no_grad t_"]
        for mutation, result in itertools.product(mutations, ("fresh", "views", "detached twin")):
            before = saker.stats()["fallbacks"]
            fn = saker.aot_function(aot_matrix.program(mutation, result))
            list(aot_matrix.outcome(fn, "separate", grad, "grad"))
            if saker.stats()["fallbacks"] != before:
                ran.add(mutation)
    assert ran == eager
