"""Tensors without data that say what a node of a graph gives: size, strides, dtype, device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _source(name: str) -> Any:
    """Where PyTorch is to think that a symbol comes from: nobody asks again."""
    from torch._guards import GuardSource, Source

    class Named(Source):
        guard_source = GuardSource.CONSTANT
        _name_template = name

    return Named()


class Examples:
    """Makes ``node.meta["val"]`` for the graphs of one function, of which a program is given: fake tensors of one mode.

    Sizes that may change are symbolic integers.
    """

    def __init__(self, described: dict[str, Any], mode: Any = None) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        self._hints = symbols = described["symbols"]
        self._numbers: dict[str, Any] = {}
        if mode is None:
            # PyTorch's loops look for symbols too when they are called with examples.
            needs_env = symbols or any(node["bodies"] for node in described["nodes"])
            mode = FakeTensorMode(shape_env=self._new_env() if needs_env else None, static_shapes=not symbols)
        self.mode = mode

    @staticmethod
    def _new_env() -> Any:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        return ShapeEnv()

    def symbol(self, name: str) -> Any:
        """A size that may change. KeyError: nobody knows an example of it."""
        if name not in self._numbers:
            from torch.fx.experimental.symbolic_shapes import DimDynamic

            env, hint = self.mode.shape_env, self._hints[name]
            source = _source(name)
            made = env.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None)
            self._numbers[name] = env.create_symintnode(made, hint=hint, source=source)
        return self._numbers[name]

    def tensor(self, sizes: list[Any], strides: list[Any], dtype: torch.dtype, device: Any) -> torch.Tensor | None:
        """The tensor that a value is; None where a size cannot be told."""
        if any(number is None for number in (*sizes, *strides)):
            return None
        with self.mode:
            return torch.empty_strided(sizes, strides, dtype=dtype, device=device)

    def compute(self, function: Callable, *args: Any, **options: Any) -> Any:
        """What an operator gives for examples."""
        with self.mode:
            return function(*args, **options)
