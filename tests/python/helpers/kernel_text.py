"""Runs graphs whose groups were lowered to kernels: kernels are read from the text that `saker-opt --lower` prints, and
each of their lines is done for all steps of the loops at once, by torch. A second reading of what a kernel means, which
shares no code with the engine; and exact where one operator of torch is one line."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import torch

import saker

ROOT = Path(__file__).resolve().parents[3]
SAKER_OPT = Path(os.environ.get("SAKER_OPT", ROOT / "build" / "saker-opt")).absolute()

DTYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "bool": torch.bool,
    "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
}  # fmt: skip


def saker_opt(text: str, *options: str) -> str:
    done = subprocess.run([str(SAKER_OPT), *options, "-"], check=False, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- kernels ----


def constant(text: str, dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.tensor(text == "true")
    return torch.tensor(float(text) if dtype.is_floating_point else int(text), dtype=dtype)


UNARY = {
    "neg": torch.neg, "abs": torch.abs, "sqrt": torch.sqrt, "floor": torch.floor, "ceil": torch.ceil,
    "trunc": torch.trunc, "round": torch.round, "not": torch.bitwise_not, "exp": torch.exp, "exp2": torch.exp2,
    "expm1": torch.expm1, "log": torch.log, "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p,
    "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan,
    "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh, "asinh": torch.asinh, "acosh": torch.acosh,
    "atanh": torch.atanh, "erf": torch.erf, "erfc": torch.erfc,
}  # fmt: skip


def divided(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": divided, "rem": torch.fmod, "min": torch.minimum,
    "max": torch.maximum, "copysign": torch.copysign, "and": torch.bitwise_and, "or": torch.bitwise_or,
    "xor": torch.bitwise_xor, "shl": torch.bitwise_left_shift, "shr": torch.bitwise_right_shift, "eq": torch.eq,
    "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "atan2": torch.atan2,
    "pow": torch.pow,
}  # fmt: skip


def fused(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """One rounding for f32: the product of two f32 is exact in f64."""
    return (a.double() * b.double() + c.double()).to(a.dtype) if a.dtype == torch.float32 else a * b + c


class Kernel:
    def __init__(self, lines: list[str], sizes: list[int]) -> None:
        self.sizes = sizes
        self.axes: list[tuple[int, bool, tuple[int, int] | None]] = []
        self.values: dict[str, torch.Tensor] = {}
        self.lines = lines

    def integer(self, text: str) -> int:
        return self.sizes[int(text[1:])] if text.startswith("s") else int(text)

    def axis(self, number: int) -> torch.Tensor:
        shape = [1] * len(self.axes)
        shape[number] = -1
        return torch.arange(self.axes[number][0]).view(shape)

    def place(self, text: str) -> torch.Tensor:
        total = torch.zeros([1] * len(self.axes), dtype=torch.int64)
        for term in re.sub(r" - ", " + -", text).split(" + "):
            factor = 1
            sign = 1
            if term.startswith("-") and not re.fullmatch(r"-\d+.*", term):
                sign, term = -1, term[1:]
            for part in term.split("*"):
                if part.startswith("i"):
                    factor = factor * self.axis(int(part[1:]))
                elif part.startswith("%"):
                    factor = factor * self.values[part]
                else:
                    factor = factor * self.integer(part)
            total = total + sign * factor
        return total

    def inside(self) -> torch.Tensor:
        """Where no axis has ended."""
        true = torch.ones([1] * len(self.axes), dtype=torch.bool)
        for number, (extent, _, chunk) in enumerate(self.axes):
            if chunk:
                true = true & (self.axis(chunk[0]) * extent + self.axis(number) < chunk[1])
        return true

    def mask(self, text: str | None) -> torch.Tensor:
        return self.values[text] & self.inside() if text else self.inside()

    def run(self, buffers: list[torch.Tensor]) -> None:
        for line in self.lines[1:]:
            line = line.strip()
            if match := re.fullmatch(r"(parallel|reduced) i\d+ < (\S+)(?: while (\S+)\*i(\d+) \+ i\d+ < (\S+))?", line):
                chunk = (int(match[4]), self.integer(match[5])) if match[3] else None
                self.axes.append((self.integer(match[2]), match[1] == "reduced", chunk))
            elif match := re.fullmatch(r"store b(\d+)\[(.*)\], (%\d+)(?: if (%\d+))?", line):
                self.store(buffers[int(match[1])], self.place(match[2]), self.values[match[3]], self.mask(match[4]))
            elif match := re.fullmatch(r"(%\d+): (\w+) = load b(\d+)\[(.*)\](?: if (%\d+))?", line):
                self.values[match[1]] = self.load(buffers[int(match[3])], self.place(match[4]), self.mask(match[5]))
            elif match := re.fullmatch(r"(%\d+): (\w+) = ([\w.]+) ?(.*)", line):
                self.values[match[1]] = self.compute(match[3], match[4], DTYPES[match[2]])

    def load(self, buffer: torch.Tensor, place: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        place, mask = torch.broadcast_tensors(place, mask)
        read = place[mask]
        assert read.numel() == 0 or (read.min() >= 0 and read.max() < buffer.numel()), "a load outside of its buffer"
        out = torch.zeros(place.shape, dtype=buffer.dtype)
        out[mask] = buffer[read]
        return out

    def store(self, buffer: torch.Tensor, place: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> None:
        parallel = [extent for extent, reduced, _ in self.axes if not reduced]
        place, value, mask = torch.broadcast_tensors(place, value, mask)
        assert value.dtype == buffer.dtype
        shape = [*parallel, *place.shape[len(parallel) :]]
        place, value, mask = place.expand(shape), value.expand(shape), mask.expand(shape)
        written = place[mask]
        assert written.numel() == 0 or (written.min() >= 0 and written.max() < buffer.numel()), "a store outside"
        buffer[written] = value[mask]

    def compute(self, op: str, rest: str, dtype: torch.dtype) -> torch.Tensor:
        if op == "const":
            return constant(rest, dtype).view([1] * len(self.axes))
        if op == "index":
            return self.axis(int(rest[1:]))
        if op == "argument":
            return torch.tensor(self.integer(rest)).view([1] * len(self.axes))
        operands = [self.values[name] for name in rest.split(", ")]
        if op.startswith("reduce."):
            return self.reduce(op[7:], operands[0])
        if op == "convert":
            half = dtype in (torch.float16, torch.bfloat16) and operands[0].dtype != torch.float32
            return operands[0].float().to(dtype) if half else operands[0].to(dtype)
        if op == "bitcast":
            return operands[0].view(dtype)
        if op == "select":
            assert operands[0].dtype == torch.bool and operands[1].dtype == operands[2].dtype == dtype
            return torch.where(*operands)
        if op == "fma":
            return fused(*operands)
        assert all(operand.dtype == operands[0].dtype for operand in operands), (op, operands)
        assert operands[0].dtype not in (torch.float16, torch.bfloat16)
        result = UNARY[op](*operands) if op in UNARY else BINARY[op](*operands)
        assert result.dtype == dtype, (op, result.dtype, dtype)
        return result

    def reduce(self, kind: str, value: torch.Tensor) -> torch.Tensor:
        dims = [number for number, axis in enumerate(self.axes) if axis[1]]
        shape = list(torch.broadcast_shapes(value.shape, [a[0] if a[1] else 1 for a in self.axes]))
        value = value.expand(shape)
        neutral = {"sum": 0, "prod": 1, "any": False, "all": True}
        if kind in neutral:
            value = torch.where(self.inside(), value, torch.tensor(neutral[kind], dtype=value.dtype))
            if kind == "prod":
                for dim in dims:
                    value = value.prod(dim, keepdim=True, dtype=value.dtype)
                return value
            call = {"sum": torch.sum, "any": torch.any, "all": torch.all}[kind]
            return call(value, dims, keepdim=True, **({"dtype": value.dtype} if kind == "sum" else {}))
        lowest = -float("inf") if value.is_floating_point() else torch.iinfo(value.dtype).min
        highest = float("inf") if value.is_floating_point() else torch.iinfo(value.dtype).max
        value = torch.where(self.inside(), value, torch.tensor(lowest if kind == "max" else highest, dtype=value.dtype))
        return torch.amax(value, dims, keepdim=True) if kind == "max" else torch.amin(value, dims, keepdim=True)


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """All memory from the first element on, as a kernel sees it."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
    return torch.as_strided(tensor, [max(size, 0)], [1])


