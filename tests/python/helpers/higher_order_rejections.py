"""Calls of higher-order operators that PyTorch rejects: by row of the table, each with what an error has to name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch._higher_order_ops as ho

import saker  # noqa: F401 (before names are imported that it replaces)
from control_flow import operators as o
from torch_versions import SCANS_TAKE_LENGTHS

hop = torch.ops.higher_order
aten = torch.ops.aten
X = torch.linspace(0.1, 1.3, 9).view(3, 3)
OUTSIDE = torch.zeros(3, 3)
SEEN = []
PACKED = torch.ops.quantized.linear_prepack(torch.quantize_per_tensor(X, 0.1, 0, torch.qint8), None)
SPARSE = torch.eye(3).to_sparse()
WITHOUT_DATA = ("capture", "aot_function")  # elsewhere they run as Python code


@dataclass(frozen=True)
class Rejection:
    row: str
    name: str
    words: tuple[str, ...]  # operator, argument or function, what was found
    call: Callable[[torch.Tensor], Any]
    entries: tuple[str, ...] = ("compile", "capture", "aot_function", "deferred")
    by: str = "saker"  # whose words it is told in: "python" and "pytorch" name no line
    accepted: bool = False  # by PyTorch, in eager mode


REJECTIONS: list[Rejection] = []


def rejected(row: str, *words: str, here: bool = True, **others: Any) -> Callable:
    """``here``: does this version of PyTorch reject it?"""

    def add(call: Callable) -> Callable:
        if here:
            REJECTIONS.append(Rejection(row, call.__name__, words, call, **others))
        return call

    return add


# --- cond ---


@rejected("H1", "cond", "false_fn", by="python")
def cond_of_too_few(x):
    return torch.cond(x.sum() > 0, torch.sin)


@rejected("H1", "cond", "other", by="python")
def cond_of_an_unknown_keyword(x):
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,), other=1)


@rejected("H1", "cond", "pred", "str")
def cond_of_a_string(x):
    return torch.cond("yes", torch.sin, torch.cos, (x,))


@rejected("H1", "cond", "pred", "one element", "3")
def cond_of_several(x):
    return torch.cond(x[0] > 0, torch.sin, torch.cos, (x,))


@rejected("H1", "cond", "true_fn", "int")
def cond_of_no_function(x):
    return torch.cond(x.sum() > 0, 3, torch.cos, (x,))


@rejected("H1", "cond", "operands", "Tensor")
def cond_of_a_bare_operand(x):
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, x)


@rejected("H1", "cond", "operands", "str")
def cond_of_a_string_operand(x):
    return torch.cond(x.sum() > 0, lambda v, s: v, lambda v, s: v * 2, (x, "text"))


@rejected("H1", "cond", "true_fn", "false_fn", "structure")
def cond_of_other_structures(x):
    return torch.cond(x.sum() > 0, lambda v: {"a": v + 1}, lambda v: [v + 2], (x,))


@rejected("H1", "cond", "true_fn", "false_fn", "structure")
def cond_of_other_counts(x):
    return torch.cond(x.sum() > 0, lambda v: (v + 1, v * 2), lambda v: (v + 2,), (x,))


@rejected("H1", "cond", "false_fn", "float64")
def cond_of_other_dtypes(x):
    return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v.double(), (x,))


@rejected("H1", "cond", "false_fn", "[3]")
def cond_of_other_sizes(x):
    return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v[0] + 1, (x,))


@rejected("H1", "cond", "true_fn", "str")
def cond_that_returns_a_string(x):
    return torch.cond(x.sum() > 0, lambda v: "text", lambda v: "other", (x,))


@rejected("H1", "cond", "true_fn", "float")
def cond_that_returns_a_float(x):
    return torch.cond(x.sum() > 0, lambda v: (v + 1, 1.5), lambda v: (v + 2, 1.5), (x,))


@rejected("H1", "cond", "not its own", accepted=True, entries=WITHOUT_DATA)
def cond_that_writes_to_what_is_outside(x):
    return torch.cond(x.sum() > 0, lambda v: v + OUTSIDE.add_(1), lambda v: v * 2, (x,))


@rejected("H1", "cond", "outside", entries=("compile",))  # elsewhere nobody watches
def cond_that_changes_a_list(x):
    def noting(v):
        SEEN.append(1)
        return v + 1

    return torch.cond(x.sum() > 0, noting, lambda v: v * 2, (x,))


# --- while_loop ---


@rejected("H2", "while_loop", "cond_fn", "int")
def loop_of_no_condition(x):
    return o.while_loop(3, lambda v: (v + 1,), (x,))


@rejected("H2", "while_loop", "body_fn", "int")
def loop_of_no_function(x):
    return o.while_loop(lambda v: v.sum() < 9, 3, (x,))


@rejected("H2", "while_loop", "carried_inputs", "Tensor")
def loop_of_a_bare_value(x):
    return o.while_loop(lambda v: v.sum() < 9, lambda v: (v + 1,), x)


@rejected("H2", "while_loop", "carried_inputs", "str")
def loop_that_carries_a_string(x):
    return o.while_loop(lambda v, s: v.sum() < 9, lambda v, s: (v + 1, s), (x, "text"))


@rejected("H2", "while_loop", "carried_inputs", "float")
def loop_that_carries_a_float(x):
    return o.while_loop(lambda v, s: v.sum() < 9, lambda v, s: (v + 1, s), (x, 1.5))


@rejected("H2", "while_loop", "cond_fn", "[3, 3]")
def loop_of_many_conditions(x):
    return o.while_loop(lambda v: v < 9, lambda v: (v + 1,), (x,))


@rejected("H2", "while_loop", "cond_fn", "float32")
def loop_of_a_number(x):
    return o.while_loop(lambda v: v.sum(), lambda v: (v + 1,), (x,))


@rejected("H2", "while_loop", "cond_fn", "True")
def loop_without_end(x):
    return o.while_loop(lambda v: True, lambda v: (v + 1,), (x,))


@rejected("H2", "while_loop", "body_fn", "tuple", accepted=True)
def loop_whose_body_gives_no_tuple(x):
    return o.while_loop(lambda v: v.sum() < 9, lambda v: v + 1, (x,))


@rejected("H2", "while_loop", "body_fn", "2")
def loop_whose_body_gives_too_much(x):
    return o.while_loop(lambda v: v.sum() < 9, lambda v: (v + 1, v), (x,))


@rejected("H2", "while_loop", "body_fn", "float64")
def loop_whose_dtype_changes(x):
    return o.while_loop(lambda v: v.sum() < 9, lambda v: (v.double() + 1,), (x,))


@rejected("H2", "while_loop", "body_fn", "[6, 3]")
def loop_whose_size_changes(x):
    return o.while_loop(lambda v: v.sum() < 9, lambda v: (torch.cat([v, v]),), (x,))


@rejected("H2", "while_loop", "not its own", accepted=True, entries=WITHOUT_DATA)
def loop_that_writes_to_what_it_carries(x):
    return o.while_loop(lambda v: v.sum() < 9, lambda v: (v.add_(1) * 1,), (x * 1,))


# --- map ---


@rejected("H4", "map", "f", "int")
def map_of_no_function(x):
    return o.map(3, x)


@rejected("H4", "map", "xs", "int")
def map_over_a_number(x):
    return o.map(lambda r, n: r + n, (x, 3))


@rejected("H4", "map", "xs", "dimension")
def map_over_a_scalar(x):
    return o.map(lambda r: r + 1, x.sum())


@rejected("H4", "map", "xs", "0")
def map_over_nothing(x):
    return o.map(lambda r: r + 1, x[:0])


@rejected("H4", "map", "xs", "3", "2")
def map_over_other_lengths(x):
    return o.map(lambda pair: pair[0] + pair[1], (x, x[:2]))


@rejected("H4", "map", "f", "str")
def map_that_returns_a_string(x):
    return o.map(lambda r: "text", x)


@rejected("H4", "map", "not its own", here=not SCANS_TAKE_LENGTHS)
def map_that_writes(x):
    return o.map(lambda r: r.add_(1) * 1, x * 1)


# --- associative_scan ---


@rejected("H17", "associative_scan", "combine_fn", "int")
def associative_of_no_function(x):
    return ho.associative_scan(3, x, 0, combine_mode="generic")


@rejected("H17", "associative_scan", "dim", "str")
def associative_of_a_named_dim(x):
    return ho.associative_scan(torch.add, x, "rows", combine_mode="generic")


@rejected("H17", "associative_scan", "reverse", "int")
def associative_of_a_number_for_reverse(x):
    return ho.associative_scan(torch.add, x, 0, reverse=1, combine_mode="generic")


@rejected("H17", "associative_scan", "combine_mode", "other")
def associative_of_an_unknown_mode(x):
    return ho.associative_scan(torch.add, x, 0, combine_mode="other")


@rejected("H17", "associative_scan", "xs")
def associative_of_nothing(x):
    return ho.associative_scan(torch.add, [], 0, combine_mode="generic")


@rejected("H17", "associative_scan", "xs", "int")
def associative_of_numbers(x):
    return ho.associative_scan(lambda a, b: a, [x, 3], 0, combine_mode="generic")


@rejected("H17", "associative_scan", "xs", "sparse")
def associative_of_sparse_tensors(x):
    return ho.associative_scan(torch.add, SPARSE, 0, combine_mode="generic")


@rejected("H17", "associative_scan", "xs", "0", here=not SCANS_TAKE_LENGTHS)
def associative_over_no_length(x):
    return ho.associative_scan(torch.add, x[:0], 0, combine_mode="generic")


@rejected("H17", "associative_scan", "dim", "2")
def associative_over_a_missing_dim(x):
    return ho.associative_scan(torch.add, x, 2, combine_mode="generic")


@rejected("H17", "associative_scan", "combine_mode", "pointwise", here=not SCANS_TAKE_LENGTHS)
def associative_pointwise_on_a_cpu(x):
    return ho.associative_scan(torch.add, x, 0, combine_mode="pointwise")


# --- scan ---


@rejected("H18", "scan", "combine_fn", "int")
def scan_of_no_function(x):
    return o.scan(3, x[0] * 1, x)


@rejected("H18", "scan", "dim", "str")
def scan_of_a_named_dim(x):
    return o.scan(lambda c, r: (c + r, c * r), x[0] * 1, x, dim="rows")


@rejected("H18", "scan", "reverse", "int")
def scan_of_a_number_for_reverse(x):
    return o.scan(lambda c, r: (c + r, c * r), x[0] * 1, x, reverse=1)


@rejected("H18", "scan", "init")
def scan_without_a_start(x):
    return o.scan(lambda c, r: (c, r * 1), [], x)


@rejected("H18", "scan", "init", "int")
def scan_that_starts_with_a_number(x):
    return o.scan(lambda c, r: (c, r * 1), 3, x)


@rejected("H18", "scan", "xs", "int")
def scan_over_a_number(x):
    return o.scan(lambda c, r: (c + r[0], c * 1), x[0] * 1, [x, 3])


@rejected("H18", "scan", "xs", "2")
def scan_over_a_missing_dim(x):
    return o.scan(lambda c, r: (c + r, c * r), x[0] * 1, x, dim=2)


@rejected("H18", "scan", "xs", "0", here=not SCANS_TAKE_LENGTHS)
def scan_over_no_length(x):
    return o.scan(lambda c, r: (c + r, c * r), x[0] * 1, x[:0])


@rejected("H18", "scan", "length", "4", "3", here=SCANS_TAKE_LENGTHS)
def scan_of_another_length(x):
    return o.scan(lambda c, r: (c + r, c * r), x[0] * 1, x, length=4)


@rejected("H18", "scan", "length", "-1", here=SCANS_TAKE_LENGTHS)
def scan_of_a_negative_length(x):
    return o.scan(lambda c, r: (c + 1, c * 2), x[0] * 1, None, length=-1)


@rejected("H18", "scan", "xs", "3", "2", here=SCANS_TAKE_LENGTHS)
def scan_over_other_lengths(x):
    return o.scan(lambda c, r: (c + r[0] + r[1], c * 2), x[0] * 1, (x, x[:2]))


@rejected("H18", "scan", "combine_fn", "2")
def scan_that_gives_one_value(x):
    return o.scan(lambda c, r: c + r, x[0] * 1, x)


@rejected("H18", "scan", "combine_fn", "float64")
def scan_whose_dtype_changes(x):
    return o.scan(lambda c, r: (c.double(), c * r), x[0] * 1, x)


@rejected("H18", "scan", "combine_fn", "[2]")
def scan_whose_size_changes(x):
    return o.scan(lambda c, r: (c[:2] + r[:2], c * r), x[0] * 1, x)
