"""One program for each higher-order operator of PyTorch, and the same in plain Python without the operator."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch._higher_order_ops as ho
from torch import nn
from torch._export.wrappers import _export_tracepoint
from torch._higher_order_ops.base_hop import FunctionWithNoFreeVars
from torch._higher_order_ops.flat_apply import flat_apply, func_to_graphable
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils import _pytree as pytree
from torch.utils import checkpoint as checkpoints

from control_flow import operators, reference

hop = torch.ops.higher_order
aten = torch.ops.aten

library = torch.library.Library("saker_table", "DEF")
library.define("bump(Tensor(a!) x, Tensor y) -> Tensor")
library.impl("bump", lambda x, y: x.add_(y) * 2, "CPU")
library.impl("bump", lambda x, y: torch.empty_like(x), "Meta")

LAYER = nn.Linear(3, 3)
with torch.no_grad():
    for number, parameter in enumerate(LAYER.parameters()):
        parameter.copy_(torch.linspace(-0.5, 0.5, parameter.numel()).view_as(parameter) + number * 0.1)
GRAPH = torch.fx.symbolic_trace(lambda v: (v.sin() * v,))
PACKED = torch.ops.quantized.linear_prepack(
    torch.quantize_per_tensor(torch.linspace(-1, 1, 9).view(3, 3), 0.1, 0, torch.qint8), None
)


def step(o: Any, x: torch.Tensor) -> torch.Tensor:
    last, rows = o.scan(lambda c, r: (c * 0.5 + r.sin(), c * r), x[0] * 1, x)
    return last + rows


def loop(o: Any, x: torch.Tensor) -> torch.Tensor:
    return o.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v.sin() * x), (torch.tensor(0), x * 1))[1]


def branch(o: Any, x: torch.Tensor) -> torch.Tensor:
    return o.cond(x.sum() > 1, lambda v: v.sin() * x, lambda v: v.cos() + x, (x,))


def rows(o: Any, x: torch.Tensor) -> torch.Tensor:
    return o.map(lambda row: row.sin() * x.sum(), x)


def stacked(x: torch.Tensor) -> torch.Tensor:
    return ho.while_loop_stack_output(lambda v: v.sum() < 30, lambda v: (v * 2,), (x.abs() + 1,), ())[0]


def stacked_plain(x: torch.Tensor) -> torch.Tensor:
    value, kept = x.abs() + 1, []
    while value.sum() < 30:
        value = value * 2
        kept.append(value)
    return torch.stack(kept or [value])


class LoweredBackendModule(nn.Module):
    """What ExecuTorch calls its modules, which PyTorch knows by this name."""

    class original_module:
        @staticmethod
        def module() -> Any:
            return torch.sin


LOWERED = LoweredBackendModule()


def flex(x: torch.Tensor) -> torch.Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    q = x.reshape(1, 1, *x.shape)
    return flex_attention(q, q * 2, q + 1, score_mod=lambda s, b, h, i, j: s - (i - j).abs() * 0.1)[0, 0]


def flex_plain(x: torch.Tensor) -> torch.Tensor:
    places = torch.arange(x.shape[0])
    scores = x @ (x * 2).t() / x.shape[1] ** 0.5 - (places[:, None] - places).abs() * 0.1
    return scores.softmax(-1) @ (x + 1)


def selective(x: torch.Tensor) -> torch.Tensor:
    context = functools.partial(checkpoints.create_selective_checkpoint_contexts, [aten.mm.default])
    return checkpoints.checkpoint(lambda v: (v.t() @ v).sin() * v[0], x, use_reentrant=False, context_fn=context)


def drawn_again(x: torch.Tensor) -> torch.Tensor:
    state = torch.get_rng_state()
    first = run_with_rng_state(state, aten.rand_like.default, x.detach())
    return run_with_rng_state(state, aten.rand_like.default, x.detach()) - first + x.sin() * x


def drawn_and_saved(x: torch.Tensor) -> torch.Tensor:
    state, first = run_and_save_rng_state(aten.rand_like.default, x.detach())
    return run_with_rng_state(state, aten.rand_like.default, x.detach()) - first + x.sin() * x


def scanned(x: torch.Tensor) -> torch.Tensor:
    return ho.associative_scan(lambda a, b: a * b + a, x, 0, combine_mode="generic")


def scanned_plain(x: torch.Tensor) -> torch.Tensor:
    """In the order of pairs that the operator takes, as the function is not quite associative."""

    def scan(elements: torch.Tensor) -> torch.Tensor:
        if len(elements) < 2:
            return elements
        pairs = elements[: len(elements) // 2 * 2]
        odd = scan(pairs[0::2] * pairs[1::2] + pairs[0::2])
        inner = odd[: (len(elements) - 1) // 2]
        even = torch.cat([elements[:1], inner * elements[2::2] + inner])
        made = [even[i // 2] if i % 2 == 0 else odd[i // 2] for i in range(len(elements))]
        return torch.stack(made)

    return scan(x)


def functionalized(x: torch.Tensor) -> torch.Tensor:
    made, written = hop.auto_functionalized(torch.ops.saker_table.bump.default, x=x.detach(), y=x.detach())
    return made + written + x.sin() * x


def functionalized_views(x: torch.Tensor) -> torch.Tensor:
    base = x.detach().clone()
    made, written = hop.auto_functionalized_v2(
        torch.ops.saker_table.bump.default, _x_base_index=0, _all_bases=[base], y=base
    )
    return made + written + x.sin() * x


def bumped_plain(x: torch.Tensor) -> torch.Tensor:
    value = x.detach() * 2
    return value * 2 + value + x.sin() * x


def quantized(x: torch.Tensor) -> torch.Tensor:
    y = hop.invoke_quant(FunctionWithNoFreeVars(lambda a: (a.sin() * a,)), x, scheme="nf4")[0]
    z = ho.invoke_quant_packed(lambda a: (a.cos(),), y, scheme="nf4")[0]
    return sum(ho.foreach_map(torch.add, [z, z * 2], [x, x * 3]))


class Doubled(torch.autograd.Function):
    """Not the derivative, so that it is seen which one was used."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: torch.Tensor, scale: float) -> torch.Tensor:
        return a.sin() * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient * ctx.saved_tensors[0].cos() * ctx.scale * 2, None


