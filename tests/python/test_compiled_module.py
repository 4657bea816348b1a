"""A compiled module takes what programs do to modules: hooks, buffers, parameters, initialisation."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import saker

HOOKS = [
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
]


@pytest.mark.parametrize("calls_before", [0, 2])
@pytest.mark.parametrize("register", HOOKS)
def test_hooks_on_the_compiled_module_are_called(register: str, calls_before: int) -> None:
    fast = saker.compile(nn.Sequential(nn.Linear(4, 4)))
    x = torch.randn(2, 4, requires_grad=True)
    for _ in range(calls_before):
        fast(x).sum().backward()
    seen: list[type] = []
    handle = getattr(fast, register)(lambda module, *_: seen.append(type(module)))
    for _ in range(3):
        fast(x).sum().backward()
    assert seen == [nn.Sequential] * 3
    handle.remove()
    fast(x).sum().backward()
    assert len(seen) == 3


def test_a_hook_changes_the_result() -> None:
    model = nn.Linear(4, 4)
    fast = saker.compile(model)
    x = torch.randn(2, 4)
    expected = model(x)
    fast(x)
    fast.register_forward_hook(lambda _module, _args, kwargs, result: result * 2, with_kwargs=True)
    fast.register_forward_pre_hook(lambda _module, args: (args[0] + 1,), prepend=True)
    for _ in range(3):
        torch.testing.assert_close(fast(x), model(x), rtol=0, atol=0)
    assert not torch.equal(fast(x), expected)


def test_what_is_registered_is_the_modules() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for tensor in (*self.buffers(), *self.parameters()):
                x = x + tensor
            return x

    model = Model()
    fast = saker.compile(model)
    x = torch.zeros(3)
    assert torch.equal(fast(x), x)
    fast.register_buffer("one", torch.ones(3), persistent=False)
    fast.register_parameter("weight", nn.Parameter(torch.full((3,), 2.0)))
    fast.add_module("layer", nn.Linear(2, 2))
    fast.register_module("other", nn.ReLU())
    assert fast.one is model.one
    assert fast.weight is model.weight
    assert list(model._modules) == ["layer", "other"]
    assert "_orig_mod.weight" in fast.state_dict()
    assert "_orig_mod.one" not in fast.state_dict()
    del model.layer
    for _ in range(2):
        assert torch.equal(fast(x), torch.full((3,), 3.0))


def test_apply_visits_each_module_once() -> None:
    def initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight)

    model, plain = nn.Linear(3, 3), nn.Linear(3, 3)
    fast = saker.compile(model)
    torch.manual_seed(3)
    assert fast.apply(initialise) is fast
    state = torch.get_rng_state()
    torch.manual_seed(3)
    plain.apply(initialise)
    assert torch.equal(model.weight, plain.weight)
    assert torch.equal(state, torch.get_rng_state())


def test_training_is_the_modules_own() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    compiled = saker.compile(module)
    around = nn.ModuleList([compiled])
    for change in (module.eval, compiled.train, around.eval, module.train, compiled.eval):
        change()
        assert compiled.training is module.training is module[1].training
    compiled.training = True
    assert module.training
    assert not module[1].training
