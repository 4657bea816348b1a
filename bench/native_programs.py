"""What bench_native.py measures: functions that move more than they compute, and small models."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclasses.dataclass
class Problem:
    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    backward: bool = False  # the time is that of forward and backward
    dynamic: bool | None = False  # as compilers are told

    def call(self, function: Callable[..., Any]) -> Any:
        if not self.backward:
            with torch.no_grad():
                return function(*self.arguments)
        leaves = [each for each in self.arguments if isinstance(each, Tensor) and each.requires_grad]
        if isinstance(self.function, nn.Module):
            leaves += self.function.parameters()
        return torch.autograd.grad(function(*self.arguments).sum(), leaves)


def gelu_bias_residual(x: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    return functional.gelu(x + bias) + residual


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(x * 2, x.shape[-1:], weight, bias)


def norm_swiglu(x: Tensor, weight: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight
    return functional.silu(h * gate) * (h * up)


def masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(x.masked_fill(mask, float("-inf")) * 0.125, -1)


def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(x * 0.5, target)


def rotary(q: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = q.chunk(2, -1)
    return q * cos + torch.cat((-right, left), -1) * sin


def adamw(
    parameters: list[Tensor], gradients: list[Tensor], means: list[Tensor], squares: list[Tensor]
) -> list[Tensor]:
    made = []
    for parameter, gradient, mean, square in zip(parameters, gradients, means, squares, strict=True):
        mean = mean * 0.9 + gradient * 0.1
        square = square * 0.999 + gradient * gradient * 0.001
        made += [parameter * 0.9999 - 1e-3 * mean / (square.sqrt() + 1e-8), mean, square]
    return made


class Stepping(Problem):
    """Steps of an optimizer whose learning rate is another one in each call."""

    def __init__(self, name: str, tensors: int, numbers: int) -> None:
        parameters = [nn.Parameter(torch.rand(numbers)) for _ in range(tensors)]
        for each in parameters:
            each.grad = torch.rand(numbers)
        self.optimizer = torch.optim.AdamW(parameters, lr=1e-3)
        self.calls = 0
        super().__init__(name, self.step, (), dynamic=None)

    def step(self) -> None:
        self.optimizer.step()

    def call(self, function: Callable[..., Any]) -> Any:
        self.calls += 1
        self.optimizer.param_groups[0]["lr"] = 1e-3 / (1 + self.calls % 97)
        return function()


def batch_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.batch_norm(x, None, None, weight, bias, training=True).relu()


def transposed(x: Tensor, y: Tensor) -> Tensor:
    return x.t() * 2 + y


def rows(x: Tensor) -> Tensor:
    return (x * x + 1).sum(1)


def columns(x: Tensor) -> Tensor:
    return (x * x + 1).sum(0)


def everything(x: Tensor) -> Tensor:
    return (x * x + 1).mean()


def embedding(tokens: Tensor, weight: Tensor) -> Tensor:
    return functional.embedding(tokens, weight) * 2 + 1


def int8_scaled(x: Tensor, scale: Tensor) -> Tensor:
    return x.to(torch.float32) * scale + 1


def half_mixed(x: Tensor, weight: Tensor) -> Tensor:
    return (x.to(torch.float32) * weight).tanh().to(torch.bfloat16) + x


def functions(numbers: int) -> list[Problem]:
    """On tensors of about so many numbers."""
    wide = max(1, min(1024, int(numbers**0.5)))
    tall = max(1, numbers // wide)
    x, y = torch.randn(tall, wide), torch.randn(tall, wide)
    row = [torch.randn(wide) for _ in range(3)]
    image = torch.randn(max(1, numbers // (16 * 64)), 16, 8, 8) if numbers >= 4096 else torch.randn(2, 2, 2, 2)
    even = torch.randn(tall, 2 * max(1, wide // 2))

    def leaf(tensor: Tensor) -> Tensor:
        return tensor.clone().requires_grad_()

    tokens = torch.randint(0, 100, (tall,))
    channels = [torch.randn(image.shape[1]) for _ in range(2)]
    made = [
        Problem("gelu + bias + residual", gelu_bias_residual, (x, row[0], y)),
        Problem("layer norm", layer_norm, (x, row[0], row[1])),
        Problem("layer norm, backward", layer_norm, (leaf(x), leaf(row[0]), leaf(row[1])), backward=True),
        Problem("RMSNorm, SwiGLU", norm_swiglu, (x, *row)),
        Problem("RMSNorm, SwiGLU, backward", norm_swiglu, (leaf(x), *map(leaf, row)), backward=True),
        Problem("masked softmax", masked_softmax, (x, y > 1)),
        Problem("cross entropy, backward", cross_entropy, (leaf(x), torch.randint(0, wide, (tall,))), backward=True),
        Problem("rotary embedding", rotary, (even, torch.randn_like(even), torch.randn_like(even))),
        Problem("batch norm in training", batch_norm, (image, *channels)),
        Problem("transpose", transposed, (x, torch.randn(wide, tall))),
        Problem("sums of rows", rows, (x,)),
        Problem("sums of columns", columns, (x,)),
        Problem("mean of everything", everything, (x,)),
        Problem("embedding, backward", embedding, (tokens, leaf(torch.randn(100, wide))), backward=True),
        Problem("int8 to float", int8_scaled, (torch.randint(-99, 99, (tall, wide), dtype=torch.int8), row[0])),
        Problem("bfloat16 and float", half_mixed, (x.bfloat16(), row[0])),
    ]
    each = max(1, numbers // 100)
    lists = [[torch.rand(each) for _ in range(100)] for _ in range(4)]
    made.append(Problem("AdamW, 100 tensors", adamw, tuple(lists)))
    made.append(Stepping("AdamW.step, 100 tensors", 100, each))
    return made


class Patches(nn.Module):
    """A small vision transformer."""

    def __init__(self, width: int = 128, layers: int = 2) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, 8, 8)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.ModuleList(nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).layers)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.cut(x).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


class Logits(nn.Module):
    """A GPT-2 or a Llama of `transformers` with random weights, small."""

    def __init__(self, kind: str, layers: int) -> None:
        super().__init__()
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python" / "helpers"))
        import zoo

        if kind == "GPT-2":
            self.model = zoo.gpt2(layers=layers, width=128, heads=4, vocabulary=256, positions=64).module.eval()
        else:
            import transformers

            sizes = {"vocab_size": 256, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": layers}
            config = transformers.LlamaConfig(**{**zoo.DECODER, **sizes})
            self.model = transformers.LlamaForCausalLM(config).eval()
        self.ids = zoo.tokens(4, 64, 256)

    def forward(self, ids: Tensor) -> Tensor:
        return self.model(input_ids=ids).logits


def equal_layers(layers: int) -> Problem:
    """As many distinct kernels as one layer has; each number of layers has its own."""
    width = 64 + layers
    model = nn.Sequential(
        *(nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()) for _ in range(layers))
    )
    return Problem(f"{layers} layers", model, (torch.randn(16, width),), backward=True)


def models() -> list[Problem]:
    mlp = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.LayerNorm(256), nn.GELU()) for _ in range(6)))
    convolutions = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2),
        nn.BatchNorm2d(32),
        nn.ReLU(),
    )
    image = torch.randn(8, 3, 32, 32)
    made = []
    for kind, layers in (("GPT-2", 4), ("Llama", 8)):
        model = Logits(kind, layers)
        made.append(Problem(kind, model, (model.ids,)))
        made.append(Problem(f"{kind}, backward", model, (model.ids,), backward=True))
    for name, model, x in [
        ("MLP", mlp, torch.randn(64, 256)),
        ("ConvNet", convolutions.eval(), image),
        ("ViT", Patches(), image),
    ]:
        made.append(Problem(name, model, (x,)))
        made.append(Problem(f"{name}, backward", model, (x.clone().requires_grad_(),), backward=True))
    training = copy.deepcopy(convolutions).train()
    made.append(Problem("ConvNet in training", training, (image.clone().requires_grad_(),), backward=True))
    return made
