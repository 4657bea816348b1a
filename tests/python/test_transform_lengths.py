"""Transforms of ``torch.func`` and gradients inside of functions whose sizes change.

One recording serves all lengths, with what eager mode gives; what symbols cannot follow leaves nothing behind.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

import saker
from torch_versions import SYMBOLIC_MATMUL

torch.vmap(torch.sin)(torch.ones(2, 2))
jvp(torch.sin, (torch.ones(2),), (torch.ones(2),))  # the first ones load PyTorch's decompositions

LENGTHS = (4, 5, 7, 6, 9, 5)
torch.manual_seed(0)
MODEL = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
PARAMETERS = dict(MODEL.named_parameters())


def loss(parameters: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
    return functional_call(MODEL, parameters, (row,)).square().sum()


def by_tensors(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    weight = PARAMETERS["0.weight"]
    made = (x @ weight.t()).sin().sum() + (x**2).sum()
    return torch.autograd.grad(made, [weight, *([x] if x.requires_grad else [])])


def penalty(x: torch.Tensor) -> torch.Tensor:
    weight = PARAMETERS["0.weight"]
    (first,) = torch.autograd.grad((x @ weight.t()).tanh().sum(), weight, create_graph=True)
    return first.square().sum() + (x @ weight.t()).mean()


def penalty_of_input(x: torch.Tensor) -> torch.Tensor:
    y = x if x.requires_grad else x.clone().requires_grad_()
    (first,) = torch.autograd.grad((y.exp() * y.sigmoid()).sum(), y, create_graph=True)
    return (first.norm() - 1).square()


def with_given(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().requires_grad_()
    return torch.autograd.grad([y.sin(), (y * 2).sum()], y, [x * 3, None])[0]


def of_batch(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().requires_grad_()
    return torch.autograd.grad(y.sin(), y, torch.stack([x, x * 2]), is_grads_batched=True)[0]


def wrong_sizes(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().requires_grad_()
    try:
        return torch.autograd.grad(y.sin(), y, x[1:])[0]
    except RuntimeError:
        return x * 5


def no_scalar(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().requires_grad_()
    try:
        return torch.autograd.grad(y.sin(), y)[0]
    except RuntimeError as error:
        return x * len(str(error))


def complex_pair(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().requires_grad_()
    try:
        return torch.autograd.grad(y.sin(), y, x * 1j)[0]
    except RuntimeError:
        return x * 7


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "vmap": lambda x: vmap(lambda row: row * row.sum())(x),
    "vmap in chunks": lambda x: vmap(lambda row: row * row.sum(), in_dims=1, out_dims=1, chunk_size=2)(x),
    "grad": lambda x: grad(lambda y: (y.sin() * y).sum())(x),
    "grad and value": lambda x: grad_and_value(lambda y: (y.sin() * y).sum())(x),
    "grad of grad": lambda x: grad(lambda z: grad(lambda y: (y**3).sum())(z).sum())(x),
    "of each row": lambda x: vmap(grad(lambda row: (row.sin() * row).sum()))(x),
    "of parameters": lambda x: grad(lambda p: functional_call(MODEL, p, (x,)).square().mean())(PARAMETERS),
    "of parameters, for each row": lambda x: vmap(grad(loss), in_dims=(None, 0))(PARAMETERS, x),
    "vjp": lambda x: vjp(lambda y: y.sin() * y, x)[1](x * 2)[0],
    "vjp of several": lambda x: vjp(lambda y: (y.sin(), y.sum()), x)[1]((x, x.mean()))[0],
    "jvp": lambda x: jvp(lambda y: y.sin() * y, (x,), (x * 2,)),
    "jacrev": lambda x: jacrev(lambda y: y.sin().sum(0))(x),
    "jacfwd": lambda x: jacfwd(lambda y: y.sin().sum(0))(x),
    "hessian": lambda x: hessian(lambda y: y.sin().sum())(x),
    "hessian for each row": lambda x: vmap(hessian(lambda row: (row**3).sum()))(x),
    "jvp of grad": lambda x: jvp(grad(lambda y: (y**4).sum()), (x,), (x,))[1],
    "torch.autograd.grad": by_tensors,
}
MATMULS = ("of parameters, for each row",)  # whose sizes 2.11 asks for in numbers
# Whose lengths become symbols by other ways, or never: what they give is all that is asked.
OTHERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "a penalty on gradients": penalty,
    "a penalty in a transform": lambda x: grad(penalty_of_input)(x),
    "a penalty through x": penalty_of_input,
    "given gradients": with_given,
}
CAUGHT = {"a batch of gradients": of_batch, "wrong sizes": wrong_sizes, "no scalar": no_scalar, "complex": complex_pair}


def inputs(requires_grad: bool = False) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(length, 3, requires_grad=requires_grad) for length in LENGTHS]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_recording_for_all_lengths(name: str) -> None:
    saker.reset(counts=True)
    compiled = saker.compile(PROGRAMS[name], dynamic=True)
    for x in inputs():
        torch.testing.assert_close(compiled(x), PROGRAMS[name](x))
    if not SYMBOLIC_MATMUL and name in MATMULS:
        pytest.skip("matmul of this torch makes dynamic sizes static: the results are equal")
    stats = saker.stats()
    # A class that is registered with an abstract one (torch.func registers some when they are first met) is noticed.
    assert stats["replays"] >= len(LENGTHS) - 2, (stats["stops"], stats["functions"])


@pytest.mark.parametrize("name", [*PROGRAMS, *OTHERS])
def test_gradients_through_them(name: str) -> None:
    saker.reset(counts=True)
    program = PROGRAMS.get(name) or OTHERS[name]
    compiled = saker.compile(program, dynamic=True)
    for x, other in zip(inputs(True), inputs(True), strict=True):
        found, wanted = (
            [each for each in torch.utils._pytree.tree_leaves(made) if each.requires_grad]
            for made in (compiled(x), program(other))
        )
        assert len(found) == len(wanted)
        total = functools.reduce(torch.add, [(each * 1.5).sin().sum() for each in found], torch.zeros(()))
        expected = functools.reduce(torch.add, [(each * 1.5).sin().sum() for each in wanted], torch.zeros(()))
        if wanted:
            one = torch.autograd.grad(total, [x, *PARAMETERS.values()], allow_unused=True)
            two = torch.autograd.grad(expected, [other, *PARAMETERS.values()], allow_unused=True)
            torch.testing.assert_close(one, two)


@pytest.mark.parametrize("name", [*CAUGHT, *OTHERS])
def test_what_pytorch_checks(name: str) -> None:
    compiled = saker.compile({**CAUGHT, **OTHERS}[name], dynamic=True)
    for x in inputs():
        torch.testing.assert_close(compiled(x), {**CAUGHT, **OTHERS}[name](x))


def test_errors_of_eager_mode() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return vjp(lambda y: y.sin(), x)[1](x[1:])[0]

    compiled = saker.compile(program, dynamic=True)
    for x in inputs():
        with pytest.raises(RuntimeError, match="hape"):
            program(x)
        with pytest.raises(RuntimeError, match="hape"):
            compiled(x)


def test_a_level_that_is_given_up_is_closed(capsys: pytest.CaptureFixture[str]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        def told(y: torch.Tensor) -> torch.Tensor:
            print(y.shape[0])
            return y.sin()

        return jvp(told, (x,), (x,))[1]

    compiled = saker.compile(program, dynamic=True)
    for x in inputs():
        torch.testing.assert_close(compiled(x), x.cos() * x)
        assert forward_ad._current_level == -1
        with forward_ad.dual_level():  # none is open
            pass
    assert capsys.readouterr().out.split() == [str(length) for length in LENGTHS]


def test_a_level_without_a_context_manager(capsys: pytest.CaptureFixture[str]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        forward_ad.enter_dual_level()
        made = forward_ad.make_dual(x, x * 2)
        print(x.shape[0])
        tangent = forward_ad.unpack_dual(made.sin()).tangent
        forward_ad.exit_dual_level()
        return tangent

    compiled = saker.compile(program, dynamic=True)
    for x in inputs():
        torch.testing.assert_close(compiled(x), x.cos() * x * 2)
        assert forward_ad._current_level == -1
    assert capsys.readouterr().out.split() == [str(length) for length in LENGTHS]


def test_a_level_around_the_call() -> None:
    compiled = saker.compile(lambda x: x.sin() * 2, dynamic=True)
    for x in inputs():
        with forward_ad.dual_level():
            made = forward_ad.unpack_dual(compiled(forward_ad.make_dual(x, x)))
            torch.testing.assert_close(made.tangent, x.cos() * 2 * x)


def test_hooks_on_what_is_differentiated() -> None:
    weight = torch.randn(3, requires_grad=True)
    compiled = saker.compile(lambda x: torch.autograd.grad((x * weight).sin().sum(), weight)[0], dynamic=True)
    for i, x in enumerate(inputs()):
        hook = weight.register_hook(lambda gradient: gradient * 10) if i % 2 else None
        other = weight.detach().requires_grad_()
        expected = torch.autograd.grad((x * other).sin().sum(), other)[0] * (10 if hook else 1)
        torch.testing.assert_close(compiled(x), expected)
        if hook:
            hook.remove()


class Told(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        print("backward")
        return gradient * 3


@pytest.mark.parametrize("by", ["hook", "hook inside", "function", "transform"])
def test_code_of_the_users_runs_once(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    weight = torch.randn(3, requires_grad=True)
    if by == "hook":
        weight.register_hook(lambda gradient: print("hook"))

    def program(x: torch.Tensor) -> torch.Tensor:
        if by == "transform":
            return grad(lambda y: (Told.apply(y) if y.dim() else y).sum())(x)
        made = x * weight
        if by == "hook inside":
            made.register_hook(lambda gradient: print("inside"))
        if by == "function":
            made = Told.apply(made)
        return torch.autograd.grad(made.sin().sum(), weight)[0]

    if by == "transform":
        Told.setup_context = staticmethod(lambda ctx, inputs, output: None)
        Told.forward = staticmethod(lambda x: x * 2)
    compiled = saker.compile(program, dynamic=True)
    for x in inputs():
        expected = program(x)
        told = capsys.readouterr().out
        torch.testing.assert_close(compiled(x), expected)
        assert capsys.readouterr().out == told
        assert told


def test_the_compiler_of_backwards_stays_as_it_is() -> None:
    from torch._C._dynamo import compiled_autograd as switch

    compiled = saker.compile(PROGRAMS["of each row"], dynamic=True)
    before = switch.set_autograd_compiler(None, False)
    switch.set_autograd_compiler(*before)
    for x in inputs():
        torch.testing.assert_close(compiled(x), PROGRAMS["of each row"](x))
    after = switch.set_autograd_compiler(None, False)
    switch.set_autograd_compiler(*after)
    assert before == after
