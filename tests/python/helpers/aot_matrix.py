"""Programs and arguments for the matrix of ahead-of-time autograd, and what can be seen of a call."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

Tensor = torch.Tensor

# --- what a program does to its first argument (the second is there to be read) ---


def _no_grad_write(x: Tensor, y: Tensor) -> None:
    with torch.no_grad():
        x.mul_(2)


def _inference_write(x: Tensor, y: Tensor) -> None:
    with torch.inference_mode():
        x.mul_(2)


def _both_kinds(x: Tensor, y: Tensor) -> None:
    x.t_()
    x.mul_(3)


def _data_then_metadata(x: Tensor, y: Tensor) -> None:
    x.mul_(3)
    x.transpose_(0, 1)
    x.add_(1)


def _hidden_then_seen(x: Tensor, y: Tensor) -> None:
    x.detach().mul_(2)
    x.mul_(3)


def _hidden_metadata(x: Tensor, y: Tensor) -> None:
    with torch.no_grad():
        x.t_()
        x.mul_(2)


MUTATIONS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "none": lambda x, y: None,
    "mul_": lambda x, y: x.mul_(2),
    "add_ the other": lambda x, y: x.add_(y),
    "copy_": lambda x, y: x.copy_(y * 2),
    "through a view": lambda x, y: x[0].mul_(3),
    "through t": lambda x, y: x.t().add_(1),
    "twice": lambda x, y: (x.mul_(2), y.add_(1)),
    "no_grad": _no_grad_write,
    "inference_mode": _inference_write,
    "detach": lambda x, y: x.detach().add_(1),
    "data": lambda x, y: x.data.mul_(2),
    "hidden, then seen": _hidden_then_seen,
    "t_": lambda x, y: x.t_(),
    "transpose_": lambda x, y: x.transpose_(0, 1),
    "unsqueeze_": lambda x, y: x.unsqueeze_(0),
    "squeeze_": lambda x, y: x.squeeze_(),
    "as_strided_": lambda x, y: x.as_strided_((2, 3), (3, 1)),
    "t_ and mul_": _both_kinds,
    "mul_, transpose_, add_": _data_then_metadata,
    "no_grad t_": _hidden_metadata,
}


# --- what it returns ---


def _no_grad_view(x: Tensor, y: Tensor) -> Any:
    c = x.reshape(-1) * 2
    with torch.no_grad():
        v = c[1:]
    return c, v


def _detached_twin(x: Tensor, y: Tensor) -> Any:
    c = x.reshape(-1) * 2
    return c, c.detach()


def _written_intermediate(x: Tensor, y: Tensor) -> Any:
    c = x.reshape(-1) * 2
    v = c[2:]
    v.mul_(3)
    return v, c


def _chunks(x: Tensor, y: Tensor) -> Any:
    c = x.reshape(-1) * 3
    return c, *c.chunk(2)


def _gradless(x: Tensor, y: Tensor) -> Any:
    with torch.no_grad():
        return x * 2, (x * y.reshape(x.shape)).sum()


RESULTS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "fresh": lambda x, y: x.reshape(-1) * y.reshape(-1),
    "nothing": lambda x, y: None,
    "the argument": lambda x, y: x,
    "both arguments": lambda x, y: (y, x, x.sum()),
    "a view": lambda x, y: (x[0], y * 2),
    "views": lambda x, y: (x.unsqueeze(0), x.transpose(0, -1)[0], x.reshape(-1).sin()),
    "unbound": lambda x, y: x.unbind(0),
    "split": lambda x, y: (*x.split(1), y),
    "detached": lambda x, y: (x.detach(), y.detach()),
    "data": lambda x, y: (x.data, x * 2),
    "view of an intermediate": lambda x, y: (x.reshape(-1) * 2).view(2, -1)[1],
    "unbound intermediate": lambda x, y: (x.reshape(-1) * 2).view(2, -1).unbind(),
    "chunks and their base": _chunks,
    "detached twin": _detached_twin,
    "the same twice": lambda x, y: (x.reshape(-1) * 2,) * 2,
    "no_grad view": _no_grad_view,
    "written intermediate": _written_intermediate,
    "gradless": _gradless,
    "integers and numbers": lambda x, y: ((x.reshape(-1) * 2).argmax(), None, 7, x.mean()),
}

# A result that is made before the write.
EARLY_VIEW = "a view from before"


def program(mutation: str, result: str) -> Callable[[Tensor, Tensor], Any]:
    def fn(x: Tensor, y: Tensor) -> Any:
        if result == EARLY_VIEW:
            v, w = x[0], x.detach()
            MUTATIONS[mutation](x, y)
            return v, w, y * 2
        MUTATIONS[mutation](x, y)
        return RESULTS[result](x, y)

    return fn


# --- how it is called ---

GRADS = ("no grad", "leaves", "history", "views with history", "x only", "y only")
RELATIONS = ("separate", "same", "y is a view of x", "x is a view of y", "overlapping", "disjoint", "y is x detached")


def arguments(relation: str, grad: str) -> tuple[list[Tensor], list[Tensor]]:
    """The two arguments, and every tensor whose state a caller can see beside them: leaves first."""
    leaf = torch.arange(24.0).reshape(4, 6) / 7 + 0.3
    other = torch.arange(24.0).reshape(4, 6).cos()
    leaf.requires_grad_(grad not in ("no grad", "y only"))
    other.requires_grad_(grad not in ("no grad", "x only"))
    roots = [leaf, other]
    if grad == "leaves":
        base, second = leaf, other
    elif grad == "views with history":
        base, second = (leaf * 1.5).view(6, 4).t(), (other * 1.25).unbind(0)[0].expand(4, 6)
        second = (other * 1.25)[:]
    else:
        base = leaf * 1.5 if leaf.requires_grad else leaf
        second = other * 1.25 if other.requires_grad else other
    match relation:
        case "separate":
            x, y = base[:2, :3] if grad.startswith("views") else _crop(base), _crop(second)
        case "same":
            x = y = _crop(base)
        case "y is a view of x":
            x = _crop(base)
            y = x.t()
        case "x is a view of y":
            y = _crop(base)
            x = y.view(3, 2) if y.is_contiguous() else y.t()
        case "overlapping":
            x, y = base[:2, :3], base[1:3, :3]
        case "disjoint":
            x, y = base[:2, :3], base[2:4, :3]
        case _:
            x = _crop(base)
            y = x.detach()
    return [x, y], [*roots, base, second]


def _crop(t: Tensor) -> Tensor:
    if t.is_leaf and t.requires_grad:
        return t.detach()[:2, :3].clone().requires_grad_()
    return t[:2, :3] * 1 if t.requires_grad else t[:2, :3].clone()


MODES: dict[str, Callable[[], Any]] = {
    "grad": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}


# --- what can be seen of it ---


def _version(t: Tensor) -> int | None:
    return None if t.is_inference() else t._version


def _is_leaf(t: Tensor) -> Any:
    try:
        return t.is_leaf
    except RuntimeError as error:  # a view that autograd cannot follow
        return _error(error)


def _look(tensors: list[Tensor]) -> list[Any]:
    """What each of them is, and what they are to each other."""
    memories = [t.untyped_storage().data_ptr() for t in tensors]
    seen = []
    for t, memory in zip(tensors, memories, strict=True):
        base = None if t._base is None else [t._base is other for other in tensors]
        flags = (t.requires_grad, _is_leaf(t), t._is_view(), t.is_inference(), _version(t), t.dtype)
        same = [t is other for other in tensors]
        shared = [memory == other for other in memories]
        seen.append((flags, tuple(t.shape), t.stride(), t.storage_offset(), base, same, shared, t.detach().tolist()))
    return seen


def _error(error: Exception) -> tuple[str, str]:
    text = str(error).split("\n")[0]
    if " has been modified by an inplace operation: " in text:
        text = text.split(":")[0]  # of several, another may be named first
    return type(error).__name__, re.sub(r"\w*Backward\w*", "Backward", text)


def _gradients(tensors: list[Tensor], leaves: list[Tensor]) -> Any:
    used = [t for t in tensors if t.requires_grad and t.is_floating_point()]
    wanted = [t for t in leaves if t.requires_grad]
    if not used or not wanted:
        return None
    with torch.enable_grad():
        try:
            loss = sum((t * (i + 1.5)).square().sum() for i, t in enumerate(used))
            found = torch.autograd.grad(loss, wanted, allow_unused=True, retain_graph=True)
        except RuntimeError as error:
            return _error(error)
    return [None if g is None else g.tolist() for g in found]


def _flat(result: Any) -> tuple[list[Tensor], list[Any]]:
    items = list(result) if isinstance(result, (tuple, list)) else [result]
    return [t for t in items if isinstance(t, Tensor)], [None if isinstance(t, Tensor) else t for t in items]


AFTER_WRITES = "gradients after the writes"


def outcome(fn: Callable[..., Any], relation: str, grad: str, mode: str) -> Iterator[tuple[str, Any]]:
    """Everything a caller can see, step by step."""
    given, around = arguments(relation, grad)
    leaves = [*around[:2], *[t for t in given if t.is_leaf and t.requires_grad]]
    try:
        with MODES[mode]():
            result = fn(*given)
    except RuntimeError as error:
        yield "error", _error(error)
        yield "state after the error", _look([*given, *around])
        return
    outputs, rest = _flat(result)
    everything = [*outputs, *given, *around]
    yield "results that are no tensors", (type(result).__name__, rest)
    yield "state", _look(everything)
    yield "gradients", _gradients([*outputs, *given], leaves)
    yield "a gradient of each", [_gradients([t], leaves) for t in outputs]
    for what, tensors in (("result", outputs), ("argument", given)):
        for i, tensor in enumerate(tensors):
            if not tensor.is_floating_point():
                continue
            try:
                tensor.mul_(2)
            except RuntimeError as error:
                yield f"error of a write to {what} {i}", _error(error)
            yield f"state after a write to {what} {i}", _look(everything)
        yield f"{AFTER_WRITES} to {what}s", _gradients([*outputs, *given], leaves)
        # Only what is on the way from one to the other is checked for writes.
        single = [_gradients([t], [leaf]) for t in outputs for leaf in leaves]
        yield f"{AFTER_WRITES} to {what}s, of each in each", single