def doubled_plain(x: torch.Tensor) -> torch.Tensor:
    made = x.sin() * 3.0
    return made * 2 - made.detach()


def transformed(x: torch.Tensor) -> torch.Tensor:
    a = vmap(lambda row: row.sin() * row.sum(), in_dims=1, out_dims=1, chunk_size=2)(x)
    b = grad(lambda v: (v**3).sum())(x)
    c = vjp(lambda v: v.cos(), x)[1](x)[0]
    d = jvp(lambda v: v.sin(), (x,), (x * 2,))[1]
    e = jacrev(lambda v: v.sum(0) ** 2)(x).sum((0,)) + jacfwd(lambda v: v.sum(0) ** 2)(x).sum((0,))
    f = hessian(lambda v: (v**3).sum())(x[0]).sum(0)
    return a + b + c + d + e + f


def transformed_plain(x: torch.Tensor) -> torch.Tensor:
    a = x.sin() * x.sum(0)
    jacobian = (x.sum(0) * 2).expand_as(x)
    return a + 3 * x**2 - x.sin() * x + x.cos() * x * 2 + jacobian * 2 + 6 * x[0]


def functional(x: torch.Tensor) -> torch.Tensor:
    return functional_call(LAYER, {"weight": LAYER.weight * 2, "bias": x[0]}, (x,)).sin()


def swapped(x: torch.Tensor) -> torch.Tensor:
    with nn.utils.stateless._reparametrize_module(LAYER, {"bias": x[0] * 2}):
        made = LAYER(x)
    return made + LAYER(x).sin()


def flat(x: torch.Tensor) -> torch.Tensor:
    _, function = func_to_graphable(lambda a, b: (a * b).sin())
    leaves, spec = pytree.tree_flatten(((x, x * 2), {}))
    return flat_apply(function, spec, *leaves)


def effects(x: torch.Tensor) -> torch.Tensor:
    token, made = hop.with_effects(torch.tensor([]), aten.sin.default, x)
    return hop.with_effects(token, aten.mul.Tensor, made, x)[1]


