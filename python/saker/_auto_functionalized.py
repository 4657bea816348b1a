"""``auto_functionalized`` and its second version: an operator that writes, called on copies of what it writes to."""

from __future__ import annotations

from typing import Any

import torch
from torch._higher_order_ops import auto_functionalize as module

from saker._called_operators import original
from saker._torch_version import is_out
from saker.errors import BodyAssertion


def _copy(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_copy(item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    # Views of it are told by places in its memory: the copy begins at the same one.
    last = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    memory = value.new_empty(value.storage_offset() + last + 1 if value.numel() else 0)
    return memory.as_strided(value.shape, value.stride(), value.storage_offset()).copy_(value)


def _with_results(result: Any, others: list[Any]) -> tuple[Any, ...]:
    return (*result, *others) if isinstance(result, tuple) else (result, *others)


def _check(name: str, op: Any) -> None:
    if not isinstance(op, torch._ops.OpOverload):
        raise BodyAssertion(name, f"_mutable_op must be an operator, not a {type(op).__name__}")
    if not module.can_auto_functionalize(op):
        raise BodyAssertion(name, f"_mutable_op must write to tensors and return no views of them, unlike {op}")


def first(_mutable_op: Any, /, **kwargs: Any) -> tuple[Any, ...]:
    op = original(_mutable_op)
    _check("auto_functionalized", op)
    names, _ = module.get_mutable_args(op)
    copies = {name: _copy(kwargs[name]) for name in names}
    return _with_results(_mutable_op(**{**kwargs, **copies}), list(copies.values()))


def second(_mutable_op: Any, /, **kwargs: Any) -> tuple[Any, ...]:
    op = original(_mutable_op)
    _check("auto_functionalized_v2", op)
    names, types = module.get_mutable_args(op)
    bases = kwargs.pop("_all_bases", [])
    if is_out(op):
        return _of_out(_mutable_op, names, kwargs)
    views = module.read_view_information_from_args(names, types, kwargs, bases)
    copies = [_copy(base) for base in bases]

    def view(found: Any) -> Any:
        if isinstance(found, list):
            return [view(item) for item in found]
        return None if found is None else found.regenerate_view(copies)

    given = {name: view(views[name]) for name in names}
    return _with_results(_mutable_op(**kwargs, **given), copies)


def _of_out(op: Any, names: list[str], kwargs: dict[str, Any]) -> Any:
    """An operator that fills tensors it is given: they are made as the keywords say."""
    made = {}
    for name in names:
        size, stride, dtype, device = (kwargs.pop(f"_{name}_{fact}") for fact in ("size", "stride", "dtype", "device"))
        made[name] = torch.empty_strided(size, stride, dtype=dtype, device=device)
    return op(**kwargs, **made)
