"""Inference against eager mode over whole models: forward, backward and optimizer steps of small models with random
weights, every operator call judged.

    python tests/python/model_ops.py                   # all models
    python tests/python/model_ops.py --list-missing    # operators without an entry, by frequency
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from judge import Judge, report, totals
from symbolic_calls import BATCH, LENGTH

Loss = Callable[[], torch.Tensor]


@dataclass
class Case:
    """A model and a function that runs it once and gives a loss."""

    module: nn.Module
    loss: Loss


def tokens(rows: int = BATCH, length: int = LENGTH, vocabulary: int = 64) -> torch.Tensor:
    return torch.randint(0, vocabulary, (rows, length))


def causal_language_model(config) -> Case:
    import transformers

    model = transformers.AutoModelForCausalLM.from_config(config)
    ids = tokens()
    return Case(model, lambda: model(input_ids=ids, labels=ids).loss)


def gpt2() -> Case:
    from transformers import GPT2Config

    return causal_language_model(
        GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1)
    )


def llama() -> Case:
    from transformers import LlamaConfig

    return causal_language_model(
        LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )


def qwen2() -> Case:
    from transformers import Qwen2Config

    return causal_language_model(
        Qwen2Config(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )


def eager_attention() -> Case:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4
    )
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config)
    ids = tokens()
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    return Case(model, lambda: model(input_ids=ids, attention_mask=mask, labels=ids).loss)


def bert() -> Case:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=16,
    )
    model = BertForSequenceClassification(config)
    ids, labels = tokens(), torch.randint(0, 2, (BATCH,))
    mask = torch.ones_like(ids)
    mask[0, 5:] = 0
    return Case(model, lambda: model(input_ids=ids, attention_mask=mask, labels=labels).loss)


def t5() -> Case:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=64,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        dropout_rate=0.1,
    )
    model = T5ForConditionalGeneration(config)
    ids, labels = tokens(), tokens(length=5)
    return Case(model, lambda: model(input_ids=ids, labels=labels).loss)


def vit() -> Case:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        image_size=16,
        patch_size=4,
        num_labels=3,
    )
    model = ViTForImageClassification(config)
    images, labels = torch.randn(BATCH, 3, 16, 16), torch.randint(0, 3, (BATCH,))
    return Case(model, lambda: model(pixel_values=images, labels=labels).loss)


def whisper_encoder() -> Case:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=48,
        num_mel_bins=16,
        max_source_positions=20,
        vocab_size=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    model = WhisperEncoder(config)
    features = torch.randn(BATCH, 16, 40)
    return Case(model, lambda: model(features).last_hidden_state.pow(2).mean())


def convnet() -> Case:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, stride=2, groups=2),
        nn.GroupNorm(2, 8),
        nn.GELU(),
        nn.Dropout2d(0.1),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 5),
    )
    images, labels = torch.randn(BATCH, 3, 16, 16), torch.randint(0, 5, (BATCH,))
    return Case(model, lambda: F.cross_entropy(model(images), labels))


class Bottleneck(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width // 2, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width // 2)
        self.second = nn.Conv2d(width // 2, width, 3, stride=2, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Sequential(nn.Conv2d(width, width, 1, stride=2, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.first(x)))
        y = self.norm2(self.second(y))
        y += self.shortcut(x)
        return F.relu(y)


def resnet(memory_format: torch.memory_format) -> Case:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2, padding=2, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        Bottleneck(8),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 4, 5),
    ).to(memory_format=memory_format)
    images = torch.randn(BATCH, 3, 32, 32).to(memory_format=memory_format)
    labels = torch.randint(0, 5, (BATCH,))
    return Case(model, lambda: F.cross_entropy(model(images), labels))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 16, padding_idx=0)
        self.layers = kind(16, 12, num_layers=2, batch_first=True, dropout=0.1, bidirectional=True)
        self.head = nn.Linear(24, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(ids))[0][:, -1])


def recurrent(kind: type[nn.Module]) -> Case:
    model = Recurrent(kind)
    ids, labels = tokens(), torch.randint(0, 5, (BATCH,))
    return Case(model, lambda: F.cross_entropy(model(ids), labels))


def packed_lstm() -> Case:
    model = nn.LSTM(6, 5, num_layers=1)
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(9, 3, 6), torch.tensor([9, 4, 2]))

    def loss() -> torch.Tensor:
        return nn.utils.rnn.pad_packed_sequence(model(packed)[0])[0].sum()

    return Case(model, loss)


def cells() -> Case:
    model = nn.ModuleDict({"lstm": nn.LSTMCell(6, 5), "gru": nn.GRUCell(6, 5), "rnn": nn.RNNCell(6, 5)})
    steps = torch.randn(3, BATCH, 6)

    def loss() -> torch.Tensor:
        hidden, cell = torch.zeros(BATCH, 5), torch.zeros(BATCH, 5)
        gru, rnn = torch.zeros(BATCH, 5), torch.zeros(BATCH, 5)
        for step in steps:
            hidden, cell = model["lstm"](step, (hidden, cell))
            gru, rnn = model["gru"](step, gru), model["rnn"](step, rnn)
        return (hidden + gru + rnn).square().mean()

    return Case(model, loss)


def transformer() -> Case:
    model = nn.Transformer(
        d_model=16, nhead=4, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=32, batch_first=True
    )
    source, target = torch.randn(BATCH, LENGTH, 16), torch.randn(BATCH, 5, 16)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    return Case(model, lambda: model(source, target, tgt_mask=mask).pow(2).mean())


def mlp() -> Case:
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.SiLU(), nn.Dropout(0.1), nn.Linear(16, 4))
    x, y = torch.randn(BATCH, 8), torch.randn(BATCH, 4)
    return Case(model, lambda: F.mse_loss(model(x), y))


MODELS: dict[str, Callable[[], Case]] = {
    "mlp": mlp,
    "gpt2": gpt2,
    "llama": llama,
    "llama eager attention": eager_attention,
    "qwen2": qwen2,
    "bert": bert,
    "t5": t5,
    "vit": vit,
    "whisper encoder": whisper_encoder,
    "convnet": convnet,
    "resnet": lambda: resnet(torch.contiguous_format),
    "resnet channels_last": lambda: resnet(torch.channels_last),
    "lstm": lambda: recurrent(nn.LSTM),
    "gru": lambda: recurrent(nn.GRU),
    "packed lstm": packed_lstm,
    "cells": cells,
    "transformer": transformer,
}

OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=False),
    "sgd foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=True),
    "sgd fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False),
    "adamw foreach": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
}


def run_model(judge: Judge, name: str) -> list[str]:
    """Trains two steps with each optimizer (large models: two of them), then runs in eval mode; the failures."""
    judge.scope = set()
    judge.scope_failures = []
    torch.manual_seed(0)
    case = MODELS[name]()
    for optimizer_name, make in OPTIMIZERS.items():
        if name != "mlp" and optimizer_name not in ("sgd", "adamw foreach"):
            continue
        judge.origin = f"{name}, {optimizer_name}"
        optimizer = make(list(case.module.parameters()))
        with judge:
            for _ in range(2):
                optimizer.zero_grad()
                case.loss().backward()
                nn.utils.clip_grad_norm_(case.module.parameters(), 1.0)
                optimizer.step()
    judge.origin = f"{name}, eval"
    case.module.eval()
    with judge:
        case.loss()
        with torch.no_grad():
            case.loss()
    case.module.train()
    return list(dict.fromkeys(judge.scope_failures))


def guard_report(judge: Judge) -> str:
    lines = []
    for name, guards in sorted(judge.guards.items()):
        lines += [f"{count:8d}  {name}: {guard}" for guard, count in guards.most_common(3)]
    total = sum(guards.total() for guards in judge.guards.values())
    return "\n".join([*lines, f"{judge.symbolic_cases} different calls with symbols, {total} guards"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="run models whose name matches this regular expression")
    parser.add_argument("--aten", help="judge only operators whose name matches this regular expression")
    parser.add_argument("--examples", type=int, default=1, help="examples of each kind of mismatch")
    parser.add_argument("--list-missing", action="store_true", help="list operators that were called and have no entry")
    parser.add_argument("--symbolic", action="store_true", help="infer with symbols for batch and length too")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    judge = Judge(only=options.aten, symbolic=options.symbolic)
    start = time.perf_counter()
    for name in MODELS:
        if options.models is None or re.search(options.models, name):
            run_model(judge, name)
            missing = sorted(name for name in judge.scope if not judge.has_entry(name))
            print(f"{name}: {len(judge.scope)} operators, {len(missing)} without an entry")
    text = report(judge.findings, options.examples)
    if text:
        print(text)
    if options.list_missing:
        print("\n".join(f"{count:8d}  {name}" for name, count in judge.missing()))
    if options.symbolic:
        print(guard_report(judge))
    print(f"{sum(judge.seen.values())} calls of {len(judge.seen)} operators, {len(judge.missing())} without an entry")
    print(f"{totals(judge.findings)}; {time.perf_counter() - start:.0f} s")
    return 1 if any(f.failures for f in judge.findings.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
