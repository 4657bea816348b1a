"""Recorded programs of ``saker.compile`` in which tensors are made of others, run on the plain tensors inside."""

from __future__ import annotations

from collections.abc import Callable

import torch

from saker import _C
from saker._aot import aot_function


def make(program: _C.Program, _examples: list[torch.Tensor]) -> Callable:
    """A callable that runs ``program`` through ahead-of-time autograd; compiled when it is first called."""

    def run(*inputs: torch.Tensor) -> list[torch.Tensor]:
        return list(program.run(list(inputs)))

    compiled = aot_function(run)
    return lambda inputs: compiled(*inputs)
