"""Operator calls with numbers replaced by symbols. The sizes that become symbols are primes that divide no other size
of the program, so that every number that is made of them (a product, a stride, an offset, a size one less) shows it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map

from saker import _C, SymbolSpace

# Example values of the symbols; programs to be made symbolic use them for what may change, and for nothing else.
BATCH, LENGTH = 7, 11


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


def takes_symbols(argument: Any) -> bool:
    return "SymInt" in str(argument.real_type)


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

    schema = func._schema.arguments
    new_args = tuple(
        tree_map(lambda x, a=argument: convert(x, takes_symbols(a)), value)
        for argument, value in zip(schema, args, strict=False)
    )
    by_name = {argument.name: argument for argument in schema}
    new_kwargs = {
        name: tree_map(lambda x, a=by_name[name]: convert(x, takes_symbols(a)), value) for name, value in kwargs.items()
    }
    return SymbolicCall(func, new_args, new_kwargs, symbolizer.space) if changed else None


def at_examples(space: SymbolSpace, results: list[tuple]) -> list[tuple]:
    """Results of inference with the example values put in for symbols."""

    def number(value: Any) -> Any:
        return space.evaluate(value) if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)) else value

    return [tree_map(number, result) for result in results]


def compare_dynamic(func: torch._ops.OpOverload, args: tuple, kwargs: dict) -> tuple[str | None, list[str]]:
    """Infers with symbols and with numbers: how they differ, if they do, and the guards that were left."""
    call = symbolic_call(func, args, kwargs)
    if call is None:
        return None, []
    _, expected = _C.infer(func, args, kwargs)
    _, symbolic = _C.infer(call.func, call.args, call.kwargs)
    got = at_examples(call.space, symbolic)
    difference = None if got == expected else f"with symbols {symbolic}, with numbers {expected}"
    return difference, call.space.guards()
