"""functionalize against eager PyTorch: random programs of views and in-place writes, run as they are and functional.

SAKER_PROGRAMS=20000 tries that many programs, SAKER_PROGRAM_SEED=7 those from that seed on.
"""

from __future__ import annotations

import os
import warnings

import pytest
import torch

import saker
from programs import Program, copy_of, make_program

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
        for i, (a, b) in enumerate(zip(getattr(found, kind), getattr(expected, kind), strict=True)):
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


def test_captured_programs() -> None:
    """The same programs through saker.capture: as recorded and functional."""
    compared = 0
    for seed in range(FIRST, FIRST + COUNT // 5):
        program = make_program(seed)
        # Random numbers are drawn by capture too; the others it does not take.
        if any(word in program.text for word in ("uniform", "normal", "bernoulli", "random", "resize_", "detach_")):
            continue

        def outcome(how, program=program) -> Outcome:
            inputs = [copy_of(t) for t in program.inputs]
            return Outcome(inputs, list(how(*inputs)))

        expected = outcome(lambda *inputs, program=program: program.run(list(inputs)))
        graph = saker.capture(
            lambda *inputs, program=program: program.run(list(inputs)), *[copy_of(t) for t in program.inputs]
        )
        check(outcome(graph), expected, f"seed {seed}, captured\n{program.code}\n")
        check(outcome(graph.functional()), expected, f"seed {seed}, captured and functional\n{program.code}\n")
        compared += 1
    assert compared > COUNT // 20


SYMBOLIC = """\
symbol s0 in [4, inf]
symbol s1 in [2, inf]
graph @main(%x: f32[s0, 2*s1], %n: f32[s1]) {
  %a: f32[s0 - 1, 2*s1]{offset: 2*s1} = aten::slice.Tensor(%x, 0, 1)
  %0: f32[s0 - 1, 2*s1]{offset: 2*s1} = aten::add_.Tensor(%a, 1)
  %b: f32[s0, s1]{strides: [2*s1, 1]}, %c: f32[s0, s1]{strides: [2*s1, 1], offset: s1} = aten::split.Tensor(%x, s1, 1)
  %1: f32[s0, s1]{strides: [2*s1, 1], offset: s1} = aten::add_.Tensor(%c, %n)
  %t: f32[2*s1, s0]{strides: [1, 2*s1]} = aten::t(%x)
  %r: f32[s0]{strides: [2*s1], offset: 1} = aten::select.int(%t, 0, 1)
  %2: f32[s0]{strides: [2*s1], offset: 1} = aten::neg_(%r)
  %f: f32[2*s0*s1] = aten::view(%x, [2*s0*s1])
  %3: f32[2*s0*s1] = aten::mul_.Tensor(%f, 2)
  %y: f32[s0, s1] = aten::exp(%b)
  return %y, %c
}
"""


@pytest.mark.parametrize("rows, columns", [(4, 2), (7, 3)])
def test_one_functional_graph_runs_at_other_sizes(rows: int, columns: int) -> None:
    recorded, functional = saker.parse(SYMBOLIC), saker.parse(SYMBOLIC)
    functional.run_passes("functionalize")
    outcomes = []
    for graph in (recorded, functional):
        inputs = [torch.arange(rows * 2.0 * columns).view(rows, -1), torch.arange(float(columns))]
        outcomes.append(Outcome(inputs, graph.run(inputs)))
    check(outcomes[1], outcomes[0], "functional")
