"""functionalize against eager PyTorch: random programs of views and in-place writes, run as they are and functional.

SAKER_PROGRAMS=20000 tries that many programs, SAKER_PROGRAM_SEED=7 those from that seed on.
"""

from __future__ import annotations

import os
import warnings

import pytest
import torch
from programs import Program, copy_of, make_program

import saker

COUNT = int(os.environ.get("SAKER_PROGRAMS", "500"))
FIRST = int(os.environ.get("SAKER_PROGRAM_SEED", "0"))
CHUNKS = 20


class Outcome:
    """What a run of a program leaves: outputs, inputs, and which of them share memory how."""

    def __init__(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        self.tensors = [*inputs, *outputs]
        storages: dict[int, int] = {}
        self.geometry = []
        for t in self.tensors:
            storage = storages.setdefault(t.untyped_storage()._cdata, len(storages))
            bits = (t.is_conj(), t.is_neg())
            self.geometry.append((storage, t.dtype, tuple(t.shape), t.stride(), t.storage_offset(), bits))
        self.same = [[a is b for a in inputs] for b in outputs]
        # All of the inputs' memory, what lies between their elements included.
        self.memory = [torch.empty(0, dtype=t.dtype).set_(t.untyped_storage()) for t in inputs]


def run(program: Program, how) -> Outcome:
    inputs = [copy_of(t) for t in program.inputs]
    torch.manual_seed(0)
    with torch._C._AutoDispatchBelowADInplaceOrView():
        return Outcome(inputs, how(inputs))


def check(found: Outcome, expected: Outcome, what: str) -> None:
    assert found.geometry == expected.geometry, f"{what}: other geometry or aliasing"
    assert found.same == expected.same, f"{what}: an output is, or is not, an input"
    for kind in ("tensors", "memory"):
        for i, (a, b) in enumerate(zip(getattr(found, kind), getattr(expected, kind))):
            place = f"{what}: {kind} {i}: "
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True, msg=lambda m, place=place: place + m)


def compare(seed: int) -> saker._C.Graph:
    program = make_program(seed)
    graph = None
    try:
        graph = saker.parse(program.text)
        graph.verify()
        expected = run(program, program.run)
        check(run(program, graph.run), expected, "as recorded")
        graph.run_passes("functionalize")
        check(run(program, graph.run), expected, "functional")
        once = graph.text
        graph.run_passes("functionalize")
        assert graph.text == once, "running the pass twice changes more"
        graph.run_passes("cse,dce")
        check(run(program, graph.run), expected, "functional, after cse and dce")
    except Exception as error:
        now = graph.text if graph else ""
        pytest.fail(f"seed {seed}: {error}\n\n{program.code}\n\n{program.text}\n{now}", pytrace=False)
    return graph


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs(chunk: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(FIRST + chunk, FIRST + COUNT, CHUNKS):
            compare(seed)