# ---- graphs ----


def types_of(text: str) -> dict[str, str]:
    return dict(re.findall(r"(%[\w\"]+): ((?:\w+)\[[^\]]*\](?:\{[^}]*\})?)", text))


def empty(text: str, sizes: dict[str, int]) -> torch.Tensor:
    def numbers(part: str) -> list[int]:
        return [eval(each, {}, sizes) for each in part.split(",") if each.strip()]

    match = re.match(r"(\w+)\[([^\]]*)\](?:\{strides: \[([^\]]*)\])?", text)
    assert match
    shape = numbers(match[2])
    dtype = DTYPES[match[1]]
    made = torch.empty(shape, dtype=dtype)
    if match[3] is not None:
        made = torch.empty_strided(shape, numbers(match[3]), dtype=dtype)
    return made


class Fused:
    """A graph with groups, and the kernels of each group."""

    def __init__(self, text: str, *options: str) -> None:
        self.text = saker_opt(text, "--fuse", *options)
        self.launches = self.read(saker_opt(self.text, "--lower"))

    def read(self, text: str) -> list[list[tuple[list[str], list[str]]]]:
        groups: list[list[tuple[list[str], list[str]]]] = []
        for block in re.split(r"^# group\n", text, flags=re.MULTILINE)[1:]:
            launches = []
            one = re.compile(r"^# (b0: [^\n]*)\n# [^\n]*\n(kernel.*?^\})", re.MULTILINE | re.DOTALL)
            for header, body in one.findall(block):
                launches.append((header.split(", "), body.split("\n")))
            assert launches, block
            groups.append(launches)
        return groups

    def run(self, inputs: list[torch.Tensor], sizes: dict[str, int] | None = None) -> list[torch.Tensor]:
        sizes = sizes or {}
        types = types_of(self.text)
        header = self.text[self.text.index("(") + 1 : self.text.index(") {\n")]
        values = dict(zip(types_of(header), inputs, strict=True))
        symbols = "".join(line + "\n" for line in self.text.split("\n") if re.match(r"(symbol|fact) ", line))
        lines = self.text.split("\n")
        group = at = 0
        while at < len(lines):
            line = lines[at]
            at += 1
            if not line.startswith("  ") or line.startswith("   "):
                continue
            line = line.strip()
            if line.startswith("return"):
                return [values[name] for name in re.findall(r"%[\w]+", line)]
            results = [name for name in re.findall(r"(%\w+): ", line.split(" = ")[0]) if name in types]
            if "saker::fused(" in line:
                operands = re.findall(r"%\w+", line[line.index("saker::fused(") :])
                made = [empty(types[name], sizes) for name in results]
                self.launch(self.launches[group], [values[name] for name in operands], made, sizes)
                values.update(zip(results, made, strict=True))
                group += 1
            elif results:
                used = [name for name in dict.fromkeys(re.findall(r"%\w+", line.split(" = ", 1)[1])) if name in values]
                parameters = ", ".join(f"{name}: {types[name]}" for name in used)
                one = f"{symbols}graph @one({parameters}) {{\n  {line}\n  return {', '.join(results)}\n}}\n"
                values.update(zip(results, saker.parse(one).run([values[name] for name in used]), strict=True))
        raise AssertionError("the graph returns nothing")

    def launch(self, launches, operands, results, sizes) -> None:
        temporaries: dict[int, torch.Tensor] = {}
        for header, body in launches:
            signature = re.findall(r"b\d+: (?:out )?(\w+)", body[0])
            buffers: list[torch.Tensor] = []
            arguments: list[int] = []
            flag = torch.zeros(1, dtype=torch.bool)  # set where eager mode would raise
            for each in header:
                if match := re.fullmatch(r"s\d+: (.*)", each):
                    arguments.append(eval(match[1], {}, sizes))
                    continue
                if each.endswith(": flag"):
                    buffers.append(flag)
                    continue
                kind, number = each.split(": ")[1].split(" ")[:2]
                if kind == "temporary":
                    count = 1 << 20
                    fresh = torch.empty(count, dtype=DTYPES[signature[len(buffers)]])
                    buffers.append(temporaries.setdefault(int(number), fresh))
                else:
                    buffers.append(memory_of((operands if kind == "operand" else results)[int(number)]))
            Kernel(body, arguments).run(buffers)
            assert not flag.item()
