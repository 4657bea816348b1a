"""Models of transformers in training as users call them: by keyword, with labels and all outputs they have. Gradients
are compiled, and whatever is done with losses, logits, hidden states, attentions, keys and values is eager mode's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import saker
import zoo

Call = tuple[nn.Module, Callable[[int, int], dict[str, Any]]]

ALL = {"output_hidden_states": True, "output_attentions": True}


def causal(config: Any, **wanted: bool) -> Call:
    if wanted.get("output_attentions"):
        config._attn_implementation = "eager"

    def arguments(batch: int, length: int) -> dict[str, Any]:
        ids = zoo.tokens(batch, length)
        return {"input_ids": ids, "labels": ids, **wanted}

    return transformers.AutoModelForCausalLM.from_config(config), arguments


def gpt2(**wanted: bool) -> Call:
    return causal(zoo.gpt2(layers=2).module.config, **wanted)


def bert() -> Call:
    config = zoo.bert().module.config
    config._attn_implementation = "eager"

    def arguments(batch: int, length: int) -> dict[str, Any]:
        return {"input_ids": zoo.tokens(batch, length), "labels": zoo.classes(batch, 2), **ALL}

    return transformers.BertForSequenceClassification(config), arguments


def t5() -> Call:
    config = zoo.t5().module.config
    config._attn_implementation = "eager"

    def arguments(batch: int, length: int) -> dict[str, Any]:
        return {"input_ids": zoo.tokens(batch, length), "labels": zoo.tokens(batch, length - 2), **ALL}

    return transformers.T5ForConditionalGeneration(config), arguments


def vit() -> Call:
    case = zoo.vit()
    config = case.module.config
    config._attn_implementation = "eager"

    def arguments(batch: int, length: int) -> dict[str, Any]:
        images, labels = case.make_inputs(batch, length)
        return {"pixel_values": images, "labels": labels, **ALL}

    return type(case.module)(config), arguments


MODELS: dict[str, Callable[[], Call]] = {
    "gpt2": gpt2,
    "gpt2, all outputs": lambda: gpt2(**ALL),
    "llama": lambda: causal(transformers.LlamaConfig(**zoo.DECODER)),
    "llama, all outputs": lambda: causal(transformers.LlamaConfig(**zoo.DECODER), **ALL),
    "mistral, all outputs": lambda: causal(transformers.MistralConfig(**zoo.DECODER, sliding_window=8), **ALL),
    "bert, all outputs": bert,
    "t5, all outputs": t5,
    "vit, all outputs": vit,
}


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All of an output that requires grad."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)
    elif hasattr(value, "layers"):  # a cache
        for layer in value.layers:
            yield from tensors([layer.keys, layer.values])
    elif hasattr(value, "self_attention_cache"):
        yield from tensors([value.self_attention_cache, value.cross_attention_cache])


def weighed(outputs: list[torch.Tensor]) -> torch.Tensor:
    return sum((t * (0.1 * (i + 1))).sum() for i, t in enumerate(outputs))


def loss_alone(module: nn.Module, out: list[torch.Tensor]) -> Iterator[Any]:
    out[0].backward()
    yield None


def loss_and_more(module: nn.Module, out: list[torch.Tensor]) -> Iterator[Any]:
    weighed(out).backward()
    yield None


def every_second(module: nn.Module, out: list[torch.Tensor]) -> Iterator[Any]:
    weighed(out[1::2]).backward()
    yield None


def hooks(module: nn.Module, out: list[torch.Tensor]) -> Iterator[Any]:
    seen: dict[int, torch.Tensor] = {}
    for i, t in enumerate(out):
        if i % 2:
            t.register_hook(lambda g, i=i: (seen.setdefault(i, g), g * 1.5)[1])
        else:
            t.retain_grad()
    (out[0] + weighed(out[1::3])).backward()
    for i, t in enumerate(out):
        yield seen.get(i) if i % 2 else t.grad


def of_outputs(module: nn.Module, out: list[torch.Tensor]) -> Iterator[Any]:
    yield torch.autograd.grad(out[0], out[1:], retain_graph=True, allow_unused=True)
    yield torch.autograd.grad(weighed(out[:3]), [*out[3:], *module.parameters()], allow_unused=True)


def again(module: nn.Module, out: list[torch.Tensor]) -> Iterator[Any]:
    out[0].backward(retain_graph=True)
    yield [None if p.grad is None else p.grad.clone() for p in module.parameters()]
    weighed(out).backward()
    yield None


def second_order(module: nn.Module, out: list[torch.Tensor]) -> Iterator[Any]:
    first = torch.autograd.grad(out[0], list(module.parameters()), create_graph=True, allow_unused=True)
    yield [None if g is None else g.detach() for g in first]
    sum(g.square().sum() for g in first if g is not None).backward()
    yield None


USES = [loss_alone, loss_and_more, every_second, hooks, of_outputs, again]


def observed(fn: Callable, module: nn.Module, given: dict[str, Any], use: Callable) -> list[torch.Tensor | None]:
    module.zero_grad()
    torch.manual_seed(3)
    out = list(tensors(fn(**given)))
    got: list[Any] = [*(t.detach() for t in out)]
    for each in use(module, out):
        got += each if isinstance(each, (tuple, list)) else [each]
    return got + [None if p.grad is None else p.grad.clone() for p in module.parameters()]


def assert_equal(got: list[Any], want: list[Any], exact: bool = True) -> None:
    assert len(got) == len(want)
    for i, (one, other) in enumerate(zip(got, want, strict=True)):
        assert (one is None) == (other is None), i
        if one is not None and exact:
            assert torch.equal(one, other), (i, len(want), (one - other).abs().max())
        elif one is not None:
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_compiled_and_eager_modes(name: str) -> None:
    saker.reset(counts=True)
    torch.manual_seed(0)
    module, arguments = MODELS[name]()
    module.train()
    given = arguments(3, 7)
    fast = saker.compile(module)
    for _ in range(2):  # transformers sets up how it captures outputs in the first call
        fast(**given)
    before = saker.stats()
    for use in USES:
        want = observed(module, module, given, use)
        assert_equal(observed(fast, module, given, use), want)
    now = saker.stats()
    assert not now["instead"]
    assert now["replays"] == before["replays"] + len(USES)


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5, all outputs"])
def test_second_derivatives(name: str) -> None:
    saker.reset(counts=True)
    torch.manual_seed(0)
    module, arguments = MODELS[name]()
    module.config._attn_implementation = "eager"  # whose attention has second derivatives
    given = arguments(2, 5)
    fast = saker.compile(module)
    fast(**given)
    want = observed(module, module, given, second_order)
    assert_equal(observed(fast, module, given, second_order), want, exact=False)
    assert not saker.stats()["instead"]


@pytest.mark.parametrize("name", ["gpt2", "llama, all outputs", "bert, all outputs"])
def test_sizes_that_change(name: str) -> None:
    saker.reset(counts=True)
    torch.manual_seed(0)
    module, arguments = MODELS[name]()
    fast = saker.compile(module, dynamic=True)
    fast(**arguments(3, 7))
    for batch, length in [(2, 9), (5, 6), (4, 8)]:
        given = arguments(batch, length)
        for use in [loss_alone, hooks]:
            want = observed(module, module, given, use)
            assert_equal(observed(fast, module, given, use), want)
    assert not saker.stats()["instead"]
