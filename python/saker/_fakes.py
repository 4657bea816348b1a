"""Fake tensors among arguments: what PyTorch's compilers give as examples has sizes, but no data."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils import _pytree as pytree

from saker._modes import Mode


def is_fake(value: Any) -> bool:
    module = sys.modules.get("torch._subclasses.fake_tensor")
    return module is not None and isinstance(value, module.FakeTensor)


def mode_of(leaves: list[Any]) -> Any:
    """The mode that the fake tensors among these belong to; None if there are none."""
    return next((leaf.fake_mode for leaf in leaves if is_fake(leaf)), None)


def _number(size: int | torch.SymInt) -> int:
    return size if isinstance(size, int) else size.node.hint


class _Memory:
    """Ordinary tensors in place of fake ones; what shares memory does so again. Nothing is put into that memory."""

    def __init__(self) -> None:
        self._tensors: dict[int, torch.Tensor] = {}
        self._rows: dict[Any, torch.Tensor] = {}  # by storage

    def real(self, fake: torch.Tensor) -> torch.Tensor:
        if id(fake) not in self._tensors:
            self._tensors[id(fake)] = self._make(fake)
        return self._tensors[id(fake)]

    def _make(self, fake: torch.Tensor) -> torch.Tensor:
        sizes, strides = [_number(s) for s in fake.size()], [_number(s) for s in fake.stride()]
        offset = _number(fake.storage_offset())
        row = self._row(
            fake, offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        )
        with torch.no_grad():
            made = row.as_strided(sizes, strides, offset) if row.dtype == fake.dtype else None
        if made is None:
            made = torch.empty_strided(sizes, strides, dtype=fake.dtype, device=fake.device)
        made = made.detach().requires_grad_(fake.requires_grad)
        if fake.requires_grad and not fake.is_leaf:
            return made.clone()
        return torch.nn.Parameter(made, fake.requires_grad) if isinstance(fake, torch.nn.Parameter) else made

    def _row(self, fake: torch.Tensor, least: int) -> torch.Tensor:
        key = fake.untyped_storage()._cdata
        if key not in self._rows:
            whole = max(least, _number(fake.untyped_storage().nbytes()) // fake.dtype.itemsize)
            self._rows[key] = torch.empty(whole, dtype=fake.dtype, device=fake.device)
        return self._rows[key]


class FakesAsTensors(Mode):
    """Operators get ordinary tensors without data in place of fake ones that a function has found somewhere."""

    def __init__(self) -> None:
        super().__init__()
        self._memory = _Memory()
        self.found: list[torch.Tensor] = []

    def _real(self, fake: torch.Tensor) -> torch.Tensor:
        self.found += [] if any(known is fake for known in self.found) else [fake]
        return self._memory.real(fake)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        def replace(value: Any) -> Any:
            return self._real(value) if is_fake(value) else value

        args, kwargs = pytree.tree_map(replace, (args, kwargs or {}))
        return func(*args, **kwargs)


def without_fakes(leaves: list[Any]) -> list[Any]:
    """The same leaves, with an ordinary tensor in place of each fake one."""
    if not any(is_fake(leaf) for leaf in leaves):
        return leaves
    memory = _Memory()
    return [memory.real(leaf) if is_fake(leaf) else leaf for leaf in leaves]