def twice(function: Any) -> Any:
    return lambda v: function(function(v))


def product(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * x


def printed(x: torch.Tensor) -> torch.Tensor:
    hop.print("value {} {y}", 3, y=4)
    return product(x)


def cast(x: torch.Tensor) -> torch.Tensor:
    return hop.wrap_with_autocast("cpu", torch.bfloat16, True, False, lambda v: v @ v.t(), x).float() @ x


def cast_plain(x: torch.Tensor) -> torch.Tensor:
    return (x.bfloat16() @ x.bfloat16().t()).float() @ x


def constant(x: torch.Tensor) -> torch.Tensor:
    return PACKED.unpack()[0].dequantize()[0] + product(x)


def bound(x: torch.Tensor) -> torch.Tensor:
    return hop.call_torchbind(PACKED, "unpack")[0].dequantize()[0] + product(x)


# By row of the table: the program, and the same without the operator.
PROGRAMS: dict[str, tuple[Any, Any]] = {
    "H1": (functools.partial(branch, operators), functools.partial(branch, reference)),
    "H2": (functools.partial(loop, operators), functools.partial(loop, reference)),
    "H3": (stacked, stacked_plain),
    "H4": (functools.partial(rows, operators), functools.partial(rows, reference)),
    "H5": (lambda x: hop.executorch_call_delegate(LOWERED, x), torch.sin),
    "H6": (lambda x: hop.out_dtype(aten.mul.Tensor, torch.float64, x, x), lambda x: x.double() * x.double()),
    "H7": (lambda x: hop.wrap(lambda v, w: v.sin() * w, x, x), product),
    "H8": (lambda x: hop.hints_wrapper(lambda v: v.sin() * x, (x,), {}, hints={"kept": 1}), product),
    "H9": (flex, flex_plain),
    "H11": (lambda x: hop.wrap_activation_checkpoint(GRAPH, x, use_reentrant=False)[0], product),
    "H12": (lambda x: checkpoints.checkpoint(lambda v: v.sin() * v, x, use_reentrant=False), product),
    "H12s": (selective, lambda x: (x.t() @ x).sin() * x[0]),
    "H12t": (lambda x: hop.tag_activation_checkpoint(GRAPH, x, use_reentrant=False)[0], product),
    "H13": (lambda x: _export_tracepoint(x.sin(), kind="module_call_inputs", path="a")[0] * 1, torch.sin),
    "H15": (lambda x: hop.strict_mode(lambda v: (v.sin() * x,), (x,))[0], product),
    "H16": (drawn_again, product),
    "H17": (scanned, scanned_plain),
    "H18": (functools.partial(step, operators), functools.partial(step, reference)),
    "H19": (bound, constant),
    "H20": (
        lambda x: hop.wrap_with_set_grad_enabled(False, lambda v: v.cos(), x) * x.sin(),
        lambda x: x.cos().detach() * x.sin(),
    ),
    "H21": (cast, cast_plain),
    "H22": (
        lambda x: hop.dynamo_bypassing_wrapper(twice, lambda v: v.sin() + 1, x) * x,
        lambda x: ((x.sin() + 1).sin() + 1) * x,
    ),
    "H23": (functionalized, bumped_plain),
    "H24": (functionalized_views, bumped_plain),
    "H25": (lambda x: hop.invoke_subgraph(lambda v: (v.sin() * v,), "shared", x)[0], product),
    "H25n": (lambda x: torch.compiler.nested_compile_region(lambda v: v.sin() * v)(x), product),
    "H26": (lambda x: hop.custom_function_call(Doubled, x, 3.0), doubled_plain),
    "H28": (printed, product),
    "H30": (quantized, lambda x: product(x).cos() * 3 + x * 4),
    "H31": (transformed, transformed_plain),
    "H32": (functional, lambda x: (x @ (LAYER.weight * 2).t() + x[0]).sin()),
    "H33": (swapped, lambda x: x @ LAYER.weight.t() + x[0] * 2 + LAYER(x).sin()),
    "H34": (lambda x: Doubled.apply(x, 3.0), doubled_plain),
    "H37": (effects, product),
    "H38": (drawn_and_saved, product),
    "H39": (flat, lambda x: (x * x * 2).sin()),
}
