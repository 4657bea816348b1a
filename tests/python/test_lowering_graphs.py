"""Groups and kernels of whole programs: forward and backward of small models are captured, simplified, fused and
lowered, and run as the text of their kernels says (`helpers/kernel_text.py`), against eager mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import saker
from kernel_text import Fused, saker_opt

SIMPLIFY = "--passes=fold-constants,simplify-views,remove-noops,cse,dce"


class Block(nn.Module):
    """A layer of a transformer, with attention written out."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.after = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        hidden = torch.ones(length, length).triu(1).bool()
        weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.after(x))))


class RmsNormGated(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width))
        self.gate = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        gate = self.gate(normed)
        return x + self.down(F.silu(gate) * gate.flip(-1))


class Rotary(nn.Module):
    """Positions as rotations: slices, cat, sin and cos."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.proj(x)
        half = y.shape[-1] // 2
        angles = torch.arange(x.shape[1]).unsqueeze(-1) * torch.arange(half).mul(-0.3).exp()
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        turned = torch.cat([-y[..., half:], y[..., :half]], -1)
        return y * cos + turned * sin


def training(model: nn.Module) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Parameters are arguments, so that they are inputs of the graph in a known order."""
    names = list(dict(model.named_parameters()))

    def step(x: torch.Tensor, target: torch.Tensor, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = torch.func.functional_call(model, dict(zip(names, values, strict=True)), (x,))
        loss = F.cross_entropy(result.flatten(0, -2), target)
        return (loss, *torch.autograd.grad(loss, values))

    return step


MODELS = {"block": (Block, 7), "rms": (RmsNormGated, 3), "rotary": (Rotary, 2)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_training_step(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    kind, groups = MODELS[name]
    model = kind().to(dtype)
    inputs = [torch.randn(2, 8, 32).to(dtype), torch.randint(0, 32, (16,)), *model.parameters()]
    step = training(model)
    expected = step(*inputs)
    fused = Fused(saker_opt(str(saker.capture(step, *inputs).functional()), SIMPLIFY))
    assert len(fused.launches) >= groups, fused.text
    found = fused.run([each.detach() for each in inputs])
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    for want, have in zip(expected, found, strict=True):
        assert want.dtype == have.dtype
        assert want.shape == have.shape
        torch.testing.assert_close(have, want, rtol=tolerance, atol=tolerance)
