"""Inputs of graphs that are parameters and buffers of a module are called as the module calls them, in every graph of
it; text, HTML and Graphviz call values alike."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import saker


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.BatchNorm1d(4)])
        self.head = nn.Linear(4, 2, bias=False)
        self.register_buffer("scale", torch.full((2,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x).relu() * self.scale


NAMES = {
    "layers.0.weight",
    "layers.0.bias",
    "layers.1.weight",
    "layers.1.bias",
    "layers.1.running_mean",
    "layers.1.running_var",
    "head.weight",
    "scale",
}


def named(text: str) -> set[str]:
    """Names of values among the parameters of a graph."""
    head = text[text.index("graph @") : text.index("{\n")]
    return {name for name in re.findall(r"%([\w.\"#]+):", head) if not name.isdecimal()}


@pytest.mark.parametrize("training", [False, True])
def test_compiled_modules(training: bool) -> None:
    torch.manual_seed(0)
    net = Net().train(training)
    told = saker.explain(net)(torch.randn(3, 4))
    assert told.captured
    text = told.graphs[0].text
    counter = {"layers.1.num_batches_tracked"} if training else set()
    assert named(text) == NAMES | counter
    assert "%layers.0.weight: f32[4, 4]" in text
    assert re.search(r"aten::t\(%layers\.0\.weight\)", text)
    again = saker.parse(text)
    assert again.text == text
    assert named(told.backward[0].text) >= {"head.weight"}


def test_captured_modules_and_methods() -> None:
    net = Net().eval()
    x = torch.randn(3, 4)
    assert named(saker.capture(net, x).text) == NAMES
    assert named(saker.capture(net.forward, x).text) == NAMES
    functional = saker.capture(net, x).functional()
    assert named(functional.text) == NAMES
    assert torch.equal(functional(x), net(x))


def test_changing_sizes() -> None:
    net = Net().eval()
    compiled = saker.compile(net, dynamic=True)
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x), net(x), rtol=0, atol=0)
    [version] = saker._C.compiled_versions(compiled._compiled)
    assert "symbol" in version["program"].graph.text
    assert named(version["program"].graph.text) == NAMES
    assert named(version["compiled"].forward.text) == NAMES


def test_aot_modules() -> None:
    seen: list[str] = []
    compile_once = saker._C.aot_compile

    def watched(*args: object, **kwargs: object) -> object:
        made = compile_once(*args, **kwargs)
        seen.extend((made[0].forward.text, made[0].backward.text))
        return made

    net = Net().eval()
    saker._C.aot_compile = watched
    try:
        compiled = saker.aot_module(net)
        x = torch.randn(3, 4)
        torch.testing.assert_close(compiled(x), net(x), rtol=0, atol=0)
    finally:
        saker._C.aot_compile = compile_once
    assert named(seen[0]) == NAMES | {"layers.1.num_batches_tracked"} or named(seen[0]) == NAMES
    assert "head.weight" in named(seen[1])


def test_equal_names_are_told_apart() -> None:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)

    def both(x: torch.Tensor) -> torch.Tensor:
        return first(x) + second(x)

    told = saker.explain(both)(torch.randn(1, 2))
    text = told.graphs[0].text
    assert {"weight", "bias"} < named(text)
    assert '%"weight#2"' in text
    assert saker.parse(text).text == text


def test_odd_names() -> None:
    """Names that are no identifiers are quoted in the text."""
    net = nn.Sequential(nn.Linear(2, 2))
    held = nn.ParameterList([nn.Parameter(torch.ones(2))])

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net
            self.held = held
            self.register_buffer("grüße", torch.ones(2))
            self.register_module("a b", nn.Linear(2, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self._modules["a b"](self.net(x) * self.held[0] + self.grüße)

    x = torch.randn(1, 2)
    odd = Odd()
    for text in (saker.explain(odd)(x).graphs[0].text, saker.capture(odd, x).text):
        assert '%"a b.weight": f32[2, 2]' in text
        assert "%net.0.weight" in text and "%held.0" in text
        assert saker.parse(text).text == text


def test_text_html_and_dot_call_values_alike() -> None:
    graph = saker.capture(Net().eval(), torch.randn(3, 4))
    graph.ir.run_passes("dce,cse")  # numbers in the engine are not those of the text from here on
    text = graph.text
    page = graph._repr_html_()
    dot = graph.to_dot()
    for line in text.splitlines()[1:]:
        found = re.match(r" *(%\S.*) = ([\w:.]+)\(", line)
        if not found:
            continue
        results, operator = re.split(r", (?=%)", found[1]), found[2]
        labels = ", ".join(each.partition(":")[0] for each in results)
        assert f"<td style='text-align:left'>{labels}</td><td style='text-align:left'>{operator}</td>" in page
        listed = "\\n".join(results)
        assert f'"{operator}\\n{listed}"' in dot
    assert "%layers.0.weight" in page and '"%head.weight\\n' in dot
