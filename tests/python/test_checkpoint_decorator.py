"""Functions decorated by torch.utils.checkpoint.checkpoint(...), which PyTorch has from 2.14 on."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import saker
from torch_versions import checkpoint_decorates

pytestmark = checkpoint_decorates

MAKERS = {
    "not reentrant": lambda function: checkpoint(use_reentrant=False)(function),
    "reentrant": lambda function: checkpoint(use_reentrant=True)(function),
    "without the state": lambda function: checkpoint(use_reentrant=False, preserve_rng_state=False)(function),
}


def block(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x.sin() * x.cos(), 0.25) * x.exp()


def run(function, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(5)
    x = x.clone().requires_grad_()
    result = function(x)
    result.square().sum().backward()
    return result.detach(), x.grad, torch.get_rng_state()


@pytest.mark.parametrize("where", ["outside", "inside"])
@pytest.mark.parametrize("compiler", [saker.compile, saker.aot_function], ids=["compile", "aot_function"])
@pytest.mark.parametrize("maker", MAKERS)
def test_equals_eager(maker: str, compiler, where: str) -> None:
    outside = MAKERS[maker](block)

    def program(x: torch.Tensor) -> torch.Tensor:
        function = outside if where == "outside" else MAKERS[maker](block)
        return function(x * 2) + 1

    compiled = compiler(program)
    for seed in range(3):
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))
        for one, other in zip(run(compiled, x), run(program, x), strict=True):
            torch.testing.assert_close(one, other)


def test_methods() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        @checkpoint(use_reentrant=False)
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x).tanh()

    net = Net()
    compiled = saker.compile(net)
    for seed in range(3):
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))
        for one, other in zip(run(compiled, x), run(net, x), strict=True):
            torch.testing.assert_close(one, other)
