"""Operator calls with numbers replaced by symbols. The sizes that become symbols are primes that divide no other size
of the program, so that every number that is made of them (a product, a stride, an offset, a size one less) shows it."""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map

from saker import _C, SymbolSpace
from zoo import BATCH, LENGTH


class SymbolicCall(NamedTuple):
    func: torch._ops.OpOverload
    args: tuple
    kwargs: dict
    space: SymbolSpace


class Symbolizer:
    def __init__(self, primes: dict[str, int]) -> None:
        self.space = SymbolSpace()
        self.symbols = {value: self.space.symbol(name, example=value) for name, value in primes.items()}

    def integer(self, value: int) -> int | torch.SymInt:
        if type(value) is not int or value <= 1:
            return value
        if value + 1 in self.symbols:
            return self.symbols[value + 1] - 1
        result: int | torch.SymInt = 1
        for prime, symbol in self.symbols.items():
            while value % prime == 0:
                value //= prime
                result = result * symbol
        return result * value

    def tensor(self, t: torch.Tensor) -> torch.Tensor:
        sizes, strides = [self.integer(s) for s in t.shape], [self.integer(s) for s in t.stride()]
        offset = self.integer(t.storage_offset())
        if not any(isinstance(x, torch.SymInt) for x in (*sizes, *strides, offset)):
            return t
        return self.space.tensor(sizes, strides, offset, dtype=t.dtype, device=t.device)


@functools.cache
def symbolic_arguments(func: torch._ops.OpOverload) -> frozenset[str]:
    """The arguments that may be symbols; only the text of a schema tells SymInt from int."""
    return frozenset(re.findall(r"SymInt[\[\]\d?]* (\w+)", str(func._schema).rpartition("->")[0]))


def symbolic_call(func: torch._ops.OpOverload, args: tuple, kwargs: dict) -> SymbolicCall | None:
    """The call with symbols for what is made of BATCH and LENGTH, or None where nothing is."""
    symbolizer = Symbolizer({"batch": BATCH, "length": LENGTH})
    changed = False

    def convert(value: Any, symbolic: bool) -> Any:
        nonlocal changed
        new = value
        if isinstance(value, torch.Tensor):
            new = symbolizer.tensor(value)
        elif symbolic and type(value) is int:
            new = symbolizer.integer(value)
        changed |= new is not value
        return new

    def convert_all(name: str, tree: Any) -> Any:
        return tree_map(lambda x: convert(x, name in symbolic_arguments(func)), tree)

    names = [argument.name for argument in func._schema.arguments]
    new_args = tuple(convert_all(name, value) for name, value in zip(names, args, strict=False))
    new_kwargs = {name: convert_all(name, value) for name, value in kwargs.items()}
    return SymbolicCall(func, new_args, new_kwargs, symbolizer.space) if changed else None


def at_examples(space: SymbolSpace, results: list[tuple]) -> list[tuple]:
    """Results of inference with the example values put in for symbols."""

    def number(value: Any) -> Any:
        if not isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)):
            return value
        return space.evaluate(value) if value.node.has_hint() else "known when it has run"

    return [tree_map(number, result) for result in results]


class Comparison(NamedTuple):
    difference: str | None  # between inference with symbols, at the examples, and with numbers
    guards: list[str]


def compare_dynamic(func: torch._ops.OpOverload, args: tuple, kwargs: dict) -> Comparison | None:
    """Infers with symbols and with numbers. None where no number of the call becomes a symbol."""
    call = symbolic_call(func, args, kwargs)
    if call is None:
        return None
    _, expected = _C.infer(func, args, kwargs)
    _, symbolic = _C.infer(call.func, call.args, call.kwargs)
    same = at_examples(call.space, symbolic) == at_examples(call.space, expected)
    return Comparison(None if same else f"with symbols {symbolic}, with numbers {expected}", call.space.guards())
