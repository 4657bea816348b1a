"""Whole models through saker.compile: captured whole, and equal to eager mode bit by bit in results, gradients, buffers
and the random stream."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import saker
from torch_versions import EXPERTS_READ_DATA, SYMBOLIC_MATMUL
from zoo import MODELS, Case, causal_language_model, tokens

torch.set_num_threads(1)


def mixtral() -> Case:
    from transformers import MixtralConfig

    config = MixtralConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
    )
    return causal_language_model(config)


CASES = {**MODELS, "mixtral": mixtral}
STEPS = 3
# Models that look at data, and the file in which they do.
READS_DATA = {
    ("whisper encoder", True): "modeling_whisper.py",  # a random number says whether to skip a layer
    ("packed lstm", False): "",
    ("packed lstm", True): "",
}
if EXPERTS_READ_DATA:
    READS_DATA |= {("mixtral", training): "modeling_mixtral.py" for training in (False, True)}


# Their first call writes what kind of problem it solves into the configuration, and reads it: the second is recorded.
SETTLE = {"bert", "vit"}

# Trained by the recording itself, under eager autograd, for a reason.
NOT_AHEAD = {("lstm", True, "aten"): "oneDNN's LSTM saves a workspace whose size only the kernel knows"}


def case_of(name: str, training: bool) -> Case:
    torch.manual_seed(0)
    case = CASES[name]()
    case.module.train(training)
    return case


def steps(case: Case, module: torch.nn.Module, call: Any, training: bool) -> list[dict[str, Any]]:
    """All that each of some calls gives and leaves behind."""
    out = []
    for step in range(STEPS):
        torch.manual_seed(step)
        module.zero_grad()
        with torch.set_grad_enabled(training):
            loss = call(*case.inputs)
        if training:
            loss.backward()
        out.append(
            {
                "loss": loss.detach(),
                "gradients": {n: p.grad.clone() if p.grad is not None else None for n, p in module.named_parameters()},
                "buffers": {n: b.clone() for n, b in module.named_buffers()},
                "random": torch.get_rng_state(),
            }
        )
    return out


@pytest.mark.parametrize("backend", ["aten", "eager"])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", CASES)
def test_model_equals_eager(name: str, training: bool, backend: str) -> None:
    case = case_of(name, training)
    module = copy.deepcopy(case.module)
    compiled = saker.compile(lambda *inputs: case.loss_of(module, *inputs), fullgraph=True, backend=backend)
    if (name, training) in READS_DATA:
        with pytest.raises(saker.CaptureError, match="depends on data") as raised:
            for _ in range(2):  # one that asks is_compiling() is told something else by the second recording
                compiled(*case.inputs)
        assert READS_DATA[name, training] in raised.value.message  # its own line is the program's
        return
    expected = steps(case, case.module, lambda *inputs: case.loss_of(case.module, *inputs), training)
    before = saker.stats()
    got = steps(case, module, compiled, training)
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
    after = saker.stats()
    assert after["replays"] - before["replays"] == STEPS - (2 if name in SETTLE else 1)
    if (name, training, backend) not in NOT_AHEAD:
        assert after["fallbacks"] == before["fallbacks"]


@pytest.mark.parametrize("name", sorted({name for name, _ in READS_DATA}))
def test_what_reads_data_runs_eagerly(name: str) -> None:
    case = case_of(name, training=True)
    module = copy.deepcopy(case.module)
    expected = steps(case, case.module, lambda *inputs: case.loss_of(case.module, *inputs), True)
    got = steps(case, module, saker.compile(lambda *inputs: case.loss_of(module, *inputs)), True)
    # A call that is recorded until it reads data has asked is_compiling(), and makes another mask then.
    exact = {} if name == "mixtral" else {"rtol": 0, "atol": 0}
    torch.testing.assert_close(got, expected, equal_nan=True, **exact)


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2", "mistral"])
def test_text_is_generated_with_a_cache_that_grows(name: str) -> None:
    """One token after the other: the cache among the arguments grows, and each call writes to it."""
    model = case_of(name, training=False).module
    prompt = tokens(2, 5)
    settings = {"max_new_tokens": 16, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad():
        expected = model.generate(prompt, **settings)
        before = saker.stats()
        model.forward = saker.compile(model.forward)
        for _ in range(2):
            assert torch.equal(model.generate(prompt, **settings), expected)
    after = saker.stats()
    if SYMBOLIC_MATMUL:
        assert after["graphs"] - before["graphs"] <= 5
        assert after["replays"] - before["replays"] > 20
    else:  # one recording for each length, up to the limit of recordings
        assert after["replays"] - before["replays"] >= 8
