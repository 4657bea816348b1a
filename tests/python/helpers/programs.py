"""Random programs of views and in-place writes, each as a graph in text and as calls of PyTorch.

A program is made by running it: each step is taken if eager PyTorch accepts it, and is written down twice, as a line of
text with the types that were seen, and as a call that can be repeated on other tensors.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten
DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.uint8: "dtype.u8",
    torch.bool: "bool",
    torch.complex64: "c64",
    torch.complex128: "c128",
}


def contiguous_strides(sizes: torch.Size) -> tuple[int, ...]:
    return torch.empty(sizes, device="meta").stride()


def type_text(t: torch.Tensor) -> str:
    """The type of a tensor as the text form writes it."""
    unusual = []
    if t.stride() != contiguous_strides(t.shape):
        unusual.append(f"strides: {list(t.stride())}")
    if t.storage_offset():
        unusual.append(f"offset: {t.storage_offset()}")
    unusual += ["conj"] * t.is_conj() + ["neg"] * t.is_neg()
    braces = "{" + ", ".join(unusual) + "}" if unusual else ""
    return f"{DTYPES[t.dtype].removeprefix('dtype.')}{list(t.shape)}{braces}"


class Var:
    """A tensor of a program, by name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def arg_text(arg: Any) -> str:
    if isinstance(arg, Var):
        return f"%{arg.name}"
    if isinstance(arg, (list, tuple)):
        return "[" + ", ".join(map(arg_text, arg)) + "]"
    if isinstance(arg, torch.dtype):
        return DTYPES[arg]
    if isinstance(arg, complex):
        return f"complex({arg.real}, {arg.imag})"
    return repr(arg)


