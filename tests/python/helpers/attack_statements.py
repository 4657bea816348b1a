"""What random programs are made of (attack_programs.py)."""

from __future__ import annotations

HEADER = """
import collections, contextlib, copy, dataclasses, functools, itertools, math, random, weakref
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

@dataclasses.dataclass
class Data:
    first: object
    second: object = None

Named = collections.namedtuple("Named", "left right")

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * 2
    @staticmethod
    def backward(ctx, g):
        (t,) = ctx.saved_tensors
        return g * 2 + t * 0

class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("mean", torch.zeros(()))
        self.calls = 0
    def forward(self, t, factor=1.0, *rest, **more):
        self.calls += 1
        for each in rest:
            t = t + each
        return t * self.scale * factor + self.mean + sum(more.values())

class World(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(0.7))
        self.inner = Inner()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("run", torch.ones(()))
        self.step, self.rate, self.seen, self.memo, self.last = 0, 0.5, [], {"a": 1.0}, None

@contextlib.contextmanager
def entered(note):
    note.append("in")
    try:
        yield len(note)
    finally:
        note.append("out")

def generated(*tensors):
    for i, t in enumerate(tensors):
        yield t * (i + 1)

class Failure(Exception):
    pass

GLOBAL = {"factor": 2.0}
"""

