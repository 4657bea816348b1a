"""Graphs with branches and loops, written by hand, are run: as they are, and after passes."""

from __future__ import annotations

import pytest
import torch

import saker

COUNTED = """graph @main(%x: f32[4]) {
  %h: f32[4] = saker::loop(3, True, %x) {
    (%i: int, %h0: f32[4]) {
      %h1: f32[4] = aten::sin(%h0)
      %h2: f32[4] = aten::add.Scalar(%h1, %i)
      return True, %h2
    }
  }
  return %h
}
"""
WHILE = """graph @main(%x: f32[4]) {
  %s: f32[] = aten::sum(%x)
  %go: bool[] = aten::lt.Scalar(%s, 100)
  %h: f32[4], %n: int = saker::loop(None, %go, %x, 0) {
    (%i: int, %h0: f32[4], %n0: int) {
      %h1: f32[4] = aten::mul.Tensor(%h0, 2)
      %s1: f32[] = aten::sum(%h1)
      %go1: bool[] = aten::lt.Scalar(%s1, 100)
      return %go1, %h1, %i
    }
  }
  return %h, %n
}
"""
BRANCH = """graph @main(%p: bool[], %x: f32[4], %y: f32[4]) {
  %r: f32[4] = saker::if(%p, %x) {
    (%a: f32[4]) {
      %b: f32[4] = aten::exp(%a)
      return %b
    },
    (%c: f32[4]) {
      %d: f32[4] = aten::sub.Tensor(%c, %y)
      return %d
    }
  }
  return %r
}
"""
WRITES = """graph @main(%p: bool[], %x: f32[4]) {
  %n: int = saker::loop(5, True, 0) {
    (%i: int, %n0: int) {
      saker::if(%p) {
        () {
          %0: f32[4] = aten::add_.Scalar(%x, %i)
          return
        },
        () {
          %1: f32[4] = aten::mul_.Scalar(%x, 2)
          return
        }
      }
      return True, %i
    }
  }
  %y: f32[4] = aten::mul.Tensor(%x, 3)
  return %y, %n
}
"""
# How many there are is found anew in each trip.
FOUND = """symbol u0 in [0, inf]
graph @main(%x: f32[6]) {
  %t: i64[] = aten::full([], 0, dtype=i64)
  %total: i64[], %h: f32[6] = saker::loop(4, True, %t, %x) {
    (%i: int, %t0: i64[], %h0: f32[6]) {
      %m: bool[6] = aten::gt.Scalar(%h0, 0)
      %k: f32[u0] = aten::masked_select(%h0, %m)
      %f: i64[2*u0] = aten::full([2*u0], 1, dtype=i64)
      %c: i64[] = aten::sum(%f)
      %t1: i64[] = aten::add.Tensor(%t0, %c)
      %h1: f32[6] = aten::sub.Scalar(%h0, 1)
      return True, %t1, %h1
    }
  }
  return %total
}
"""


def counted(x: torch.Tensor) -> list[object]:
    for i in range(3):
        x = x.sin() + i
    return [x]


def while_(x: torch.Tensor) -> list[object]:
    n = i = 0
    while x.sum() < 100:
        x, n, i = x * 2, i, i + 1
    return [x, n]


def branch(p: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> list[object]:
    return [x.exp() if p else x - y]


def writes(p: torch.Tensor, x: torch.Tensor) -> list[object]:
    n = 0
    for i in range(5):
        if p:
            x.add_(i)
        else:
            x.mul_(2)
        n = i
    return [x * 3, n]


PROGRAMS = {
    "counted": (COUNTED, counted, lambda: [torch.randn(4)]),
    "while": (WHILE, while_, lambda: [torch.rand(4) + 1]),
    "no trip": (WHILE, while_, lambda: [torch.rand(4) + 100]),
    "taken": (BRANCH, branch, lambda: [torch.tensor(True), torch.randn(4), torch.randn(4)]),
    "not taken": (BRANCH, branch, lambda: [torch.tensor(False), torch.randn(4), torch.randn(4)]),
    "adds": (WRITES, writes, lambda: [torch.tensor(True), torch.randn(4)]),
    "doubles": (WRITES, writes, lambda: [torch.tensor(False), torch.randn(4)]),
}
PASSES = ["", "functionalize", "functionalize,cse,dce", "simplify-control-flow,dce"]


@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_bodies_run(name: str, passes: str) -> None:
    text, fn, make = PROGRAMS[name]
    graph = saker.parse(text)
    if passes:
        graph.run_passes(passes)
    for _ in range(2):
        given = make()
        expected_inputs = [t.clone() for t in given]
        got, expected = graph.run(given), fn(*expected_inputs)
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
        for a, b in zip(given, expected_inputs, strict=True):  # what is written
            torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_sizes_that_operators_find_in_a_loop() -> None:
    graph = saker.parse(FOUND)
    for x in (torch.tensor([3.5, 2.5, 0.5, -1, 1.5, 9]), torch.tensor([0.5, -1, -1, -1, -1, -1])):
        assert graph.run([x])[0] == sum(2 * int((x - i > 0).sum()) for i in range(4))


def test_a_loop_without_a_trip_gives_what_it_was_given() -> None:
    x = torch.rand(4) + 100
    (h, _) = saker.parse(WHILE).run([x])
    assert h.data_ptr() == x.data_ptr()


def test_an_operator_with_bodies_that_nobody_knows_is_refused_and_not_run() -> None:
    text = """graph @main(%x: f32[4]) {
  %h: f32[4] = custom::repeat(%x) {
    (%a: f32[4]) {
      return %a
    }
  }
  return %h
}
"""
    with pytest.raises(RuntimeError, match="custom::repeat"):
        saker.parse(text).run([torch.randn(4)])
