"""Operators that call an operator or a shared body, transforms and Functions: results and gradients of eager mode.

What each cell of the table shows in one program is shown here in more of their forms.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from typing import Any

import pytest
import torch
import torch._higher_order_ops as ho
from torch import nn
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch.autograd.function import once_differentiable
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from torch.func import stack_module_state as stacked_state

import saker
from higher_order_cells import EVERYWHERE, X, entered
from higher_order_programs import GRAPH, LAYER
from torch_versions import FUNCTION_UNDER_GRAD_STOPS, control_flow_in_one_place

pytestmark = control_flow_in_one_place

hop, aten = torch.ops.higher_order, torch.ops.aten
WEIGHT = torch.linspace(-1, 1, 9).view(3, 3)
LAYERS = [nn.Linear(3, 3) for _ in range(3)]


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(a, scale):
        return a * scale, a.sin()

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        ctx.save_for_backward(inputs[0], outputs[1])
        ctx.scale = inputs[1]
        ctx.mark_non_differentiable(outputs[1])

    @staticmethod
    def backward(ctx, gradient, _):
        return gradient * ctx.scale * ctx.saved_tensors[1], None


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.add_(1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Scale:
    def __init__(self, by):
        self.by = by


class Asks(torch.autograd.Function):
    """Keeps tensors and objects as they are, and looks at what is needed."""

    @staticmethod
    def forward(ctx, a, b, scale, names):
        ctx.a, ctx.scale, ctx.names = a, scale, names
        return a * b * scale.by

    @staticmethod
    def backward(ctx, gradient):
        assert ctx.needs_input_grad == (True, False, False, False)
        return gradient * ctx.a * ctx.scale.by * len(ctx.names), None, None, None


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos() * 2


class Sparing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.set_materialize_grads(False)
        return a * 1, a * 2

    @staticmethod
    def backward(ctx, gradient, other):
        assert other is None
        return gradient * 3


class Batched(Once):
    @staticmethod
    def forward(a):
        return a.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def vmap(info, dims, a):
        return a.cos() * info.batch_size, dims[0]


def ensemble(x):
    parameters, buffers = stacked_state(LAYERS)
    return vmap(lambda p, b, v: functional_call(LAYERS[0], (p, b), (v,)), in_dims=(0, 0, None))(parameters, buffers, x)


def written_twice(x):
    """The operator writes to copies; what it was given stays."""
    given = x.detach().clone()
    made = hop.auto_functionalized(torch.ops.saker_table.bump.default, x=given, y=x.detach())
    return made[0] + made[1] * given + x


def written_through_a_view(x):
    base = x.detach().clone()
    made = hop.auto_functionalized_v2(
        torch.ops.saker_table.bump.default,
        _x_base_index=0,
        _x_size=[2, 3],
        _x_stride=[3, 1],
        _x_storage_offset=3,
        _all_bases=[base],
        y=x.detach()[1:],
    )
    return made[0].sum() + made[1] * x - base


def drawn(x):
    state, mask = run_and_save_rng_state(aten.bernoulli.p, x.detach(), 0.5)
    again = run_with_rng_state(state, aten.bernoulli.p, x.detach(), 0.5)
    return mask * x + again + torch.rand(3, 3)


PROGRAMS: dict[str, Any] = {
    "setup_context": lambda x: Kept.apply(x, 3.0)[0],
    "non_differentiable": lambda x: Kept.apply(x, 3.0)[1] * x,
    "mark_dirty": lambda x: Dirty.apply(x * 1),
    "objects": lambda x: Asks.apply(x, x.detach(), Scale(2.0), ["a", "b"]),
    "once_differentiable": lambda x: Once.apply(x),
    "no_materialized_grads": lambda x: Sparing.apply(x)[0],
    "function_under_vmap": lambda x: vmap(Batched.apply)(x),
    "function_under_grad": lambda x: grad(lambda v: Batched.apply(v).sum())(x) * x,
    "vmap_dims": lambda x: vmap(lambda a, b: a @ b, in_dims=(1, None), out_dims=1)(x, WEIGHT),
    "vmap_chunks": lambda x: vmap(lambda a: (a * 2).sin(), chunk_size=2)(x),
    "vmap_different": lambda x: vmap(lambda a: a * torch.rand(3), randomness="different")(x),
    "vmap_same": lambda x: vmap(lambda a: a * torch.rand(3), randomness="same")(x),
    "vmap_of_vmap": lambda x: vmap(vmap(lambda a: a.sin() * a))(x),
    "vmap_trees": lambda x: vmap(lambda d: d["a"] * d["b"][0], in_dims=({"a": 0, "b": [None]},))(
        {"a": x, "b": [WEIGHT[0]]}
    ),
    "grad_of_several": lambda x: grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, x.cos())[1],
    "grad_and_aux": lambda x: sum(grad(lambda a: ((a**3).sum(), a * 2), has_aux=True)(x)),
    "grad_and_value": lambda x: torch.mul(*grad_and_value(lambda a: (a**3).sum())(x)),
    "vjp": lambda x: vjp(lambda a: a.sin(), x)[1](x * 2)[0],
    "jvp": lambda x: jvp(lambda a: a.sin(), (x,), (x * 2,))[1],
    "jvp_of_views": lambda x: jvp(lambda a: a.t()[1:].sin(), (x.t(),), (x[0].expand(3, 3),))[1],
    "jacrev_chunks": lambda x: jacrev(lambda a: (a * a).sum(0), chunk_size=1)(x),
    "jacfwd": lambda x: jacfwd(lambda a: (a * a).sum(0))(x),
    "hessian": lambda x: hessian(lambda a: (a**3).sum())(x),
    "linearize": lambda x: linearize(lambda a: a.sin(), x)[1](x * 2),
    "vmap_of_grad": lambda x: vmap(grad(lambda a: (a**3).sum()))(x),
    "grad_of_vmap": lambda x: grad(lambda a: vmap(lambda r: (r**3).sum())(a).sum())(x),
    "grad_of_grad": lambda x: grad(lambda a: grad(lambda b: (b**4).sum())(a).sum())(x),
    "jacfwd_of_jacrev": lambda x: jacfwd(jacrev(lambda a: (a**3).sum()))(x),
    "functional_call": lambda x: functional_call(LAYER, {"weight": LAYER.weight * 2, "bias": x[0]}, (x,)),
    "ensemble": ensemble,
    "auto_functionalized": written_twice,
    "auto_functionalized_v2": written_through_a_view,
    "rng_states": drawn,
    "out_dtype_of_integers": lambda x: (
        hop.out_dtype(aten.mm.default, torch.int32, (x.detach() * 9).to(torch.int8), torch.eye(3, dtype=torch.int8)) + x
    ),
    "graph_modules": lambda x: hop.invoke_subgraph(GRAPH, "a", x)[0].detach() * x + hop.invoke_quant(GRAPH, x)[0],
    "foreach_without_lists": lambda x: ho.foreach_map(torch.mul, x, 2.0),
    "foreach_of_a_tuple": lambda x: ho.foreach_map(torch.mul, (x, x.sin()), 3.0)[1],
    "run_const_graph": lambda x: hop.run_const_graph(GRAPH, (x.detach(),))[0] + x,
}
# Of the operators above eager mode has no gradients, or not without its compiler: what they are made of has.
WITHOUT_GRADIENTS = ("graph_modules", "foreach_without_lists", "foreach_of_a_tuple")

# Those that saker.compile runs eagerly, and why.
EAGERLY: dict[str, str] = {
    "objects": "gives-as-is",
    "function_under_vmap": "computes-with",
    "function_under_grad": FUNCTION_UNDER_GRAD_STOPS,
    "linearize": "makes-unknown calls-unknown",  # with PyTorch's compiler in the process, and without
}


def results(program: Any) -> list[torch.Tensor]:
    torch.manual_seed(3)
    with torch.no_grad():
        found = [program(X), program(X * 0.5), torch.get_rng_state()]
    return [each.detach().clone() for each in found]


def gradients(program: Any) -> list[torch.Tensor]:
    torch.manual_seed(3)
    found = []
    for factor in (1.0, 0.5, 0.25):
        x = (X * factor).requires_grad_()
        found += torch.autograd.grad(program(x).sin().sum(), x)
    return found


@pytest.mark.parametrize("entry", EVERYWHERE)
@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str, entry: str) -> None:
    program = PROGRAMS[name]
    torch.testing.assert_close(results(entered(entry, program, X)), results(program))


@pytest.mark.parametrize("entry", ["compile", "aot_function", "deferred"])
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in WITHOUT_GRADIENTS])
def test_gradients(name: str, entry: str) -> None:
    saker.reset(counts=True)
    program = PROGRAMS[name]
    torch.testing.assert_close(gradients(entered(entry, program, X)), gradients(program))
    if entry == "compile":
        stats = saker.stats()
        assert (stats["replays"] == 0) == (name in EAGERLY), stats["stops"]
        assert name not in EAGERLY or {*EAGERLY[name].split()} & {*stats["stops"]}, stats["stops"]


@pytest.mark.parametrize("entry", EVERYWHERE)
def test_what_is_printed(entry: str) -> None:
    def program(x):
        hop.print("value {} {y}", 3, y=4)
        return x + 1

    call, told = entered(entry, program, X), io.StringIO()
    with contextlib.redirect_stdout(told), torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(call(X), X + 1)
    assert told.getvalue() == "value 3 4\n" * 3


def test_graphs_print_in_each_run_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    def program(x):
        hop.print("first {} {size} {}", x.sum(), "text", size=x.shape[0])

        def left(v):
            hop.print("left {mean:.3f}", mean=v.mean())
            return v.sin()

        y = torch.cond(x.sum() > 0, left, lambda v: v.cos(), (x,))
        hop.print("last {!r} {} {}", y, None, float("inf"))
        return y

    graph = saker.capture(program, X, dynamic={0: {0: "rows"}})
    assert capsys.readouterr().out == ""
    for x in (X, -X, torch.ones(5, 3)):
        expected = program_in_eager_mode(program, x, capsys)
        for run in (graph, graph.to_fx()):
            found = run(x)
            torch.testing.assert_close(found if isinstance(found, torch.Tensor) else found[0], expected[0])
            assert capsys.readouterr().out == expected[1]


def program_in_eager_mode(program: Any, x: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    plain = torch.cond
    torch.cond = lambda pred, left, right, operands: left(*operands) if pred else right(*operands)
    try:
        return program(x), capsys.readouterr().out
    finally:
        torch.cond = plain


def test_a_graph_does_not_print_what_has_history() -> None:
    """Its text would tell the node of autograd that made it."""

    def program(x):
        hop.print("{}", x * 2)
        return torch.autograd.grad(x.sin().sum(), x)[0]

    with pytest.raises(saker.CaptureError, match="each call"):
        saker.capture(program, X.clone().requires_grad_())


@pytest.mark.parametrize("entry", EVERYWHERE)
def test_effects_happen_in_each_call(entry: str, capfd: pytest.CaptureFixture[str]) -> None:
    def program(x):
        token = hop.with_effects(torch.tensor([]), aten._print.default, "first")[0]
        hop.with_effects(token, aten._print.default, "second")
        return x + 1

    call = entered(entry, program, X)
    for _ in range(3):
        torch.testing.assert_close(call(X), X + 1)
    assert capfd.readouterr().out.split() == ["first", "second"] * 3


SETTINGS: dict[str, Any] = {"dtype": torch.float64, "op": aten.mul.Tensor, "scale": 2.0}


@pytest.mark.parametrize(
    ("name", "other"), [("dtype", torch.float32), ("op", aten.div.Tensor)], ids=["dtype", "operator"]
)
def test_what_operators_are_given_is_guarded(name: str, other: Any) -> None:
    compiled = saker.compile(lambda x: hop.out_dtype(SETTINGS["op"], SETTINGS["dtype"], x, x + 1))
    before = SETTINGS[name]
    try:
        for SETTINGS[name] in (before, before, other, before):
            expected = SETTINGS["op"](X.to(SETTINGS["dtype"]), (X + 1).to(SETTINGS["dtype"]))
            torch.testing.assert_close(compiled(X), expected)
    finally:
        SETTINGS[name] = before


def test_what_bodies_read_is_guarded() -> None:
    def program(x):
        y = hop.invoke_subgraph(lambda v: (v * SETTINGS["scale"],), "a", x)[0]
        return y + ho.foreach_map(lambda v: v * SETTINGS["scale"], [x])[0]

    compiled = saker.compile(program)
    try:
        for SETTINGS["scale"] in (2.0, 2.0, 3.0):
            torch.testing.assert_close(compiled(X), X * SETTINGS["scale"] * 2)
    finally:
        SETTINGS["scale"] = 2.0


@pytest.mark.parametrize("entry", ["compile", "aot_function", "deferred"])
def test_a_result_without_a_derivative_requires_a_gradient(entry: str) -> None:
    """As in eager mode: it is the backward that fails."""

    def program(x):
        return hop.out_dtype(aten.mul.Tensor, torch.float64, x, x)

    call = entered(entry, program, X)
    for _ in range(3):
        x = X.clone().requires_grad_()
        found = call(x)
        assert found.requires_grad and program(x).requires_grad
        with pytest.raises(RuntimeError, match="out_dtype: has no derivative"):
            found.sum().backward()
        with pytest.raises(RuntimeError, match="not implemented"):
            program(x).sum().backward()


_COMPILED = """
import torch, saker
import torch._higher_order_ops as ho
from torch.utils.checkpoint import checkpoint

def program(x):
    y = torch.cond(x.sum() > 0, torch.sin, torch.cos, operands=(x,))
    z = ho.while_loop(lambda v: v.sum() < 50, lambda v: (v + 1,), (y,))[0]
    w = ho.scan(lambda c, r: (c + r, c * r), z[0] * 1, ho.map(lambda r: r * 2, z))[1]
    return checkpoint(torch.cos, ho.foreach_map(torch.add, [w], [x])[0], use_reentrant=False)

x = torch.rand(3, 3)
found = torch.compile(program, backend="eager", fullgraph=True)(x)
torch.testing.assert_close(found, saker.compile(program)(x))
"""


def test_pytorchs_compiler_sees_through() -> None:
    """What stands for PyTorch's functions is nothing that ends its graphs."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _COMPILED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
