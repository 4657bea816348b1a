"""Calls of modules and of functions with containers that are compiled ahead of time: what is found again in each call,
and what is seen of a module that has changed since."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import saker


def graphs() -> int:
    return saker.stats()["graphs"]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.absent = None
        self.register_parameter("none", None)
        self.again = self.first  # under a second name
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        self.steps = self.steps + 1
        return self.again(self.norm(self.first(x))) * scale


def state(module: nn.Module) -> dict[str, Any]:
    return {name: tensor.tolist() for name, tensor in module.state_dict().items()}


def pair() -> tuple[nn.Module, nn.Module, nn.Module]:
    torch.manual_seed(0)
    module, same = Block(), Block()
    same.load_state_dict(module.state_dict())
    return module, same, saker.aot_module(module)


X = torch.arange(12.0).reshape(4, 3).sin()


def check(compiled: nn.Module, module: nn.Module, same: nn.Module, *args: Any, **kwargs: Any) -> None:
    found, expected = compiled(X, *args, **kwargs), same(X, *args, **kwargs)
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    expected.sum().backward()
    for (name, a), (_, b) in zip(module.named_parameters(), same.named_parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name)
    torch.testing.assert_close(dict(module.named_buffers()), dict(same.named_buffers()))


def test_calls() -> None:
    module, same, compiled = pair()
    for scale in (1.0, 2.0, 1.0):
        check(compiled, module, same, scale)
        check(compiled, module, same, scale=scale)
    before = graphs()
    check(compiled, module, same, 2.0)
    assert graphs() == before


def test_training_mode_is_followed() -> None:
    module, same, compiled = pair()
    for training in (True, False, True, False):
        module.norm.train(training)
        same.norm.train(training)
        check(compiled, module, same)
    before = graphs()
    check(compiled, module, same)
    assert graphs() == before


def test_parameters_that_are_replaced() -> None:
    module, same, compiled = pair()
    check(compiled, module, same)
    for each in (module, same):
        each.first.weight = nn.Parameter(torch.ones(3, 3))
        each.zero_grad()
    check(compiled, module, same)


def test_parts_that_are_replaced() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleDict({"a": nn.Linear(3, 3)})

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return sum(part(x) for part in self.parts.values())

    torch.manual_seed(0)
    module = Sum()
    compiled = saker.aot_module(module)
    changes: list[Callable[[], Any]] = [
        lambda: None,
        lambda: module.parts.add_module("b", nn.Linear(3, 3)),
        lambda: setattr(module.parts["a"], "bias", None),
        lambda: module.parts.update({"a": nn.Linear(3, 3, bias=False)}),
        lambda: module.parts.pop("a"),
    ]
    for change in changes:
        change()
        for _ in range(2):
            torch.testing.assert_close(compiled(X), module(X))


class Listed(nn.Module):
    """Lists parts in a way of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.shown, self.hidden = nn.Linear(3, 3), nn.Linear(3, 3)

    def named_modules(self, memo: Any = None, prefix: str = "", remove_duplicate: bool = True) -> Any:
        for name, module in super().named_modules(memo, prefix, remove_duplicate):
            if not name.endswith("hidden"):
                yield name, module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.shown(x) + (self.hidden(x) if self.training else 0)


def test_a_module_that_lists_its_parts_itself() -> None:
    module = nn.Sequential(Listed(), nn.ReLU())
    compiled = saker.aot_module(module)
    for training in (True, False, True):
        module.train(training)
        module[0].hidden.train(training)
        torch.testing.assert_close(compiled(X), module(X))


def test_eager_calls_of_a_module() -> None:
    """Inside of a mode that sees operators a call is made by the module itself."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Sees(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    module, same, compiled = pair()
    with Sees():
        torch.testing.assert_close(compiled(X), same(X))
    assert module.steps == same.steps == 1
    check(compiled, module, same)


def test_a_module_with_a_list_of_arguments() -> None:
    class Takes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, given: dict[str, Any]) -> dict[str, Any]:
            return {"out": self.linear(given["x"][0]) * given["scale"], "size": given["x"][0].shape}

    module = Takes()
    compiled = saker.aot_module(module)
    for scale in (1, 2, 1.0):
        given = {"x": [X, None], "scale": scale}
        found, expected = compiled(given), module(given)
        torch.testing.assert_close(found["out"], expected["out"])
        assert found["size"] == expected["size"]
        assert type(found["size"]) is torch.Size


# --- containers ---


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Registered:
    x: Any
    name: str


pytree.register_pytree_node(Registered, lambda r: ([r.x], r.name), lambda xs, name: Registered(*xs, name))


SAMPLES: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda t: (t, 1),
    "list": lambda t: [t, [t], []],
    "dict": lambda t: {"a": t, 2: {"b": (t, None)}, "c": {}},
    "namedtuple": lambda t: Point(t, [t]),
    "ordered": lambda t: OrderedDict(b=t, a=[t]),
    "default": lambda t: defaultdict(list, a=t),
    "deque": lambda t: deque([t, t], maxlen=3),
    "registered": lambda t: [Registered(t, "n"), Registered((t, t), "m")],
    "nested": lambda t: {"p": Point({"k": t}, (1, 2.0, "s")), "q": (Point(t, t),)},
    "return type": lambda t: (torch.return_types.max((t, t)), t),
    "size": lambda t: (t, torch.Size([1, 2])),
    "tensor": lambda t: t,
}


def leaves(value: Any) -> list[Any]:
    return [leaf.tolist() if isinstance(leaf, torch.Tensor) else leaf for leaf in pytree.tree_leaves(value)]


@pytest.mark.parametrize("name", SAMPLES)
def test_containers(name: str) -> None:
    make = SAMPLES[name]

    def program(given: Any, **more: Any) -> Any:
        found = [leaf for leaf in pytree.tree_leaves((given, more)) if isinstance(leaf, torch.Tensor)]
        return make(sum(found) * 2)

    compiled = saker.aot_function(program)
    for start in (1.0, 2.0, 3.0):
        given = make(torch.full((2,), start))
        expected, found = program(given, more=given), compiled(given, more=given)
        assert pytree.tree_structure(found) == pytree.tree_structure(expected)
        assert type(found) is type(expected)
        assert leaves(found) == leaves(expected)
    before, given = graphs(), make(torch.ones(2))
    compiled(given, more=given)
    assert graphs() == before


def test_keys_and_constants_decide() -> None:
    compiled = saker.aot_function(lambda given: {key: value * 2 for key, value in given.items()})
    for given in ({"a": X}, {"b": X}, {"a": X, "b": X}, {"b": X, "a": X}, {1: X}, {True: X}, {"a": 3, "b": X}):
        for _ in range(2):
            found = compiled(given)
            assert [(type(key), key) for key in found] == [(type(key), key) for key in given]
            torch.testing.assert_close(found, {key: value * 2 for key, value in given.items()})


def test_a_list_that_holds_itself_is_an_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        saker.aot_function(lambda x, y: x)(X, endless)