def resolve(arg: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(arg, Var):
        return tensors[arg.name]
    if isinstance(arg, (list, tuple)):
        return [resolve(item, tensors) for item in arg]
    return arg


def variables(arg: Any) -> list[Var]:
    if isinstance(arg, Var):
        return [arg]
    if isinstance(arg, (list, tuple)):
        return [var for item in arg for var in variables(item)]
    return []


def same_view(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Same elements in the same order."""
    geometry = [(t.dtype, t.shape, t.stride(), t.storage_offset(), t.is_conj(), t.is_neg()) for t in (a, b)]
    return geometry[0] == geometry[1]


def addresses(t: torch.Tensor) -> set[int]:
    """The bytes of its storage that a tensor sees."""
    starts = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(t.shape, t.stride(), strict=True):
        starts = starts.unsqueeze(-1) + torch.arange(size) * stride
    size = t.element_size()
    return {(start + t.storage_offset()) * size + i for start in starts.flatten().tolist() for i in range(size)}


def copy_of(t: torch.Tensor) -> torch.Tensor:
    """A tensor of the same geometry in a copy of the storage, what lies between its elements included."""
    out = torch.empty(0, dtype=t.dtype)
    out.set_(t.untyped_storage().clone(), t.storage_offset(), t.shape, t.stride())
    out = torch._conj(out) if t.is_conj() else out
    return torch._neg_view(out) if t.is_neg() else out


class Program:
    """A program under construction, or done: `text`, `inputs`, and `run()`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.steps: list[tuple[list[str], Any, tuple, dict]] = []
        self.lines: list[str] = []
        self.live: dict[str, torch.Tensor] = {}
        self.inputs: list[torch.Tensor] = []
        self.returned: list[str] = []
        self.count = 0

    # ---- what it is ----

    @property
    def text(self) -> str:
        parameters = ", ".join(f"%x{i}: {type_text(t)}" for i, t in enumerate(self.inputs))
        body = "".join(f"  {line}\n" for line in self.lines)
        return f"graph @main({parameters}) {{\n{body}  return {', '.join('%' + name for name in self.returned)}\n}}\n"

    @property
    def code(self) -> str:
        """The same in Python, for the report of a failure."""
        out = []
        for names, op, args, kwargs in self.steps:
            words = [repr(a) for a in args] + [f"{k}={v!r}" for k, v in kwargs.items()]
            target = ", ".join(names) + ("," if len(names) > 1 else "")
            out.append(f"{target}{' = ' if names else ''}torch.ops.{op!s}({', '.join(words)})")
        return "\n".join([*out, "return " + ", ".join(self.returned)])

    def run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        tensors = {f"x{i}": t for i, t in enumerate(inputs)}
        for names, op, args, kwargs in self.steps:
            result = op(*resolve(args, tensors), **{k: resolve(v, tensors) for k, v in kwargs.items()})
            results = result if isinstance(result, (list, tuple)) else [] if result is None else [result]
            tensors.update(zip(names, results, strict=True))
        return [tensors[name] for name in self.returned]

    # ---- steps ----

    def emit(self, op: Any, *args: Any, **kwargs: Any) -> list[Var]:
        """Takes a step. Raises what eager raises."""
        schema = op._schema
        result = op(*resolve(args, self.live), **{k: resolve(v, self.live) for k, v in kwargs.items()})
        results = list(result) if isinstance(result, (list, tuple)) else [] if result is None else [result]
        names = [f"v{self.count + i}" for i in range(len(results))]
        self.count += len(results)
        words = []
        for i, argument in enumerate(schema.arguments):
            if argument.kwarg_only and argument.name not in kwargs:
                continue
            value = args[i] if i < len(args) else kwargs.get(argument.name, argument.default_value)
            if isinstance(value, int) and not isinstance(value, bool) and str(argument.type) == "float":
                value = float(value)
            words.append((f"{argument.name}=" if argument.kwarg_only else "") + arg_text(value))
        overload = schema.overload_name
        name = schema.name + (f".{overload}" if overload else "")
        head = ", ".join(f"%{n}: {type_text(t)}" for n, t in zip(names, results, strict=True))
        self.lines.append(f"{head}{' = ' if names else ''}{name}({', '.join(words)})")
        self.steps.append((names, op, args, kwargs))
        self.live.update(zip(names, results, strict=True))
        return [Var(n) for n in names]

    def tensor(self, var: Var) -> torch.Tensor:
        return self.live[var.name]

    def pick(self, accept: Callable[[torch.Tensor], bool] = lambda t: True) -> Var:
        names = [name for name, t in self.live.items() if accept(t)]
        if not names:
            raise LookupError
        # The newest are the deepest views.
        return Var(self.random.choice(names[-6:] if self.random.random() < 0.6 else names))

    def safe(self, target: Var, *sources: Var) -> bool:
        """Whether a write into the target while the sources are read has one meaning."""
        t = self.tensor(target)
        for source in sources:
            s = self.tensor(source)
            if s.untyped_storage().data_ptr() != t.untyped_storage().data_ptr() or same_view(s, t):
                continue
            if addresses(s) & addresses(t):
                return False
        return True

    def retire(self, var: Var) -> None:
        """The tensor is called otherwise from here on."""
        del self.live[var.name]


# ---- the ways to go on; each takes a program and makes one step of it, or raises ----


def make_input(p: Program) -> None:
    r = p.random
    kind = r.choice(["f32"] * 5 + ["f64", "i64", "u8", "c64", "c64"])
    dtype = {name.removeprefix("dtype."): dtype for dtype, name in DTYPES.items()}[kind]
    sizes = [r.choice([1, 2, 2, 3, 4, 4]) for _ in range(r.choice([1, 2, 2, 3]))]
    values = torch.tensor([r.randint(-8, 8) * 0.5 for _ in range(512)])
    flat = torch.view_as_complex(values.view(-1, 2)) if dtype.is_complex else values
    flat = flat.abs() if dtype == torch.uint8 else flat
    flat = flat.to(dtype)
    layout = r.random()
    if layout < 0.6:
        t = flat[: torch.Size(sizes).numel()].view(sizes)
    elif layout < 0.8:  # another order of the dimensions, and an offset
        offset = r.choice([0, 3])
        order = list(range(len(sizes)))
        r.shuffle(order)
        back = [order.index(i) for i in range(len(sizes))]
        n = torch.Size(sizes).numel()
        t = flat[offset : offset + n].view([sizes[i] for i in order]).permute(back)
    else:  # gaps
        outer = [size + r.choice([0, 1, 2]) for size in sizes]
        t = flat[: torch.Size(outer).numel()].view(outer)
        for d, size in enumerate(sizes):
            t = t.narrow(d, r.randint(0, outer[d] - size), size)
    if dtype.is_complex and r.random() < 0.2:
        t = torch._conj(t)
    if r.random() < 0.05 and dtype != torch.uint8:
        t = torch._neg_view(t)
    t = copy_of(t)
    p.live[f"x{len(p.inputs)}"] = t
    p.inputs.append(copy_of(t))


def view(p: Program) -> None:
    r = p.random
    x = p.pick()
    t = p.tensor(x)
    dims, n = t.dim(), t.numel()
    dim = r.randrange(-dims, dims) if dims else 0
    size = t.shape[dim] if dims else 1

    def reshaped() -> list[int]:
        factors = [f for f in (1, 2, 3, 4, 6, 8) if n % f == 0]
        f = r.choice(factors)
        return r.choice([[n], [f, n // f], [-1, f], [1, f, n // f]])

    def strided() -> list[Any]:
        rank = r.choice([1, 1, 2, 2, 3])
        sizes = [r.choice([1, 2, 2, 3]) for _ in range(rank)]
        strides = [r.choice([1, 1, 2, 3, 4, 0]) if r.random() < 0.3 else r.choice([1, 2, 3, 4, 6]) for _ in range(rank)]
        offset = r.choice([None, 0, t.storage_offset(), r.randrange(0, 6)])
        end = (t.storage_offset() if offset is None else offset) + sum(
            (a - 1) * b for a, b in zip(sizes, strides, strict=True)
        )
        last = t.storage_offset() + sum((a - 1) * b for a, b in zip(t.shape, t.stride(), strict=True))
        if end > last or n == 0:
            raise LookupError
        return [sizes, strides, offset]

    ways: list[Callable[[], Any]] = [
        lambda: p.emit(aten.view.default, x, reshaped()),
        lambda: p.emit(
            aten.slice.Tensor, x, dim, r.choice([0, 1, -2, None]), r.choice([size, -1, 2, None]), r.choice([1, 1, 2])
        ),
        lambda: p.emit(aten.select.int, x, dim, r.randrange(-size, size)),
        lambda: p.emit(aten.transpose.int, x, dim, r.randrange(-dims, dims)),
        lambda: p.emit(aten.t.default, x),
        lambda: p.emit(aten.permute.default, x, r.sample(range(dims), dims)),
        lambda: p.emit(aten.unsqueeze.default, x, r.randrange(-dims - 1, dims + 1)),
        lambda: p.emit(aten.squeeze.default, x),
        lambda: p.emit(aten.squeeze.dim, x, dim),
        lambda: p.emit(aten.squeeze.dims, x, [dim]),
        lambda: p.emit(aten.diagonal.default, x, r.choice([-1, 0, 0, 1]), *r.sample(range(dims), 2)),
        lambda: p.emit(
            aten.expand.default,
            x,
            r.choice([[2], [1], []]) + [r.choice([3, s]) if s == 1 else r.choice([-1, s]) for s in t.shape],
        ),
        lambda: p.emit(aten.as_strided.default, x, *strided()),
        lambda: p.emit(aten.split.Tensor, x, r.choice([1, 2]), dim),
        lambda: p.emit(aten.split_with_sizes.default, x, [1, size - 1], dim),
        lambda: p.emit(aten.unbind.int, x, dim),
        lambda: p.emit(aten.unfold.default, x, dim, r.choice([1, 2]), r.choice([1, 2, 3])),
        lambda: p.emit(aten.alias.default, x),
        lambda: p.emit(aten.detach.default, x),
        lambda: p.emit(aten._reshape_alias.default, x, list(t.shape), list(t.stride())),
        lambda: p.emit(aten._unsafe_view.default, x, reshaped()),
        lambda: p.emit(aten.reshape.default, x, reshaped()),
        lambda: p.emit(aten.contiguous.default, x),
        lambda: p.emit(aten._neg_view.default, p.pick(lambda t: t.dtype not in (torch.bool, torch.uint8))),
    ]
    if t.dtype.is_complex:
        ways += [lambda: p.emit(aten.view_as_real.default, x), lambda: p.emit(aten._conj.default, x)] * 3
        ways += [lambda: p.emit(aten.resolve_conj.default, x)]
    elif not t.is_neg() and not t.dtype.is_floating_point:
        ways += [lambda: p.emit(aten.view.dtype, x, r.choice([torch.uint8, torch.int16, torch.int32, torch.int64]))] * 2
    if t.dtype == torch.float32 and dims and t.shape[-1] == 2:
        ways += [lambda: p.emit(aten.view_as_complex.default, x)] * 3
    r.choice(ways)()


def value(p: Program) -> None:
    """A fresh tensor."""
    r = p.random
    x = p.pick()
    ways = [
        lambda: p.emit(aten.clone.default, x),
        lambda: p.emit(aten.add.Tensor, x, r.choice([1, x, p.pick()])),
        lambda: p.emit(aten.mul.Tensor, x, 2),
        lambda: p.emit(aten._to_copy.default, x, dtype=torch.complex64),
        lambda: p.emit(aten.zeros.default, list(p.tensor(x).shape)),
        lambda: p.emit(aten.sum.dim_IntList, x, [0]),
    ]
    r.choice(ways)()


def write(p: Program) -> None:
    r = p.random
    x = p.pick()
    t = p.tensor(x)
    try:
        other = p.pick(lambda s: s.dim() <= t.dim() and s is not t)
    except LookupError:
        other = x
    if not p.safe(x, other):
        other = x
    number: Any = (
        r.choice([0, 1, 2, -1])
        if t.dtype in (torch.int64, torch.int32, torch.int16, torch.uint8)
        else r.choice([0.5, 1, 2.0, -1.0])
    )
    number = abs(number) if t.dtype == torch.uint8 else number
    ways = [
        lambda: p.emit(aten.add_.Tensor, x, other),
        lambda: p.emit(aten.add_.Tensor, x, number, alpha=2),
        lambda: p.emit(aten.add_.Scalar, x, number),
        lambda: p.emit(aten.sub_.Tensor, x, other),
        lambda: p.emit(aten.mul_.Tensor, x, number),
        lambda: p.emit(aten.copy_.default, x, other),
        lambda: p.emit(aten.copy_.default, x, other),
        lambda: p.emit(aten.fill_.Scalar, x, number),
        lambda: p.emit(
            aten.fill_.Tensor,
            x,
            p.pick(lambda s: s.dim() == 0 and s.untyped_storage().data_ptr() != t.untyped_storage().data_ptr()),
        ),
        lambda: p.emit(aten.zero_.default, x),
        lambda: p.emit(aten.neg_.default, x),
        lambda: p.emit(aten.relu_.default, x),
        lambda: p.emit(aten.clamp_.default, x, -2, 3),
        lambda: p.emit(aten.masked_fill_.Scalar, x, mask(p, x), number),
        lambda: p.emit(aten.index_fill_.int_Scalar, x, 0, index(p, t.shape[0]), number),
        lambda: p.emit(
            aten.index_put_.default, x, [index(p, t.shape[0])], p.emit(aten.zeros.default, [])[0], r.random() < 0.5
        ),
        lambda: p.emit(aten.index_add_.default, x, 0, index(p, t.shape[0]), p.emit(aten.clone.default, x)[0]),
        lambda: p.emit(aten.eq_.Tensor, x, other),
        lambda: p.emit(aten.uniform_.default, x),
        lambda: p.emit(aten.normal_.default, x),
        lambda: p.emit(aten.bernoulli_.float, x, 0.5),
        lambda: p.emit(aten.random_.to, x, 5),
        lambda: p.emit(aten.cumsum_.default, x, 0),
        lambda: p.emit(aten.tril_.default, x),
    ]
    r.choice(ways)()


def index(p: Program, size: int) -> Var:
    """Distinct positions, in any order."""
    n = p.random.randint(1, size)
    start = p.emit(aten.arange.default, size)[0]
    if p.random.random() < 0.5:
        start = p.emit(aten.flip.default, start, [0])[0]
    return p.emit(aten.clone.default, p.emit(aten.slice.Tensor, start, 0, 0, n)[0])[0] if n < size else start


def mask(p: Program, x: Var) -> Var:
    return p.emit(aten.gt.Scalar, p.emit(aten.clone.default, x)[0], 0)[0]


def out(p: Program) -> None:
    r = p.random
    x = p.pick()
    t = p.tensor(x)
    a = p.pick(lambda s: s.shape == t.shape)
    b = p.pick(lambda s: s.dim() <= t.dim())
    broadcast = torch.broadcast_shapes(p.tensor(a).shape, p.tensor(b).shape)
    if not p.safe(x, a, b) or broadcast != t.shape:  # out= would get another size
        a = b = x
    ways = [
        lambda: p.emit(aten.add.out, a, b, out=x),
        lambda: p.emit(aten.mul.out, a, b, out=x),
        lambda: p.emit(aten.eq.Tensor_out, a, b, out=x),
        lambda: p.emit(aten.neg.out, a, out=x),
        lambda: p.emit(
            aten.sum.IntList_out, p.emit(aten.clone.default, p.emit(aten.unsqueeze.default, a, 0)[0])[0], [0], out=x
        ),
        lambda: p.emit(aten.cumsum.out, p.emit(aten.clone.default, a)[0], 0, out=x),
        lambda: p.emit(aten.fill.Scalar_out, a, 2, out=x),
        lambda: resize_out(p, a, b),
    ]
    r.choice(ways)()


def resize_out(p: Program, a: Var, b: Var) -> None:
    """out= gives an empty tensor its memory; its old name is not used again."""
    dtype = torch.promote_types(p.tensor(a).dtype, p.tensor(b).dtype)
    empty = p.emit(aten.zeros.default, [0], dtype=dtype)[0]
    p.emit(aten.add.out, a, b, out=empty)
    p.retire(empty)


def same_shape(t: torch.Tensor) -> Callable[[torch.Tensor], bool]:
    return lambda s: s.shape == t.shape


def foreach(p: Program) -> None:
    r = p.random
    targets = [p.pick() for _ in range(r.choice([1, 2, 3]))]
    others = [p.pick(same_shape(p.tensor(x))) for x in targets]
    for x in targets:
        if not all(p.safe(x, other) for other in others):
            return
    ways = [
        lambda: p.emit(aten._foreach_add_.List, targets, others),
        lambda: p.emit(aten._foreach_mul_.Scalar, targets, 2),
        lambda: p.emit(aten._foreach_neg_.default, targets),
        lambda: p.emit(aten._foreach_zero_.default, targets),
        lambda: p.emit(aten._foreach_copy_.default, targets, others),
    ]
    r.choice(ways)()


def metadata(p: Program) -> None:
    """The tensor gets other sizes and strides; its old name is not used again."""
    r = p.random
    # Eager gives a conjugate or negative view another layout on the way, and resize_ of nothing may need more memory.
    x = p.pick(lambda t: not t.is_conj() and not t.is_neg() and t.numel() > 0)
    t = p.tensor(x)
    dims = t.dim()
    ways = [
        lambda: p.emit(aten.t_.default, x),
        lambda: p.emit(aten.transpose_.default, x, *[r.randrange(dims) for _ in range(2)]),
        lambda: p.emit(aten.unsqueeze_.default, x, r.randrange(-dims - 1, dims + 1)),
        lambda: p.emit(aten.squeeze_.default, x),
        lambda: p.emit(aten.squeeze_.dim, x, r.randrange(dims)),
        lambda: p.emit(aten.as_strided_.default, x, [max(t.numel() // 2, 1)], [1], t.storage_offset()),
        lambda: p.emit(aten.detach_.default, x),
        lambda: p.emit(aten.resize_.default, x, [max(t.numel() // 2, 1)] if 0 not in t.stride() else list(t.shape)),
    ]
    made = r.choice(ways)()
    # The object has one name more; with other sizes the old one would lie.
    for name in [n for n, s in p.live.items() if s is p.tensor(made[0]) and n != made[0].name]:
        del p.live[name]


def step(p: Program) -> None:
    kinds = [view] * 9 + [write] * 7 + [value] * 2 + [out] * 2 + [foreach, metadata]
    # Where eager refuses, the steps on the way there stay.
    with contextlib.suppress(RuntimeError, LookupError, ValueError, TypeError, NotImplementedError):
        p.random.choice(kinds)(p)


def make_program(seed: int, steps: int = 12) -> Program:
    """A program of about so many steps over one to three inputs."""
    p = Program(seed)
    torch.manual_seed(seed)
    with torch._C._AutoDispatchBelowADInplaceOrView():
        for _ in range(p.random.choice([1, 1, 2, 3])):
            make_input(p)
        while len(p.steps) < steps:
            step(p)
    names = list(p.live)
    p.returned = [
        p.random.choice(names[-8:] if p.random.random() < 0.7 else names) for _ in range(p.random.randint(1, 4))
    ]
    return p
