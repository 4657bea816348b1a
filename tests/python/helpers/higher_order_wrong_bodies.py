"""More calls that PyTorch rejects: functions and arguments of each operator that do not fit each other."""

from __future__ import annotations

import torch
import torch._higher_order_ops as ho
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from control_flow import operators as o
from higher_order_rejections import rejected

hop = torch.ops.higher_order
aten = torch.ops.aten


@rejected("H1", "cond", "false_fn", "str")
def cond_of_no_second_function(x):
    return torch.cond(x.sum() > 0, torch.sin, "cos", (x,))


@rejected("H1", "cond", "false_fn", "structure")
def cond_of_one_result_without_a_tensor(x):
    return torch.cond(x.sum() > 0, lambda v: (v + 1, v * 2), lambda v: (v + 1, None), (x,))


@rejected("H2", "while_loop", "body_fn", "1")
def loop_whose_body_gives_too_little(x):
    return o.while_loop(lambda v, w: v.sum() < 9, lambda v, w: (v + 1,), (x, x))


@rejected("H2", "while_loop", "cond_fn", "str")
def loop_whose_condition_is_a_string(x):
    return o.while_loop(lambda v: "yes", lambda v: (v + 1,), (x,))


@rejected("H2", "while_loop", "body_fn", "str")
def loop_whose_body_gives_a_string(x):
    return o.while_loop(lambda v: v.sum() < 9, lambda v: ("text",), (x,))


@rejected("H2", "other", by="python")
def loop_of_an_unknown_keyword(x):
    return o.while_loop(lambda v: v.sum() < 9, lambda v: (v + 1,), (x,), other=1)


@rejected("H3", "while_loop_stack_output", "cond_fn", "int")
def stack_of_no_condition(x):
    return ho.while_loop_stack_output(3, lambda v: (v + 1,), (x,), ())


@rejected("H3", "while_loop_stack_output", "cond_fn", "[3, 3]")
def stack_of_many_conditions(x):
    return ho.while_loop_stack_output(lambda v: v < 9, lambda v: (v + 1,), (x,), ())


@rejected("H3", "while_loop_stack_output", "body_fn", "2")
def stack_whose_body_gives_too_much(x):
    return ho.while_loop_stack_output(lambda v: v.sum() < 9, lambda v: (v + 1, v), (x,), ())


@rejected("H3", "while_loop_stack_output", "body_fn", "tuple")
def stack_whose_body_gives_no_tuple(x):
    return ho.while_loop_stack_output(lambda v: v.sum() < 9, lambda v: v + 1, (x,), ())


@rejected("H3", "other", by="python")
def stack_of_an_unknown_keyword(x):
    return ho.while_loop_stack_output(lambda v: v.sum() < 9, lambda v: (v + 1,), (x,), (), other=1)


@rejected("H3", "while_loop_stack_output", "body_fn", "1")
def stack_whose_body_gives_too_little(x):
    return ho.while_loop_stack_output(lambda v, w: v.sum() < 9, lambda v, w: (v + 1,), (x, x), ())


@rejected("H3", "while_loop_stack_output", "additional_inputs", "Tensor")
def stack_with_a_bare_additional_input(x):
    return ho.while_loop_stack_output(lambda v, w: v.sum() < 9, lambda v, w: (v + w,), (x,), x)


@rejected("H4", "map", by="python")
def map_of_too_little(x):
    return o.map(lambda r: r + 1)


@rejected("H9", "batch", by="pytorch")
def attention_of_other_batches(x):
    q = x[None, None]
    return flex_attention(torch.cat([q, q]), torch.cat([q, q, q]), torch.cat([q, q, q]))


@rejected("H9", "GQA", "3", "2", by="pytorch")
def attention_of_heads_in_groups_that_are_not_even(x):
    q = x[None, None]
    return flex_attention(torch.cat([q, q, q], 1), torch.cat([q, q], 1), torch.cat([q, q], 1), enable_gqa=True)


@rejected("H9", "block_mask", by="pytorch")
def attention_with_a_mask_of_other_lengths(x):
    q = x.new_ones(1, 1, 256, 16)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu")
    return flex_attention(q, q, q, block_mask=mask)


@rejected("H17", "Combine_fn", "3", by="pytorch")
def associative_of_another_structure(x):
    return ho.associative_scan(lambda a, b: (a + b, a), x, 0, combine_mode="generic")


@rejected("H18", "scan", "combine_fn")
def scan_of_another_structure(x):
    return o.scan(lambda c, r: ((c[0] + r, c[1] * 2, c[0] * 3), r * 1), (x[0] * 1, x[0] * 2), x)


@rejected("H18", "other", by="python")
def scan_of_an_unknown_keyword(x):
    return o.scan(lambda c, r: (c + r, c * r), x[0] * 1, x, other=1)


@rejected("H18", "scan", "str")
def scan_whose_row_is_a_string(x):
    return o.scan(lambda c, r: (c + r, "text"), x[0] * 1, x)


@rejected("H34", "save_for_backward", by="pytorch")
def function_that_saves_a_number(x):
    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a, 3)
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g

    with torch.enable_grad():
        return Saves.apply(x.detach().requires_grad_())


@rejected("H34", "leaf", by="pytorch")
def function_that_writes_to_a_leaf(x):
    class Writes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.mark_dirty(a)
            return a.add_(1)

        @staticmethod
        def backward(ctx, g):
            return g

    with torch.enable_grad():
        return Writes.apply(x.detach().requires_grad_())


@rejected("H31", "forward gradient", by="pytorch")
def jvp_with_a_tangent_of_another_size(x):
    return torch.func.jvp(torch.sin, (x,), (x[0],))


@rejected("H31", "out_dims", by="pytorch")
def vmap_with_too_many_places_of_results(x):
    return torch.vmap(torch.sin, out_dims=(0, 1))(x)


@rejected("H38", "callable", by="pytorch")
def random_state_of_another_operator(x):
    return hop.run_and_save_rng_state(3, x)
