"""Graphs in Python: text in, passes, text out."""

import pytest

import saker

TEXT = """\
symbol s0 in [2, inf]
graph @main(%x: f32[s0, 4]) {
  %a: f32[s0, 4] = aten::sin(%x)
  %b: f32[s0, 4] = aten::sin(%x)
  %unused: f32[s0, 4] = aten::cos(%a)
  %c: f32[s0, 4] = aten::add.Tensor(%a, %b)
  return %c
}
"""


def test_text_survives() -> None:
    graph = saker.parse(TEXT)
    assert (graph.text, str(graph), graph.name) == (TEXT, TEXT, "main")
    assert len(graph) == 5
    graph.verify()


def test_passes_are_run_by_name() -> None:
    graph = saker.parse(TEXT)
    runs = graph.run_passes("cse,dce")
    assert [(name, before, after) for name, _, before, after in runs] == [("cse", 5, 4), ("dce", 4, 3)]
    assert all(milliseconds >= 0 for _, milliseconds, _, _ in runs)
    assert "%unused" not in graph.text and "%b" not in graph.text
    graph.verify()


def test_unknown_passes_are_errors() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        saker.parse(TEXT).run_passes("dce,nonsense")
    assert {"dce", "cse"} <= {name for name, _ in saker.passes()}


def test_parse_errors_have_a_place() -> None:
    with pytest.raises(saker.ParseError) as caught:
        saker.parse(TEXT.replace("%unused: f32[s0", "%unused: f32[s7"))
    assert caught.value.line == 5 and caught.value.column > 1
    assert "s7" in str(caught.value)


def test_invalid_graphs_are_found() -> None:
    with pytest.raises(ValueError, match="aten::sin"):
        saker.parse(TEXT.replace("aten::sin(%x)", "aten::sin([%x])", 1)).verify()
