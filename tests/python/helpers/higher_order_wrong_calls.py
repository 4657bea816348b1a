"""Calls that PyTorch rejects of operators beside control flow; ``REJECTIONS`` are these and those of control flow."""

from __future__ import annotations

import torch
import torch._higher_order_ops as ho
from torch._prims.rng_prims import graphsafe_run_with_rng_state
from torch.nn.attention.flex_attention import flex_attention
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

import higher_order_wrong_bodies  # noqa: F401 (adds to the list)
from higher_order_rejections import REJECTIONS, Rejection, X, rejected

__all__ = ["REJECTIONS", "Rejection", "X"]

hop = torch.ops.higher_order
aten = torch.ops.aten
PACKED = torch.ops.quantized.linear_prepack(torch.quantize_per_tensor(X, 0.1, 0, torch.qint8), None)


# --- out_dtype ---


@rejected("H6", "out_dtype", "op", "function")
def out_dtype_of_a_function(x):
    return hop.out_dtype(lambda a, b: a * b, torch.float64, x, x)


@rejected("H6", "out_dtype", "op", "aten.add_.Tensor")
def out_dtype_that_writes(x):
    return hop.out_dtype(aten.add_.Tensor, torch.float64, x * 1, x)


@rejected("H6", "out_dtype", "op", "aten.sin.default")
def out_dtype_of_another_operator(x):
    return hop.out_dtype(aten.sin.default, torch.float64, x)


@rejected("H6", "out_dtype", "op", "aten.topk.default")
def out_dtype_of_several_results(x):
    return hop.out_dtype(aten.topk.default, torch.float64, x, 1)


@rejected("H6", "out_dtype", "other", by="python")
def out_dtype_of_a_keyword(x):
    return hop.out_dtype(aten.mul.Tensor, torch.float64, x, other=x)


# --- hints_wrapper, strict_mode, invoke_subgraph, with_effects and others ---


@rejected("H8", "hints_wrapper", "args", "Tensor")
def hints_of_a_bare_argument(x):
    return hop.hints_wrapper(torch.sin, x, {}, hints={})


@rejected("H8", "hints_wrapper", "kwargs", "list")
def hints_of_a_list_of_keywords(x):
    return hop.hints_wrapper(torch.sin, (x,), [], hints={})


@rejected("H8", "hints_wrapper", "hints", by="python")
def hints_without_hints(x):
    return hop.hints_wrapper(torch.sin, (x,), {})


@rejected("H25", "invoke_subgraph", "identifier", "int")
def subgraph_of_a_number(x):
    return hop.invoke_subgraph(lambda v: (v.sin(),), 3, x)


@rejected("H25", "invoke_subgraph", "operand", "str")
def subgraph_of_a_string(x):
    return hop.invoke_subgraph(lambda v, s: (v.sin(),), "a", x, "text")


@rejected("H23", "auto_functionalized", "_mutable_op", "aten.sin.default")
def functionalized_that_writes_nothing(x):
    return hop.auto_functionalized(aten.sin.default, self=x)


@rejected("H37", "with_effects", "op", "function")
def effects_of_a_function(x):
    return hop.with_effects(torch.tensor([]), lambda v: v, x)


@rejected("H37", "with_effects", "op", "aten.add_.Tensor")
def effects_of_a_write(x):
    return hop.with_effects(torch.tensor([]), aten.add_.Tensor, x * 1, x)


@rejected("H28", "format_str", "int", by="pytorch")
def printed_number(x):
    return hop.print(3)


@rejected("H29", "inline_asm_elementwise", "CUDA", by="pytorch")
def assembly_on_a_cpu(x):
    return ho.inline_asm_elementwise(x, asm_str="mov $0,$1;", constraints="=f,f", dtype=torch.float32)


@rejected("H29", "inline_asm_elementwise", "is_pure", by="pytorch")
def assembly_with_effects(x):
    return ho.inline_asm_elementwise(x, asm_str="mov $0,$1;", constraints="=f,f", dtype=torch.float32, is_pure=False)


# --- torch.autograd.Function ---


@rejected("H35", "gradients", by="pytorch")
def function_with_too_many_gradients(x):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g, g

    y = x.detach().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(Wrong.apply(y).sum(), y)[0]


@rejected("H26", "vmap", by="pytorch")
def function_without_a_vmap_rule(x):
    class Plain(torch.autograd.Function):
        @staticmethod
        def forward(a):
            return a * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g

    return torch.vmap(Plain.apply)(x)


