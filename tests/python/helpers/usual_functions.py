"""Functions of torch.autograd as people write them, and programs with them."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from function_outcomes import function

Tensor = torch.Tensor


def rounds(ctx: Any, x: Tensor) -> Tensor:
    return x.round()


StraightThrough = function(rounds, lambda ctx, g: g)


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return -ctx.scale * g, None


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 0.5 * (1 + torch.erf(x / 2**0.5))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        density = torch.exp(-0.5 * x * x) / (2 * torch.pi) ** 0.5
        return g * (0.5 * (1 + torch.erf(x / 2**0.5)) + x * density)


class Silu(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * x.sigmoid()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        return g * (x.sigmoid() * (1 - y) + y)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, scale)
        return x * scale * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight, scale = ctx.saved_tensors
        normal = x * scale
        inner = g * weight
        dx = scale * (inner - normal * (inner * normal).mean(-1, keepdim=True)) if ctx.needs_input_grad[0] else None
        return dx, (g * normal).sum(0), None


class ClipsGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, low: float, high: float) -> Tensor:
        ctx.bounds = (low, high)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        low, high = ctx.bounds
        return g.clamp(low, high), None, None


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> Tensor:
        logs = torch.log_softmax(logits, -1)
        ctx.save_for_backward(logs, target)
        return -logs.gather(1, target[:, None]).squeeze(1).mean()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        logs, target = ctx.saved_tensors
        grad = logs.exp()
        one = torch.zeros_like(grad).scatter(1, target[:, None], 1.0)
        return (grad - one) * (g / target.shape[0]), None


class Quantized(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bits: int) -> Tensor:
        top = 2 ** (bits - 1) - 1
        scale = x.abs().amax() / top
        inside = (x / scale).abs() <= top - 1
        ctx.save_for_backward(inside)
        return torch.clamp((x / scale).round(), -top, top) * scale

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (inside,) = ctx.saved_tensors
        return g * inside, None


class LowRank(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, *more: Any) -> Tensor:
        a, b, alpha = more
        ctx.save_for_backward(x, weight, a, b)
        ctx.alpha = alpha
        return x @ weight + alpha * (x @ a) @ b

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight, a, b = ctx.saved_tensors
        back = g @ b.t()
        dx = g @ weight.t() + ctx.alpha * back @ a.t()
        return dx, None, ctx.alpha * x.t() @ back, ctx.alpha * (x @ a).t() @ g, None


USUAL = {
    "straight-through": lambda x, m, w: StraightThrough.apply(x @ m) * w,
    "reversal": lambda x, m, w: Reversal.apply(x @ m, 0.5) * w,
    "gelu": lambda x, m, w: Gelu.apply(x @ m) * w,
    "silu": lambda x, m, w: Silu.apply(x @ m) * w,
    "norm": lambda x, m, w: RMSNorm.apply(x, w) @ m,
    "norm of itself": lambda x, m, w: RMSNorm.apply(x @ m, w, 1e-3),
    "clipping": lambda x, m, w: ClipsGradient.apply(x @ m, -0.1, 0.1) * w,
    "cross entropy": lambda x, m, w: CrossEntropy.apply(x @ m * w, torch.tensor([0, 3, 1])),
    "quantisation": lambda x, m, w: Quantized.apply(x @ m, 4) * w,
    "low rank": lambda x, m, w: LowRank.apply(x, m.detach(), m[:, :2].clone(), m[2:].clone(), 0.3) * w,
    "several": lambda x, m, w: Gelu.apply(RMSNorm.apply(Reversal.apply(x @ m, 2.0), w)) @ Silu.apply(m),
    "only it": lambda x, m, w: Gelu.apply(x),
}
