"""Random numbers in functions compiled ahead of time: the stream is eager's under the same seed, also where the cut
computes things again; checkpoints, with and without random operators, and what they are told to save."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import saker
from torch_versions import EFFECTS_ARE_SAVED, captures_see_python, integers_are_drawn_by_keys

PARTITIONS = ["min_cut", "default"]
W = torch.randn(4, 4, generator=torch.Generator().manual_seed(1)) / 2


def fresh(width: int = 4) -> torch.Tensor:
    return torch.linspace(-1, 1, 3 * width).reshape(3, width).requires_grad_()


def outcome(fn: Callable, *args: torch.Tensor, seed: int = 3) -> tuple[Any, ...]:
    """Values, gradients, and the state of the generator after each of them."""
    torch.manual_seed(seed)
    result = fn(*args)
    flat = result if isinstance(result, tuple) else (result,)
    after_forward = torch.get_rng_state()
    leaves = [a for a in args if a.requires_grad]
    outputs = [r for r in flat if r.requires_grad]
    gradients = torch.autograd.grad([o.square().sum() for o in outputs], leaves) if outputs else ()
    return [r.detach() for r in flat], after_forward, gradients, torch.get_rng_state()


def check(fn: Callable, *args: torch.Tensor, partition: str = "min_cut", **options: Any) -> None:
    compiled = saker.aot_function(fn, partition_fn=partition, **options)
    for seed in (3, 4):
        torch.testing.assert_close(outcome(compiled, *args, seed=seed), outcome(fn, *args, seed=seed))


RANDOM: dict[str, Callable] = {
    "dropout": lambda x: F.dropout(x.sin(), 0.5).cos(),
    "two dropouts": lambda x: F.dropout(F.dropout(x, 0.2).exp(), 0.3).exp(),
    "alpha_dropout": lambda x: F.alpha_dropout(x.sin(), 0.5, training=True),
    "feature dropout": lambda x: F.dropout1d(x, 0.5).sin(),
    "rand": lambda x: (x * torch.rand(3, 4)).sin(),
    "rand_like": lambda x: (x + torch.rand_like(x)).exp(),
    "randn": lambda x: (x * torch.randn(4)).tanh(),
    "randint": lambda x: (x * torch.randint(1, 5, (3, 4))).tanh(),
    "randperm": lambda x: x[torch.randperm(3)].sin(),
    "bernoulli": lambda x: x * torch.bernoulli(x.detach().sigmoid()),
    "multinomial": lambda x: x.sin()[:, torch.multinomial(torch.ones(4), 2)],
    "normal_": lambda x: x * torch.empty(3, 4).normal_() + torch.empty(3, 4).uniform_(-1, 1),
    "rrelu": lambda x: F.rrelu(x.sin(), training=True).exp(),
    "gumbel": lambda x: F.gumbel_softmax(x.sin()),
    "poisson": lambda x: x * torch.poisson(x.detach().abs() * 3),
    "seeded inside": lambda x: (torch.manual_seed(5), F.dropout(x.sin(), 0.5).exp())[1],
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.3),
}


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("name", RANDOM)
def test_the_stream_is_eagers(name: str, partition: str) -> None:
    check(RANDOM[name], fresh(), partition=partition)


@pytest.mark.parametrize("name", ["dropout", "two dropouts", "rrelu"])
def test_a_budget_draws_nothing_again(name: str) -> None:
    check(RANDOM[name], fresh(), memory_budget=0.0)


def test_differentiated_twice_with_the_same_numbers() -> None:
    def twice(fn: Callable) -> tuple[Any, ...]:
        torch.manual_seed(2)
        x = fresh()
        (first,) = torch.autograd.grad(fn(x).exp().sum(), x, create_graph=True)
        return first.detach(), torch.autograd.grad(first.square().sum(), x), torch.get_rng_state()

    fn = RANDOM["two dropouts"]
    torch.testing.assert_close(twice(saker.aot_function(fn)), twice(fn))


# --- checkpoints ---


def block(x: torch.Tensor) -> torch.Tensor:
    return F.dropout((x @ W).tanh(), 0.4).exp() @ W


def plain_block(x: torch.Tensor) -> torch.Tensor:
    return (x @ W).tanh().exp() @ W


def backward_of(call: Callable, seed: int) -> tuple[Any, ...]:
    torch.manual_seed(seed)
    x = fresh()
    y = call(x)
    y.square().sum().backward()  # torch.autograd.grad refuses checkpoints that are reentrant
    return y.detach(), x.grad, torch.get_rng_state()


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("body", [block, plain_block])
def test_checkpoint(body: Callable, reentrant: bool, partition: str) -> None:
    def fn(x):
        y = checkpoint(body, x, use_reentrant=reentrant)
        z = checkpoint(body, y.sin(), use_reentrant=reentrant)
        return F.dropout(z, 0.1)

    compiled = saker.aot_function(fn, partition_fn=partition)
    for seed in (1, 2):
        torch.testing.assert_close(backward_of(compiled, seed), backward_of(fn, seed))


REDRAWN = {
    "the last operator is linear": block,
    "the result is needed": lambda x: F.dropout(x @ W, 0.4).exp(),
    "the mask is needed": lambda x: F.dropout((x @ W).tanh(), 0.4),
    "a result is used inside": lambda x: (lambda y: (y, (y * 2).sin()))(F.dropout(x @ W, 0.4).exp()),
    "drawn for nothing": lambda x: (torch.rand(3), F.dropout(x.sin(), 0.4).cos())[1],
    "nothing is drawn": plain_block,
}


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("name", REDRAWN)
@pytest.mark.parametrize("after", [torch.exp, torch.neg])
def test_without_preserving_the_state_numbers_are_drawn_anew(
    after: Callable, name: str, reentrant: bool, partition: str
) -> None:
    def fn(x):
        y = checkpoint(REDRAWN[name], x.sin(), use_reentrant=reentrant, preserve_rng_state=False)
        return sum(after(each) for each in y) if isinstance(y, tuple) else after(y)

    compiled = saker.aot_function(fn, partition_fn=partition)
    for seed in (1, 2):
        torch.testing.assert_close(backward_of(compiled, seed), backward_of(fn, seed))


def test_nothing_of_a_checkpoint_is_left() -> None:
    before = dict(vars(torch.utils.checkpoint))
    saker.aot_function(lambda x: checkpoint(plain_block, x, use_reentrant=False))(fresh())
    with pytest.raises(ZeroDivisionError):
        saker.aot_function(lambda x: checkpoint(lambda t: t * (1 // 0), x, use_reentrant=False))(fresh())
    after = vars(torch.utils.checkpoint)
    assert before.keys() == after.keys()
    assert [name for name, value in before.items() if after[name] is not value] == []


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.dropout(self.down(F.gelu(self.up(self.norm(x)))))


class Stack(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.layers = nn.ModuleList(Layer(32) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if self.how == "none":
                x = layer(x)
            elif self.how == "selective":
                x = checkpoint(layer, x, use_reentrant=False, context_fn=save_products)
            else:
                x = checkpoint(layer, x, use_reentrant=self.how == "reentrant")
        return x


def save_products() -> Any:
    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        products = (torch.ops.aten.addmm.default, torch.ops.aten.mm.default)
        return CheckpointPolicy.MUST_SAVE if op in products else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def saved_bytes(module: nn.Module, call: Callable, x: torch.Tensor) -> int:
    """What is kept from forward to backward beside parameters and the input: every storage once."""
    known = {t.untyped_storage().data_ptr() for t in [*module.parameters(), x]}
    storages: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in known:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    call(x)  # compiles
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = call(x)
    result.sum().backward()
    return sum(storages.values())


def stack(how: str) -> Stack:
    torch.manual_seed(0)
    return Stack(how)


def state_after_training(module: nn.Module, call: Callable) -> tuple[Any, ...]:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for step in range(3):
        torch.manual_seed(step)
        x = torch.randn(8, 32, requires_grad=True)
        optimizer.zero_grad()
        call(x).square().mean().backward()
        optimizer.step()
    return dict(module.named_parameters()), {n: p.grad for n, p in module.named_parameters()}, torch.get_rng_state()


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize(
    "how", ["none", pytest.param("selective", marks=captures_see_python), "reentrant", "not reentrant"]
)
def test_checkpointed_training(how: str, partition: str) -> None:
    module, other = stack(how), stack(how)
    expected = state_after_training(module, module)
    got = state_after_training(other, saker.aot_module(other, partition_fn=partition))
    torch.testing.assert_close(got, expected)


@captures_see_python
@pytest.mark.parametrize("partition", PARTITIONS)
def test_checkpoints_save_memory(partition: str) -> None:
    x = torch.randn(64, 32, requires_grad=True)
    saved = {}
    for how in ("none", "selective", "reentrant", "not reentrant"):
        module = stack(how)
        saved[how] = saved_bytes(module, saker.aot_module(module, partition_fn=partition), x)
    states = 4 * 5056  # of the generator, one for each dropout
    inputs = 4 * x.nbytes  # of each layer, or its output
    products = 4 * (5 * x.nbytes)
    assert saved["reentrant"] == saved["not reentrant"] <= inputs + states
    assert inputs < saved["selective"] <= inputs + products + states
    assert saved["selective"] < saved["none"] or partition == "min_cut"
    assert saved["not reentrant"] < saved["none"] / 2


@captures_see_python
def test_what_a_policy_saves_is_not_computed_again() -> None:
    counts = {}
    for how in ("selective", "not reentrant"):

        def compiler(graph: torch.fx.GraphModule, _: list[Any], how: str = how) -> Callable:
            counts[how] = sum(node.target is torch.ops.aten.addmm.default for node in graph.graph.nodes)
            return graph

        compiled = saker.aot_module(stack(how), fw_compiler=lambda graph, _: graph, bw_compiler=compiler)
        compiled(torch.randn(8, 32, requires_grad=True)).sum().backward()
    assert counts == {"selective": 0, "not reentrant": 8}


RAN: list[str] = []


@torch.library.custom_op("saker_tests::counted", mutates_args=())
def counted(x: torch.Tensor) -> torch.Tensor:
    RAN.append("counted")
    return x * 2


counted.register_fake(torch.empty_like)
counted.register_autograd(lambda ctx, gradient: gradient * 2)


@captures_see_python
@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("policy", [CheckpointPolicy.PREFER_RECOMPUTE, CheckpointPolicy.MUST_SAVE])
def test_an_operator_with_ordered_effects_runs_once(policy: CheckpointPolicy, partition: str) -> None:
    """As eager mode has it that saves what such operators give, unless a policy says MUST_RECOMPUTE."""
    _register_effectful_op(torch.ops.saker_tests.counted.default, _EffectType.ORDERED)
    contexts = partial(create_selective_checkpoint_contexts, lambda *_args, **_kwargs: policy)

    def program(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda t: (counted(t.sin()).sin() * t).cos(), x, use_reentrant=False, context_fn=contexts)

    def gradient(call: Callable) -> torch.Tensor:
        x = torch.arange(3.0, requires_grad=True)
        RAN.clear()
        call(x).sum().backward()
        return x.grad

    try:
        expected = gradient(program)
        if EFFECTS_ARE_SAVED or policy is CheckpointPolicy.MUST_SAVE:
            assert RAN == ["counted"]
        compiled = saker.aot_function(program, partition_fn=partition)
        for _ in range(2):
            torch.testing.assert_close(gradient(compiled), expected)
            assert RAN == ["counted"]
    finally:
        _register_effectful_op(torch.ops.saker_tests.counted.default, None)


@integers_are_drawn_by_keys
@pytest.mark.parametrize("way", ["compile", "aot", "capture"])
def test_integers_are_drawn_by_keys(way: str) -> None:
    """Numbers that follow from a key, which is a tensor: no generator is asked."""
    from torch.func import _random as keyed

    def program(key: torch.Tensor) -> tuple[torch.Tensor, ...]:
        one, other = keyed.split(key).unbind(0)
        strided = torch.empty(2, 3, dtype=torch.int64).t()
        return keyed.randint(one, (3,), high=10), keyed.randint_(other, strided, low=-3, high=9)

    key = keyed.key(42)
    ways = {
        "compile": lambda: saker.compile(program, fullgraph=True),
        "aot": lambda: saker.aot_function(program),
        "capture": lambda: saker.capture(program, key),
    }
    call = ways[way]()
    for given in (key, key, keyed.key(7), keyed.key(8)):
        torch.testing.assert_close(call(given), program(given), rtol=0, atol=0, check_stride=True)