@rejected("H26", "setup_context", by="pytorch")
def function_without_setup_context(x):
    class Old(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g

    return torch.func.grad(lambda v: Old.apply(v).sum())(x)


# --- wrappers, checkpoints, attention: most is told by Python or PyTorch ---


@rejected("H3", "while_loop_stack_output", "carried_inputs", "Tensor")
def stack_of_a_bare_value(x):
    return ho.while_loop_stack_output(lambda v: v.sum() < 9, lambda v: (v + 1,), x, ())


@rejected("H3", "while_loop_stack_output", "carried_inputs", "float")
def stack_of_a_float(x):
    return ho.while_loop_stack_output(lambda v, s: v.sum() < 9, lambda v, s: (v + 1, s), (x, 1.5), ())


@rejected("H5", "original_module", by="pytorch")
def delegate_of_a_plain_module(x):
    return hop.executorch_call_delegate(torch.nn.ReLU(), x)


@rejected("H5", "other", by="python")
def delegate_of_a_keyword(x):
    return hop.executorch_call_delegate(torch.nn.ReLU(), x, other=1)


@rejected("H7", "callable", by="python")
def wrap_of_no_function(x):
    return hop.wrap(3, x)


@rejected("H9", "4", by="pytorch")
def attention_of_three_dimensions(x):
    return flex_attention(x[None], x[None], x[None])


@rejected("H9", "head", by="pytorch")
def attention_of_other_heads(x):
    q = x[None, None]
    return flex_attention(torch.cat([q, q], 1), torch.cat([q, q, q], 1), torch.cat([q, q, q], 1))


@rejected("H9", "dimension", by="pytorch")
def attention_of_other_widths(x):
    q = x[None, None]
    return flex_attention(q, q[..., :2], q)


@rejected("H12", "Unexpected", "other", by="pytorch")
def checkpoint_of_an_unknown_keyword(x):
    return checkpoint(lambda v: v.sin(), x, use_reentrant=True, other=1)


@rejected("H12", "context_fn", by="pytorch")
def checkpoint_with_a_context_and_reentrance(x):
    return checkpoint(lambda v: v.sin(), x, use_reentrant=True, context_fn=lambda: (None, None))


@rejected("H15", "callable", by="python")
def strict_mode_of_no_function(x):
    return hop.strict_mode(3, (x,))


@rejected("H15", "other", by="python")
def strict_mode_of_a_keyword(x):
    return hop.strict_mode(lambda v: v, (x,), other=1)


@rejected("H19", "missing", by="pytorch", entries=("compile", "deferred"))  # captures refuse all of them
def bound_method_that_is_not_there(x):
    return hop.call_torchbind(PACKED, "missing")


@rejected("H20", "bool", by="pytorch")
def grad_mode_of_a_string(x):
    return hop.wrap_with_set_grad_enabled("yes", lambda v: v, x)


@rejected("H21", "device", by="pytorch")
def autocast_of_an_unknown_device(x):
    return hop.wrap_with_autocast("nowhere", torch.bfloat16, True, False, lambda v: v, x)


@rejected("H22", "callable", by="python")
def bypassed_by_a_number(x):
    return hop.dynamo_bypassing_wrapper(3, lambda v: v, x)


@rejected("H24", "auto_functionalized_v2", "_mutable_op", "aten.sin.default")
def functionalized_views_that_write_nothing(x):
    return hop.auto_functionalized_v2(aten.sin.default, _all_bases=[x])


@rejected("H31", "in_dims", by="pytorch")
def vmap_over_a_missing_dim(x):
    return torch.vmap(torch.sin, in_dims=5)(x)


@rejected("H31", "randomness", by="pytorch")
def vmap_of_random_numbers(x):
    return torch.vmap(lambda row: row + torch.rand(3))(x)


@rejected("H31", "scalar", by="pytorch")
def grad_of_many_values(x):
    return torch.func.grad(lambda v: v.sin())(x)


@rejected("H32", "other", by="pytorch")
def functional_call_of_an_unknown_parameter(x):
    return torch.func.functional_call(torch.nn.Linear(3, 3), {"other": x}, (x,), strict=True)


@rejected("H39", "function", by="pytorch")
def flat_apply_of_a_function(x):
    return ho.flat_apply(lambda v: v, pytree.tree_flatten(((x,), {}))[1], x)


@rejected("H38", "GraphSafe", "cpu", by="pytorch")
def graph_safe_state_of_a_cpu(x):
    return graphsafe_run_with_rng_state(aten.rand_like.default, x, rng_state=torch.Generator())