# (weight, code): {a}, {b} are tensors that are there, {v} a new name.
PURE = [
    (6, "{v} = {a}.sin()"),
    (6, "{v} = {a} * {b}"),
    (6, "{v} = {a} + {b}"),
    (3, "{v} = {a} - {b} * 0.5"),
    (2, "{v} = torch.maximum({a}, {b})"),
    (2, "{v} = torch.where({a} > {b}, {a}, {b} * 0.3)"),
    (2, "{v} = {a}.tanh().exp()"),
    (2, "{v} = {a}.sum(-1, keepdim=True) if {a}.dim() else {a}"),
    (2, "{v} = {a}.mean()"),
    (2, "{v} = {a}.softmax(-1) if {a}.dim() else {a}"),
    (3, "{v} = {a}[0] if {a}.dim() else {a}"),
    (2, "{v} = {a}[..., :1] if {a}.dim() else {a}"),
    (2, "{v} = {a}.t().t() if {a}.dim() == 2 else {a}.view_as({a})"),
    (2, "{v} = {a}.unsqueeze(0).squeeze(0)"),
    (2, "{v} = {a}.reshape(-1)[::2].sum()"),
    (1, "{v} = {a}.chunk(2)[0].sum(0) if {a}.dim() == 2 else {a}"),
    (1, "{v} = {a}.unbind(0)[-1] if {a}.dim() == 2 else {a}"),
    (1, "{v} = torch.cat([{a}.reshape(-1), {b}.reshape(-1)])[:3].sum()"),
    (1, "{v} = torch.stack([{a}, {a} * 2]).sum(0)"),
    (1, "{v} = {a}.max(0).values if {a}.dim() else {a}"),
    (1, "{v} = {a}.sort(-1)[0] if {a}.dim() else {a}"),
    (1, "{v} = {a}.cumsum(0) if {a}.dim() else {a}"),
    (1, "{v} = ({a}.t() @ {a}).sum() if {a}.dim() == 2 else {a}"),
    (1, "{v} = {a}.double() + {b}"),
    (1, "{v} = ({a}.to(torch.float64) * 2).float()"),
    (1, "{v} = {a}.bfloat16().float()"),
    (1, "{v} = {a} * torch.tensor(2)"),
    (1, "{v} = {a} * True + ({b} > 0)"),
    (1, "{v} = {a}.clamp(-1, 1).abs().sqrt()"),
    (1, "{v} = torch.zeros_like({a}) + {b}.detach()"),
    (1, "{v} = torch.arange({a}.numel()).reshape({a}.shape) * {a}"),
    (1, "{v} = {a}[:0].sum() + {b} if {a}.dim() else {b}"),
    (1, "{v} = {a}.new_full({a}.shape, 0.5) * {b}"),
    (1, "{v} = {a}.expand(2, *{a}.shape)[1]"),
    (1, "{v} = {a}.clone(); {v}.add_({b}.mean())"),
    (1, "{v} = {a} * 1; {v}[..., 0:1].mul_(3) if {v}.dim() else {v}.neg_()"),
    (1, "{v} = {a} * 1; w = {v}.view(-1); w[0] = 2.0"),
    (1, "{v} = torch.zeros(4); {v}[:3] = {a}.mean(); {v} = {v}.sum()"),
    (1, "{v} = {a} * 1; {v}.view(-1)[1:].copy_({v}.view(-1)[:-1].clone())"),
    (1, "{v} = F.layer_norm({a}, {a}.shape[-1:]) if {a}.dim() else {a}"),
    (1, "{v} = F.gelu({a}) + F.relu({b})"),
    (1, "{v} = {a}.detach()"),
    (1, "{v} = Named({a}, {b}).left * 2"),
    (1, "{v} = sum(generated({a}, {b}))"),
    (1, "{v} = (lambda t, q=2.0: t * q + {b}.mean())({a})"),
    (1, "{v} = functools.partial(torch.add, alpha=2)({a}, {b})"),
    (1, "{v} = functools.reduce(torch.add, [{a}, {b}, {a}])"),
    (1, "{v} = {a} if {a}.shape == {b}.shape else {a} + 1"),
    (1, "{v} = {a} * {a}.shape[0] if {a}.dim() else {a}"),
    (1, "{v} = {a} / len({a}) if {a}.dim() else {a}"),
    (1, "{v} = torch.einsum('...i->...', {a}) if {a}.dim() else {a}"),
    (1, "{v} = {a}.std(0) if {a}.dim() == 2 else {a}"),
    (1, "{v} = {a}.var() + {b}"),
    (1, "{v} = {a}.norm() * {b}"),
    (1, "{v} = {a}.flip(0) if {a}.dim() else {a}"),
    (1, "{v} = {a}.roll(1, 0) if {a}.dim() else {a}"),
    (1, "{v} = {a}.to(torch.complex64).abs()"),
    (1, "{v} = torch.complex({a}.float(), {a}.float()).conj().imag"),
]
FULL = [
    (2, "{v} = world.inner({a})"),
    (1, "{v} = world.inner({a}, 2.0, {b}, extra=s)"),
    (1, "{v} = {a} * world.weight"),
    (1, "world.count.add_(1)"),
    (1, "world.run.mul_(0.9).add_({a}.detach().mean().float(), alpha=0.1)"),
    (1, "world.run = world.run * 0.5 + {a}.detach().mean()"),
    (1, "world.step += 1"),
    (1, "world.rate *= 0.9; {v} = {a} * world.rate"),
    (1, "world.seen.append({a}.dim())"),
    (1, "world.memo['b'] = {a}.detach()"),
    (1, "world.last = {a}"),
    (1, "{v} = {a} + (0 if world.last is None else world.last.mean().detach())"),
    (1, "world.inner.mean.copy_({a}.detach().mean())"),
    (1, "{v} = {a} * world.memo['a']; world.memo['a'] += 0.5"),
    (2, "{v} = {a} * s"),
    (2, "{v} = {a} + k"),
    (1, "{v} = {a} * (s * k + 1) / (k + 1)"),
    (1, "{v} = {a} ** (k % 3)"),
    (1, "{v} = torch.full_like({a}, s) * {b}"),
    (1, "{v} = {a}.clamp(min=-s, max=s)"),
    (1, "{v} = {a} * math.sin(s) + math.sqrt(k)"),
    (1, "{v} = {a} * GLOBAL['factor']"),
    (1, "GLOBAL['factor'] += 0.25"),
    (1, "{v} = {a} * (2 if flag else 3)"),
    (1, "{v} = {a} * max(s, 0.3) + min(k, 4)"),
    (1, "{v} = {a} * len(world.seen)"),
    (1, "{v} = {a} * int(s * 4) + round(s, 1)"),
    (1, "{v} = torch.rand_like({a}) * {b}"),
    (1, "{v} = F.dropout({a}, 0.5, True)"),
    (1, "{v} = {a} * random.random()"),
    (1, "{v} = {a} + torch.randn(())"),
    (1, "{v} = {a} + torch.from_numpy(np.atleast_1d(np.sin({b}.detach().numpy()))).sum()"),
    (1, "{v} = {a} * float(np.float32(s))"),
    (1, "print('k', k, flag)"),
    (1, "print({a}.shape, {a}.dtype)"),
    (1, "print({a}.detach())"),
    (1, "print(f'{{s:.2f}}')"),
    (1, "{v} = {a} * 1; {v}.requires_grad and {v}.register_hook(lambda g: g * 2)"),
    (1, "{v} = {a} * 1; {v}.requires_grad and {v}.register_hook(lambda g, n=note: n.append('hook'))"),
    (1, "u = {a}.detach().requires_grad_(); {v} = torch.autograd.grad((u * u).sum(), u)[0]"),
    (1, "{v} = torch.func.grad(lambda t: (t * t).sum())({a})"),
    (1, "{v} = torch.func.vmap(lambda t: t * 2)({a}) if {a}.dim() else {a}"),
    (1, "{v} = Twice.apply({a})"),
    (1, "{v} = copy.deepcopy({a}.detach())"),
    (1, "{v} = copy.copy({a}) * 2"),
    (1, "r = weakref.ref({a}); {v} = r() * 2"),
    (1, "d = dict(p={a}, q=[{b}, s]); {v} = d['p'] * d['q'][1]"),
    (1, "d = Data({a}); d.second = {b}; {v} = d.first + d.second"),
    (1, "{v} = {a}.sum().item() * {b}"),
    (1, "{v} = {a}[{a} > 0].sum()"),
    (1, "{v} = {a}.nonzero().sum() + {b}"),
    (1, "{v} = {a} * 2 if {a}.sum() > 0 else {a} * 3"),
    (1, "assert {a}.isfinite().all(), 'not finite'; {v} = {a}"),
    (1, "{v} = {a} * {a}._version + {a}.requires_grad"),
    (1, "{v} = {a} * (2 if {a}.is_leaf else 3) + torch.is_grad_enabled()"),
    (1, "x.mul_(1.5)"),
    (1, "y[0].add_(1)"),
    (1, "x[:, 0] = 0.25"),
    (1, "y.t().mul_(2)"),
    (1, "x.data.add_(1)"),
    (1, "y.zero_()"),
    (1, "x.grad = None"),
    (1, "y.requires_grad_(flag) if y.is_leaf else None"),
    (1, "{v} = x.new_zeros(3).requires_grad_().sum() + {a}"),
    (1, "{v} = {a}; {v} += 1"),
    (1, "{v} = {a} @ torch.ones({a}.shape[-1], 2) if {a}.dim() else {a}; {v} = {v}.sum()"),
]
BLOCKS = [
    "with torch.no_grad():",
    "with torch.enable_grad():",
    "with torch.autocast('cpu', dtype=torch.bfloat16):",
    "with entered(note) as size:",
    "with torch.set_grad_enabled(flag):",
    "with torch.inference_mode():",
    "if k > 3:",
    "if flag:",
    "if s > 0.6:",
    "if x.shape[0] > 3:",
    "if world.step % 2 == 0:",
    "for i in range(k % 4):",
    "for i, t in enumerate([x, y]):",
    "for key, value in list(world.memo.items()):",
    "while len(note) < 2 and not note.append('turn'):",
    "def body(t, q=s):",
    "try:",
]
RAISES = [
    "if k == 4: raise Failure(f'k is {k}')",
    "if flag and s > 0.8: raise ValueError('flag', k)",
    "x + torch.ones(77, 3)",
    "{}[k]",
    "assert k != 3",
    "x.view(-1, 991)",
]
