"""What type checkers are to see of ``saker.compile``: checked by test_typing.py, and never run."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_type

import torch

import saker


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scaled(x, 2.0)

    def scaled(self, x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by


net = saker.compile(Net())
assert_type(net, Net)
assert_type(net.scaled(torch.ones(2), 1.0), torch.Tensor)
assert_type(saker.compile(Net(), fullgraph=True, dynamic=False), Net)


def plain(x: torch.Tensor, k: int = 2) -> torch.Tensor:
    return x * k


fast = saker.compile(plain)
assert_type(fast(torch.ones(2), k=3), torch.Tensor)
fast("no tensor")  # error


@saker.compile
def decorated(x: torch.Tensor, *, flag: bool) -> tuple[torch.Tensor, int]:
    return (x if flag else -x), 1


assert_type(decorated(torch.ones(2), flag=True), tuple[torch.Tensor, int])
decorated(torch.ones(2))  # error


@saker.compile(fullgraph=True, backend="eager")
def with_options(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
    return x if y is None else x + y


assert_type(with_options(torch.ones(2), y=None), torch.Tensor)
with_options(1)  # error

later = saker.compile(dynamic=True)
assert_type(later(Net()), Net)

told = saker.explain(plain)(torch.ones(2))
assert_type(told, saker.Explanation)
assert_type(told.captured, bool)
told.save(3.5)  # error

graph = saker.capture(plain, torch.ones(2))
assert_type(graph.text, str)
reset: Callable[..., None] = saker.reset
saker.compile(3)  # error
