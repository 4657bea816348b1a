"""Models for tests and benchmarks: transformers' architectures with random weights and plain PyTorch ones, small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional as F

# What may change between calls. Primes that divide no other size, so that every number made of them shows it.
BATCH, LENGTH = 7, 11

Inputs = tuple[torch.Tensor, ...]


@dataclass
class Case:
    """A model, its inputs for a batch size and a length, and its loss on them."""

    module: nn.Module
    make_inputs: Callable[[int, int], Inputs]
    loss_of: Callable[..., torch.Tensor]  # of the module and its inputs
    dynamic: dict[int, dict[int, str]]  # which sizes of the inputs are the batch and the length
    inputs: Inputs = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = self.make_inputs(BATCH, LENGTH)

    def loss(self) -> torch.Tensor:
        return self.loss_of(self.module, *self.inputs)


def tokens(rows: int, length: int, vocabulary: int = 64) -> torch.Tensor:
    return torch.randint(0, vocabulary, (rows, length))


def classes(rows: int, count: int) -> torch.Tensor:
    return torch.randint(0, count, (rows,))


BATCH_ONLY = {0: "batch"}
BATCH_AND_LENGTH = {0: "batch", 1: "length"}


def causal_language_model(config) -> Case:
    import transformers

    return Case(
        transformers.AutoModelForCausalLM.from_config(config),
        lambda batch, length: (tokens(batch, length),),
        lambda model, ids: model(input_ids=ids, labels=ids).loss,
        {0: BATCH_AND_LENGTH},
    )


def gpt2(layers: int = 2, width: int = 32, heads: int = 4, vocabulary: int = 64, positions: int = 32) -> Case:
    from transformers import GPT2Config

    return causal_language_model(
        GPT2Config(
            vocab_size=vocabulary,
            n_positions=positions,
            n_embd=width,
            n_layer=layers,
            n_head=heads,
            bos_token_id=0,
            eos_token_id=1,
        )
    )


DECODER = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def llama() -> Case:
    from transformers import LlamaConfig

    return causal_language_model(LlamaConfig(**DECODER))


def qwen2() -> Case:
    from transformers import Qwen2Config

    return causal_language_model(Qwen2Config(**DECODER))


def mistral() -> Case:
    from transformers import MistralConfig

    return causal_language_model(MistralConfig(**DECODER, sliding_window=8))


def padding_mask(ids: torch.Tensor, row: int, start: int, end: int | None) -> torch.Tensor:
    mask = torch.ones_like(ids)
    mask[row, start:end] = 0
    return mask


def eager_attention() -> Case:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**{**DECODER, "num_hidden_layers": 1, "num_key_value_heads": 4})
    config._attn_implementation = "eager"

    def inputs(batch: int, length: int) -> Inputs:
        ids = tokens(batch, length)
        return ids, padding_mask(ids, 1, 0, 3)

    return Case(
        LlamaForCausalLM(config),
        inputs,
        lambda model, ids, mask: model(input_ids=ids, attention_mask=mask, labels=ids).loss,
        {0: BATCH_AND_LENGTH, 1: BATCH_AND_LENGTH},
    )


def bert() -> Case:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=32,
    )

    def inputs(batch: int, length: int) -> Inputs:
        ids = tokens(batch, length)
        return ids, padding_mask(ids, 0, 5, None), classes(batch, 2)

    return Case(
        BertForSequenceClassification(config),
        inputs,
        lambda model, ids, mask, labels: model(input_ids=ids, attention_mask=mask, labels=labels).loss,
        {0: BATCH_AND_LENGTH, 1: BATCH_AND_LENGTH, 2: BATCH_ONLY},
    )


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
    return Case(
        T5ForConditionalGeneration(config),
        lambda batch, length: (tokens(batch, length), tokens(batch, 5)),
        lambda model, ids, labels: model(input_ids=ids, labels=labels).loss,
        {0: BATCH_AND_LENGTH, 1: BATCH_ONLY},
    )


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
    return Case(
        ViTForImageClassification(config),
        lambda batch, _: (torch.randn(batch, 3, 16, 16), classes(batch, 3)),
        lambda model, images, labels: model(pixel_values=images, labels=labels).loss,
        {0: BATCH_ONLY, 1: BATCH_ONLY},
    )


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
    return Case(
        WhisperEncoder(config),
        lambda batch, _: (torch.randn(batch, 16, 40),),
        lambda model, features: model(features).last_hidden_state.pow(2).mean(),
        {0: BATCH_ONLY},
    )


def image_classifier(model: nn.Module, size: int, memory_format: torch.memory_format) -> Case:
    def inputs(batch: int, _: int) -> Inputs:
        return torch.randn(batch, 3, size, size).to(memory_format=memory_format), classes(batch, 5)

    return Case(
        model.to(memory_format=memory_format),
        inputs,
        lambda model, images, labels: F.cross_entropy(model(images), labels),
        {0: BATCH_ONLY, 1: BATCH_ONLY},
    )


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
    return image_classifier(model, 16, torch.contiguous_format)


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
    )
    return image_classifier(model, 32, memory_format)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 16, padding_idx=0)
        self.layers = kind(16, 12, num_layers=2, batch_first=True, dropout=0.1, bidirectional=True)
        self.head = nn.Linear(24, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(ids))[0][:, -1])


def recurrent(kind: type[nn.Module]) -> Case:
    return Case(
        Recurrent(kind),
        lambda batch, length: (tokens(batch, length), classes(batch, 5)),
        lambda model, ids, labels: F.cross_entropy(model(ids), labels),
        {0: BATCH_ONLY, 1: BATCH_ONLY},  # the length is a number of steps
    )


def packed_lstm() -> Case:
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(9, 3, 6), torch.tensor([9, 4, 2]))

    def loss(model: nn.LSTM, data: torch.Tensor) -> torch.Tensor:
        sequence = nn.utils.rnn.PackedSequence(data, packed.batch_sizes)
        return nn.utils.rnn.pad_packed_sequence(model(sequence)[0])[0].sum()

    return Case(nn.LSTM(6, 5, num_layers=1), lambda *_: (packed.data.clone(),), loss, {})


def cells() -> Case:
    model = nn.ModuleDict({"lstm": nn.LSTMCell(6, 5), "gru": nn.GRUCell(6, 5), "rnn": nn.RNNCell(6, 5)})

    def loss(model: nn.ModuleDict, steps: torch.Tensor) -> torch.Tensor:
        batch = steps.shape[1]
        hidden, cell = torch.zeros(batch, 5), torch.zeros(batch, 5)
        gru, rnn = torch.zeros(batch, 5), torch.zeros(batch, 5)
        for step in steps:
            hidden, cell = model["lstm"](step, (hidden, cell))
            gru, rnn = model["gru"](step, gru), model["rnn"](step, rnn)
        return (hidden + gru + rnn).square().mean()

    return Case(model, lambda batch, _: (torch.randn(3, batch, 6),), loss, {0: {1: "batch"}})


def transformer() -> Case:
    model = nn.Transformer(
        d_model=16, nhead=4, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=32, batch_first=True
    )
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    return Case(
        model,
        lambda batch, length: (torch.randn(batch, length, 16), torch.randn(batch, 5, 16)),
        lambda model, source, target: model(source, target, tgt_mask=mask, tgt_is_causal=True).pow(2).mean(),
        {0: BATCH_AND_LENGTH, 1: BATCH_ONLY},
    )


def mlp() -> Case:
    return Case(
        nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.SiLU(), nn.Dropout(0.1), nn.Linear(16, 4)),
        lambda batch, _: (torch.randn(batch, 8), torch.randn(batch, 4)),
        lambda model, x, y: F.mse_loss(model(x), y),
        {0: BATCH_ONLY, 1: BATCH_ONLY},
    )


MODELS: dict[str, Callable[[], Case]] = {
    "mlp": mlp,
    "gpt2": gpt2,
    "llama": llama,
    "llama eager attention": eager_attention,
    "qwen2": qwen2,
    "mistral": mistral,
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
