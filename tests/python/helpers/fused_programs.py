"""Random programs of operators that become kernels, as Python source: what generated code is compared with eager
mode on.

A program is a list of lines, one value each, over a few inputs. It is made by running it: a line that eager mode
refuses is not taken. Each value knows whether eager mode determines all its bits (``exact``: copies, comparisons,
integers, sums, products and quotients of single numbers), or only about what it is (functions, sums of floats).
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

Tensor = torch.Tensor

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
_SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33, 64, 67, 130)
_MOST = 6000  # elements of one value
_EITHER_ZERO = "max|min|relu|clamp|hardtanh|shrink"
_SCOPE = {"torch": torch, "F": functional, "inf": float("inf"), "nan": float("nan")}


@dataclasses.dataclass(frozen=True)
class Input:
    """How an input is made; ``layout`` is how it lies in memory."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    layout: str
    special: bool  # with infinities and nans

    def make(self, generator: torch.Generator, sizes: dict[int, int]) -> Tensor:
        shape = tuple(sizes.get(size, size) for size in self.shape)
        return _laid_out(self._numbers(shape, generator), self.layout)

    def _numbers(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        if self.dtype == torch.bool:
            return torch.rand(shape, generator=generator) < 0.5
        if not self.dtype.is_floating_point:
            low = 0 if self.dtype == torch.uint8 else -9
            return torch.randint(low, 10, shape, generator=generator).to(self.dtype)
        made = (torch.randn(shape, generator=generator) * 1.5).to(self.dtype)
        if made.numel() > 4:
            flat = made.view(-1)
            flat[1], flat[2], flat[-1] = 0.0, -0.0, 1.0
            if self.special:
                flat[0], flat[3], flat[-2] = float("nan"), float("inf"), float("-inf")
        return made


def _laid_out(made: Tensor, layout: str) -> Tensor:
    """The same numbers, with other strides."""
    if layout == "channels_last" and made.dim() == 4:
        return made.contiguous(memory_format=torch.channels_last)
    if layout == "transposed" and made.dim() >= 2:
        return made.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "gaps" and made.dim() >= 1:
        shape = list(made.shape)
        shape[-1] = 3 * shape[-1] + 2
        wide = torch.zeros(shape, dtype=made.dtype)
        part = wide[..., 1 : 1 + 3 * made.shape[-1] : 3]
        return part.copy_(made)
    if layout == "offset" and made.dim() >= 1:
        return torch.cat([made[:1], made])[1:] if made.shape[0] else made
    return made


@dataclasses.dataclass(frozen=True)
class Line:
    name: str
    text: str  # of the expression
    reads: tuple[str, ...]


@dataclasses.dataclass
class Value:
    name: str
    tensor: Tensor
    exact: bool
    eps: float  # of the least precise number on the way to it; 0: exact
    scale: float  # the largest one on the way

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    @property
    def is_float(self) -> bool:
        return self.tensor.is_floating_point()


@dataclasses.dataclass
class Program:
    seed: int
    inputs: list[Input]
    lines: list[Line]
    returned: list[str]
    backward: bool
    dynamic: bool
    exact: dict[str, bool] = dataclasses.field(default_factory=dict)
    eps: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def source(self) -> str:
        names = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        body = [f"    {line.name} = {line.text}" for line in self.lines]
        return "\n".join([f"def program({names}):", *body, f"    return [{', '.join(self.returned)}]"])

    @property
    def keeps_signs(self) -> bool:
        """Whether eager mode determines signs of zeros: of two, its vector code and its tails take another one."""
        return not re.search(_EITHER_ZERO, self.source)

    def function(self) -> Callable[..., list[Tensor]]:
        scope: dict[str, Any] = dict(_SCOPE)
        exec(compile(self.source, f"<program {self.seed}>", "exec"), scope)
        return scope["program"]

    def arguments(self, call: int) -> list[Tensor]:
        """Of the n-th call: other numbers, and other sizes where they change."""
        generator = torch.Generator().manual_seed(1000 * self.seed + call)
        sizes: dict[int, int] = {}
        if self.dynamic and call:
            large = sorted({size for each in self.inputs for size in each.shape if size > 2})
            sizes = {size: size + call * (1 + i) for i, size in enumerate(large)}
        return [each.make(generator, sizes) for each in self.inputs]

    def scales(self, arguments: list[Tensor]) -> dict[str, float]:
        """The largest number on the way to each value of a call."""
        scope: dict[str, Any] = {**_SCOPE, **{f"x{i}": each for i, each in enumerate(arguments)}}
        scales = {f"x{i}": _largest(each) for i, each in enumerate(arguments)}
        for line in self.lines:
            scope[line.name] = eval(line.text, scope)
            scales[line.name] = max(_largest(scope[line.name]), *(scales[name] for name in line.reads), 1.0)
        return scales

    def keeping(self, returned: list[str]) -> Program:
        """The lines that these values need."""
        needed, lines = set(returned), []
        for line in reversed(self.lines):
            if line.name in needed:
                needed |= set(line.reads)
                lines.insert(0, line)
        return dataclasses.replace(self, lines=lines, returned=list(returned))

    def told(self) -> str:
        inputs = [f"# x{i}: {each.dtype}, {list(each.shape)}, {each.layout}" for i, each in enumerate(self.inputs)]
        how = f"# seed {self.seed}{', backward' * self.backward}{', symbolic sizes' * self.dynamic}"
        return "\n".join([how, *inputs, self.source])


# What may stand for {a}, {b} and so on: kinds of operands.
#   f: a float; F: a float that is exact; w: an integer; n: a number; N: an exact number; B: a bool; v: anything
# Result: "=" exact if operands are; "~" not exact; "!" exact always. "kink" has no derivative where operands decide.
_UNARY = [
    ("=", "f", "-{a}"), ("=", "f", "{a} * 2"), ("=", "f", "{a} + 1"), ("=", "f", "{a} * 0.5 - 3"),
    ("=", "f", "1.5 - {a}"), ("=", "f", "{a} / 3"), ("=", "f", "{a}.detach() + 1"),
    ("=", "f", "{a}.clone()"), ("=", "f", "torch.zeros_like({a})"), ("=", "f", "torch.full_like({a}, 2.5)"),
    ("~", "f", "({a} * {a} + 1).sqrt()"), ("=", "f", "1 / ({a} * {a} + 1)"),
    ("=kink", "F", "{a}.relu()"), ("=kink", "F", "{a}.abs()"), ("=kink", "F", "{a}.clamp(-1, 2)"),
    ("=kink", "F", "{a}.clamp(min=0.25)"), ("=kink", "F", "F.leaky_relu({a}, 0.125)"),
    ("=kink", "F", "F.hardtanh({a})"), ("=", "F", "{a}.sign()"), ("=", "F", "{a}.floor()"),
    ("=", "F", "{a}.ceil()"), ("=", "F", "{a}.round()"), ("=", "F", "{a}.trunc()"), ("=", "F", "{a}.isnan()"),
    ("=", "F", "{a}.nan_to_num(1.0, 2.0, -2.0)"),
    ("~", "f", "{a}.clamp(-4, 4).exp()"), ("~", "f", "{a}.sin()"), ("~", "f", "{a}.cos()"), ("~", "f", "{a}.tanh()"),
    ("~", "f", "{a}.sigmoid()"), ("~", "f", "{a}.erf()"), ("~", "f", "F.silu({a})"), ("~", "f", "F.gelu({a})"),
    ("~", "f", 'F.gelu({a}, approximate="tanh")'), ("~", "f", "torch.log1p({a} * {a})"),
    ("~", "f", "torch.rsqrt({a} * {a} + 1)"), ("~", "f", "F.softplus({a})"), ("~", "f", "({a} * {a} + 0.5).log()"),
    ("~", "f", "F.elu({a})"), ("~", "f", "F.mish({a})"), ("~", "f", "F.logsigmoid({a})"), ("~", "f", "{a}.atan()"),
    ("~", "f", "torch.expm1({a}.clamp(-3, 3))"), ("~", "f", "{a} ** 2"), ("~", "f", "{a} ** 3"),
    ("=", "w", "{a} + 3"), ("=", "w", "{a} * {a} - 1"), ("=", "w", "-{a}"), ("=", "w", "{a}.clamp(-3, 5)"),
    ("=", "w", "{a} // 3"), ("=", "w", "{a} % 7"), ("=", "w", "{a}.bitwise_not()"), ("=", "w", "{a} & 5"),
    ("=", "w", "{a} / 4"), ("=", "w", "{a}.abs()"), ("=", "w", "{a} > 2"), ("=", "w", "{a} == 1"),
    ("=", "F", "{a}.isposinf()"), ("=", "F", "torch.where({a} == {a}, {a}, 1.0).signbit()"), ("~", "f", "F.celu({a})"),
    ("~", "f", "torch.deg2rad({a})"), ("=", "w", "{a} << 1"), ("=", "w", "{a} >> 1"),
    ("~", "f", "F.glu({a}.unsqueeze(0).repeat(2, *[1] * {a}.dim()), 0)"),
    ("=kink", "F", "F.hardshrink({a}, 0.5)"), ("=kink", "F", "F.softshrink({a}, 0.5)"),
    ("=", "B", "~{a}"), ("=", "B", "{a}.logical_not()"), ("=", "B", "{a} + 1"), ("=", "B", "{a} * 0.5"),
]  # fmt: skip
_BINARY = [
    ("=", "nn", "{a} + {b}"), ("=", "nn", "{a} - {b}"), ("=", "nn", "{a} * {b}"),
    ("=", "ff", "{a} / ({b} * {b} + 1)"), ("=kink", "NN", "torch.maximum({a}, {b})"),
    ("=kink", "NN", "torch.minimum({a}, {b})"), ("=", "NN", "{a} > {b}"), ("=", "NN", "{a} <= {b}"),
    ("=", "NN", "{a} == {b}"), ("=", "Bnn", "torch.where({a}, {b}, {c})"), ("=", "fB", "{a}.masked_fill({b}, 2.0)"),
    ("=", "BB", "{a} & {b}"), ("=", "BB", "{a} | {b}"), ("=", "BB", "{a} ^ {b}"),
    ("=", "BB", "torch.logical_or({a}, {b})"),
    ("=", "ww", "{a} & {b}"), ("=", "ww", "{a} ^ {b}"), ("~", "ff", "torch.add({a}, {b}, alpha=2)"),
    ("~", "ff", "torch.lerp({a}, {b}, 0.25)"), ("~", "fff", "torch.addcmul({a}, {b}, {c}, value=0.5)"),
    ("~", "ff", "torch.logaddexp({a}, {b})"), ("=", "NN", "torch.heaviside({a}.detach(), {b}.detach())"),
    ("~", "ff", "torch.atan2({a}, {b} * {b} + 1)"), ("=", "fw", "{a} * {b}"), ("=", "fB", "{a} * {b}"),
]  # fmt: skip
_REDUCTIONS = [
    ("~", "f", "{a}.sum({d})"), ("~", "f", "{a}.mean({d})"), ("~", "f", "{a}.sum({d}, keepdim=True)"),
    ("~", "f", "{a}.mean({d}, keepdim=True)"), ("~", "f", "{a}.sum()"), ("~", "f", "{a}.mean()"),
    ("=kink", "F", "{a}.amax({d})"), ("=kink", "F", "{a}.amin({d}, keepdim=True)"),
    ("~", "f", "{a}.var({d}, correction=0)"),
    ("~", "f", "torch.logsumexp({a}, {d})"), ("~", "f", "{a}.softmax({d})"), ("~", "f", "{a}.log_softmax({d})"),
    ("~", "f", "F.layer_norm({a}, {a}.shape[-1:])"), ("~", "f", "F.layer_norm({a}, {a}.shape[-1:])"),
    ("~", "f", "{a} * torch.rsqrt(({a} * {a}).mean(-1, keepdim=True) + 0.1)"),
    ("~", "f", "({a} * {a} + 1).norm(dim={d})"),
    ("=", "F", "{a}.argmax({d})"), ("=", "F", "{a}.argmin({d}, keepdim=True)"), ("=", "F", "{a}.argmax()"),
    ("=kink", "F", "{a}.max({d}).values"), ("=", "F", "{a}.min({d}).indices"), ("=kink", "F", "{a}.min()"),
    ("=", "w", "{a}.argmax({d})"), ("=", "w", "{a}.max({d}).values"),
    ("=", "F", "torch.aminmax({a}.detach(), dim={d}).max"),
    ("~", "f", "torch.std_mean({a}, {d}, correction=0)[1]"), ("=", "F", "{a}.count_nonzero({d})"),
    ("=", "w", "{a}.sum({d})"), ("=", "w", "{a}.sum()"), ("=", "w", "{a}.amax({d})"), ("=", "B", "{a}.sum({d})"),
    ("=", "B", "{a}.any({d})"), ("=", "B", "{a}.all({d})"), ("=", "B", "{a}.all()"), ("~", "f", "{a}.sum(({d}, {e}))"),
    ("~", "f", "torch.softmax({a} * 0.5, {d}) * {a}"), ("=", "w", "{a}.cumsum({d})"),
]  # fmt: skip
_VIEWS = [
    "{a}.transpose({d}, {e})", "{a}.unsqueeze({d})", "{a}.squeeze()", "{a}.flip({d})", "{a}.flip(({d}, {e}))",
    "{a}[..., 1:]", "{a}[..., ::2]", "{a}[..., 1::3]", "{a}[:-1]", "{a}[::2]", "{a}.select({d}, 0)", "{a}[..., -1]",
    "{a}.flatten()", "{a}.flatten(0, 1)", "{a}.reshape(-1)", "{a}.movedim({d}, {e})", "{a}.contiguous()",
    "{a}.expand(3, *{a}.shape)", "{a}.unsqueeze(-1).expand(*{a}.shape, 2)", "{a}.chunk(2, {d})[0]",
    "{a}.unbind({d})[-1]",
    "{a}.reshape({a}.shape[::-1])", "{a}.unfold(-1, 2, 1)", "F.pad({a}, (1, 2))", "{a}.roll(1, {d})",
    "{a}.slice_scatter({a}[1:] * 2, 0, 1)", "{a}.select_scatter({a}.select({d}, 0) * 2, {d}, -1)",
    "{a}.unsafe_split(2, {d})[0]", "{a}.unfold(0, 2, 2)", "{a}.diagonal(0, {d}, {e})", "{a}.diagonal(-1, {d}, {e})",
    'F.pad({a}.reshape(1, 1, -1), (1, 2), mode="replicate")', 'F.pad({a}.reshape(1, 1, -1), (1, 2), mode="reflect")',
    "torch.cat([{a}, {a}], {d})", "torch.stack([{a}, {a}], {d})", "{a}.repeat(2, *[1] * ({a}.dim() - 1))", "{a}.mT",
]  # fmt: skip
_JOINS = ["torch.cat([{a}, {b}], {d})", "torch.stack([{a}, {b}], {d})", "torch.cat([{a}, {b}[:1]], 0)"]
# What is written is a copy, so that a program gives the same when it runs again; views of it are read afterwards.
_WRITES = [
    ("=", "nn", "(lambda c: (c.add_({b}), c)[1])({a}.clone())"),
    ("=", "nn", "(lambda c: (c.mul_({b}), c.neg_(), c)[2])({a}.clone())"),
    ("=", "nn", "(lambda c: (c[..., ::2].add_(1), c)[1])({a}.clone())"),
    ("=", "nn", "(lambda c: (c.copy_({b}), c)[1])({a}.clone())"),
    ("=", "fB", "(lambda c: (c.masked_fill_({b}, 2.0), c)[1])({a}.clone())"),
    ("=", "ff", "(lambda c, d: (c.mul_(2), c.sub_(d), d.add_(c), d)[3])({a}.clone(), {b}.clone())"),
    ("=", "f", "(lambda c, v: (c.mul_(2), v + 1)[1])(*(lambda c: (c, c.transpose({d}, {e})))({a}.clone()))"),
    ("=", "f", "(lambda c: (c.zero_(), c.add_({a}), c * 3)[2])(torch.empty_like({a}))"),
    ("~", "f", "(lambda c: (c.sub_(c.mean({d}, keepdim=True)), c)[1])({a}.clone())"),
    ("=", "f", "(lambda c: (torch._foreach_mul_([c, c[:1]], 2), torch._foreach_add_([c], 1), c)[2])({a}.clone())"),
]  # fmt: skip
# Indices are made of sizes, so that they are never out of range; several meet in one element.
_PUTS = [
    ("=", "F", "{a}.cumsum({d})"), ("=", "w", "{a}.cumsum({d})"), ("=", "w", "{a}.cumprod({d})"),
    ("=kink", "F", "{a}.cummax({d}).values"), ("=", "F", "{a}.cummin({d}).indices"), ("~", "f", "{a}.cumsum({d})"),
    ("=", "w", "{a}.cummax({d}).indices"), ("=", "F", "{a}.flip({d}).cumsum({d}).flip({d})"),
    ("=", "F", "torch.zeros_like({a}).index_add(0, torch.arange({a}.shape[0]) // 2, {a})"),
    ("=", "w", "{a}.index_add({d}, torch.arange({a}.shape[{d}]) // 3, {a})"),
    ("=", "F", "{a}.index_copy({d}, torch.arange({a}.shape[{d}]).flip(0), {a} * 2)"),
    ("=", "v", "{a}.scatter({d}, torch.zeros_like({a}, dtype=torch.int64), {a})"),
    ("=", "F", "{a}.scatter({d}, torch.zeros_like({a}, dtype=torch.int64), 2.5)"),
    ("=", "F", "torch.ones_like({a}).scatter_add({d}, torch.ones_like({a}).long().cumsum({d}) // 2, {a})"),
    ("=", "F", "{a}.scatter_reduce({d}, torch.zeros_like({a}, dtype=torch.int64), {a}.flip(0), 'amax')"),
    ("=", "w", "{a}.scatter_reduce({d}, torch.zeros_like({a}, dtype=torch.int64), {a} + 1, 'prod')"),
    ("=", "F", "{a}.index_put((torch.arange({a}.shape[0]) // 2,), {a} * 2, accumulate=True)"),
    ("=", "v", "{a}.index_put((-1 - torch.arange({a}.shape[0]),), {a})"),
    ("=", "F", "{a}.index_fill({d}, torch.arange(1), 3)"),
    ("=", "F", "{a}.gather({d}, torch.zeros_like({a}, dtype=torch.int64))"),
    ("=", "F", "{a}.index_select({d}, torch.arange({a}.shape[{d}]) // 2)"),
    ("=", "F", "{a}[torch.arange({a}.shape[0]) // 2]"), ("=", "F", "{a}[..., torch.arange({a}.shape[-1]) // 2]"),
    ("=", "F", "F.embedding(torch.arange(3) % max({a}.shape[0], 1), {a})"),
    (
        "=",
        "F",
        "torch.zeros({a}.shape[0], 2, dtype={a}.dtype).index_put((torch.arange({a}.shape[0]),), {a}.reshape(-1)[:1])",
    ),
]  # fmt: skip
_RULES = {"unary": _UNARY, "binary": _BINARY, "reduce": _REDUCTIONS, "write": _WRITES, "put": _PUTS}
_CASTS = ["{a}.to(torch.{t})", "{a}.to(torch.{t}) + 1"]


class Maker:
    """`seed` decides everything."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.backward = self.rng.random() < 0.35
        self.dynamic = self.rng.random() < 0.3
        self.special = False  # inputs have infinities and nans
        self.values: list[Value] = []
        self.lines: list[Line] = []

    def make(self) -> Program:
        inputs = self._inputs()
        program = Program(self.seed, inputs, self.lines, [], self.backward, self.dynamic)
        for i, tensor in enumerate(program.arguments(0)):
            scale = _largest(tensor)
            self.values.append(Value(f"x{i}", tensor, True, 0.0, scale))
        for _ in range(40):
            if len(self.lines) >= self.wanted:
                break
            self._line()
        made = self.values[len(inputs) :]
        if not made:
            return self.__class__(self.seed + 10**6).make()
        returned = {made[-1].name}
        for value in made[:-1]:
            if self.rng.random() < 0.25:
                returned.add(value.name)
        if self.backward and not any(each.is_float for each in made if each.name in returned):
            program.backward = False
        for value in self.values:
            program.exact[value.name], program.eps[value.name] = value.exact, value.eps
        program.returned = [value.name for value in made if value.name in returned]
        return program

    def _inputs(self) -> list[Input]:
        rng = self.rng
        self.wanted = rng.randint(3, 9)
        sizes = [size for size in _SIZES if size > 2] if self.dynamic else list(_SIZES)
        rank = rng.choice((0, 1, 1, 2, 2, 2, 2, 3, 3, 4))
        if self.dynamic:
            rank = max(rank, 1)
        while True:
            base = tuple(rng.sample(sizes, rank) if self.dynamic else rng.choices(sizes, k=rank))
            if _count(base) <= _MOST // 2:
                break
        main = rng.choice((torch.float32, torch.float32, *FLOATS))
        self.special = not self.backward and rng.random() < 0.15
        layouts = ("plain", "plain", "transposed", "gaps", "offset", "channels_last")
        inputs = []
        for i in range(rng.randint(1, 4)):
            dtype = main if i == 0 or rng.random() < 0.6 else rng.choice((*FLOATS, *WHOLE, torch.bool, torch.bool))
            shape = base
            if i and rng.random() < 0.4:
                shape = tuple(1 if rng.random() < 0.4 else size for size in base)[rng.randint(0, rank) :]
            inputs.append(Input(shape, dtype, rng.choice(layouts), self.special))
        return inputs

    def _line(self) -> None:
        rng = self.rng
        kind = rng.choices((*_RULES, "view", "join", "cast"), (30, 30, 14, 8, 10, 18, 4, 8))[0]
        rule, wanted = "=", "v"
        if kind == "view":
            text = rng.choice(_VIEWS)
        elif kind == "join":
            text, wanted = rng.choice(_JOINS), "vv"
        elif kind == "cast":
            text = rng.choice(_CASTS)
        else:
            rule, wanted, text = rng.choice(_RULES[kind])
        operands = [self._operand(each) for each in wanted]
        if any(each is None for each in operands):
            return
        if "signbit" in text and any(re.search(_EITHER_ZERO, line.text) for line in self.lines):
            return
        if self.special and "gelu" in text:  # of infinity, eager mode's vector code and its tails disagree
            return
        if kind == "cast":
            self._cast(text, operands[0])
            return
        self._add(rule, text, operands)

    def _operand(self, kind: str) -> Value | None:
        def fits(value: Value) -> bool:
            if kind in "Fw" and not value.exact:
                return False
            if kind == "N" and not value.exact:
                return False
            bool_, float_ = value.dtype == torch.bool, value.is_float
            return {"f": float_, "F": float_, "w": not (float_ or bool_), "B": bool_, "v": True}.get(kind, not bool_)

        found = [value for value in self.values if fits(value)]
        if not found:
            return None
        # What was made last is read more often: chains, and not bushes.
        return found[-1] if self.rng.random() < 0.5 else self.rng.choice(found)

    def _cast(self, text: str, operand: Value) -> None:
        to = self.rng.choice((*FLOATS, *WHOLE, torch.bool))
        name = str(to).removeprefix("torch.")
        if operand.is_float and not to.is_floating_point:
            if not operand.exact:
                return
            # What does not fit into an integer is not defined.
            text = text.replace("{a}", "{a}.nan_to_num(1, 2, 3).clamp(0, 100)")
            self._add("=kink", text.replace("{t}", name), [operand])
            return
        self._add("=", text.replace("{t}", name), [operand])

    def _add(self, rule: str, text: str, operands: list[Value]) -> None:
        rng = self.rng
        rank = max(operands[0].tensor.dim(), 1)
        parts = {"d": rng.randrange(-rank, rank), "e": rng.randrange(rank)}
        text = text.format(**dict(zip("abc", (each.name for each in operands), strict=False)), **parts)
        scope = {**_SCOPE, **{each.name: each.tensor for each in operands}}
        try:
            tensor = eval(text, scope)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            return
        if tensor.numel() > _MOST or tensor.is_complex():
            return
        exact = rule == "!" or (rule.startswith("=") and all(each.exact for each in operands))
        eps = max((each.eps for each in operands), default=0.0)
        for each in [*(each.tensor for each in operands), tensor]:
            if not exact and each.is_floating_point():
                eps = max(eps, torch.finfo(each.dtype).eps)
        if "layer_norm" in text:  # divides by the root of 1e-5 where all numbers are about equal
            eps *= 16
        scale = max(_largest(tensor), *(each.scale for each in operands), 1.0)
        if scale > 1e4 and tensor.is_floating_point():  # half precision ends at 65504
            return
        name = f"v{len(self.lines)}"
        self.lines.append(Line(name, text, tuple(dict.fromkeys(each.name for each in operands))))
        self.values.append(Value(name, tensor, exact, eps, scale))


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _largest(tensor: Tensor) -> float:
    if not tensor.is_floating_point() or not tensor.numel():
        return 1.0
    return float(tensor.detach().double().nan_to_num(0, 0, 0).abs().max())


def make(seed: int) -> Program:
    return Maker(seed).make()
