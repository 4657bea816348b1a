"""Graphs with sizes that change: expressions are computed anew in each run, ranges are checked."""

from __future__ import annotations

import pytest
import torch

import saker

GRAPH = """symbol s0 in [2, inf]
symbol s1 in [2, inf]
graph @main(%x: f32[s0, s1]) {
  %v: f32[s0*s1] = aten::view(%x, [s0*s1])
  %f: f32[2*s0] = aten::full([2*s0], 3.0, dtype=f32)
  %s: f32[s0, 1]{strides: [s1, 1]} = aten::slice.Tensor(%x, 1, 0, 1)
  %y: f32[s0, s1] = aten::mul.Tensor(%x, %s)
  return %v, %f, %y
}
"""
TWO = """symbol s0 in [2, inf]
graph @main(%x: f32[s0], %y: f32[s0]) {
  %z: f32[s0] = aten::add.Tensor(%x, %y)
  return %z
}
"""


def test_one_graph_runs_with_many_sizes() -> None:
    graph = saker.parse(GRAPH)
    for rows, columns in ((2, 3), (5, 4), (2, 7), (9, 2)):
        x = torch.randn(rows, columns)
        v, f, y = graph.run([x])
        assert torch.equal(v, x.view(-1)) and v.data_ptr() == x.data_ptr()
        assert torch.equal(f, torch.full((2 * rows,), 3.0))
        assert torch.equal(y, x * x[:, :1])


def test_an_input_with_another_number_of_dimensions_is_refused() -> None:
    with pytest.raises(RuntimeError, match="another number of dimensions"):
        saker.parse(GRAPH).run([torch.randn(3)])


def test_a_size_that_two_inputs_tell_must_be_one() -> None:
    graph = saker.parse(TWO)
    x, y = torch.randn(3), torch.randn(3)
    assert torch.equal(graph.run([x, y])[0], x + y)
    with pytest.raises(RuntimeError, match="s0 is 3 in one input and 4 in another"):
        graph.run([x, torch.randn(4)])
