"""Attributes of nodes: what a recording knows of the modes around each operator, of views and of checkpoints."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import saker
from saker import _C


def modes(x):
    a = x * 2
    with torch.no_grad():
        b = a.exp()
    return a * b


def line(text: str, operator: str) -> str:
    (found,) = [each for each in text.splitlines() if f"= {operator}(" in each]
    return found


def test_a_capture_says_where_autograd_was_off() -> None:
    graph = saker.capture(modes, torch.randn(3, requires_grad=True))
    assert line(graph.text, "aten::exp").endswith("[no_grad]")
    assert not [each for each in graph.text.splitlines() if "aten::mul" in each and "no_grad" in each]
    # The text reads back as the same graph.
    assert saker.parse(graph.text).text == graph.text


@pytest.mark.parametrize("run", [saker.compile, lambda f: saker.capture(f, torch.randn(3, requires_grad=True))])
def test_modes_are_those_of_the_recording(run) -> None:
    x = torch.randn(3, requires_grad=True)
    expected = modes(x)
    (wanted,) = torch.autograd.grad(expected.sum(), x)
    compiled = run(modes)
    for _ in range(3):
        got = compiled(x)
        (gradient,) = torch.autograd.grad(got.sum(), x)
        assert torch.equal(got, expected) and torch.equal(gradient, wanted)


def test_a_functional_graph_has_no_marks_of_views_and_writes() -> None:
    def f(x):
        v = x[:2]
        v.add_(1)
        return v

    graph = saker.capture(f, torch.randn(4))
    assert "[shown]" in graph.text
    assert "shown" not in graph.functional().text


def test_writes_through_data_are_counted_by_themselves() -> None:
    def f(x):
        y = x * 1
        y.data.add_(1)
        return y

    compiled = saker.compile(f)
    x = torch.randn(3)
    expected = f(x)
    before = saker.stats()["replays"]
    for _ in range(3):
        got = compiled(x)
        assert torch.equal(got, expected) and got._version == expected._version
    assert saker.stats()["replays"] > before


def test_inference_mode_inside_is_repeated() -> None:
    def f(x):
        with torch.inference_mode():
            y = x + 1
        return y, x * 2

    compiled = saker.compile(f)
    x = torch.randn(3)
    before = saker.stats()["replays"]
    for _ in range(3):
        inner, outer = compiled(x)
        assert inner.is_inference() and not outer.is_inference()
        assert torch.equal(inner, x + 1) and torch.equal(outer, x * 2)
    assert saker.stats()["replays"] > before


def test_checkpoints_stand_in_the_joint_graph() -> None:
    def region(x):
        return x.sin().exp()

    def f(x):
        return checkpoint(region, x, use_reentrant=False).cos()

    x = torch.randn(16, requires_grad=True)
    (wanted,) = torch.autograd.grad(f(x).sum(), x)
    compiled = saker.compile(f)
    for _ in range(3):
        (gradient,) = torch.autograd.grad(compiled(x).sum(), x)
        assert torch.equal(gradient, wanted)


def test_operators_that_have_bodies_are_not_listed() -> None:
    names = {each["name"] for each in _C.operators()}
    assert "aten::add.Tensor" in names and not names & {"saker::if", "saker::loop"}
