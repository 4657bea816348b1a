"""``flex_attention`` inside of recordings: rows of queries, some at a time, as a ``map`` whose function has a graph.

Scores exist for one group of rows only, forward and backward: a backward computes them again. PyTorch's own
implementation starts its compiler, keeps all scores, and has no backward on CPUs.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from saker import _C

_SCORES = 2**20  # that exist at a time
_FEWEST_ROWS = 16
_MODULE = "torch.nn.attention.flex_attention"


class _IndexByTensors(TorchFunctionMode):
    """``buffer[head, row]`` reads by tensors, and asks none of them for its number."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__getitem__:
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(i, torch.Tensor) for i in index) and all(
                isinstance(i, (torch.Tensor, int)) and not isinstance(i, bool) for i in index
            ):
                places = [i if isinstance(i, torch.Tensor) else torch.tensor(i) for i in index]
                return torch.ops.aten.index(args[0], places)
        return func(*args, **(kwargs or {}))


def _for_all(function: Callable, first: Sequence[int | None], buffers: int) -> Callable:
    """A function of numbers (batch, head, row, column) for all of these, the last one innermost."""
    for place in (3, 2, 1, 0):
        dims = [None] * 4
        dims[place] = 0
        function = torch.vmap(function, in_dims=(*first, *dims, *[None] * buffers))
    return function


class _Attention:
    """What is the same for all groups of rows."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        query, key, value, score_mod, block_mask, scale, _options, *buffers = arguments
        self.score_buffers, self.mask_buffers = (*buffers, (), ())[:2]
        groups = query.size(1) // key.size(1)
        batch = query.size(0)
        self.key, self.value = (
            tensor.repeat_interleave(groups, 1).expand(batch, -1, -1, -1) for tensor in (key, value)
        )
        self.scale, self.precision = scale, torch.float64 if query.dtype is torch.float64 else torch.float32
        self.score_mod = _for_all(score_mod, (0,), len(self.score_buffers))
        self.mask_mod = _for_all(block_mask[-1], (), len(self.mask_buffers))
        self.batches, self.heads, self.columns = (
            torch.arange(size, device=query.device) for size in (batch, query.size(1), key.size(2))
        )

    def rows(self, query: torch.Tensor, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Results, logarithms of sums and largest scores of these rows."""
        places = (self.batches, self.heads, numbers, self.columns)
        scores = query.to(self.precision) @ self.key.to(self.precision).transpose(-2, -1) * self.scale
        with _IndexByTensors():
            seen = self.mask_mod(*places, *self.mask_buffers)
            scores = self.score_mod(scores, *places, *self.score_buffers)
        scores = torch.where(seen, scores, -math.inf)
        blind = (scores == -math.inf).all(-1)
        sums = torch.where(blind, -math.inf, torch.where(blind.unsqueeze(-1), 0.0, scores).logsumexp(-1))
        largest = scores.amax(-1)
        weights = torch._safe_softmax(scores, -1).to(query.dtype)
        # PyTorch's operators give logarithms of base 2.
        return weights @ self.value.to(query.dtype), sums / math.log(2), largest / math.log(2)


def _like(result: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """In the order of dimensions that the query has in memory."""
    order = sorted(range(4), key=query.stride, reverse=True)
    return result.permute(order).contiguous().permute([order.index(dim) for dim in range(4)])


def attend(call: Callable, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The operator ``flex_attention``; ``call`` calls others."""
    if torch.is_autocast_enabled(arguments[0].device.type):
        dtype = torch.get_autocast_dtype(arguments[0].device.type)
        arguments = (*(tensor.to(dtype) for tensor in arguments[:3]), *arguments[3:])
        with torch.autocast(arguments[0].device.type, enabled=False):
            return attend(call, *arguments)
    query, key = arguments[:2]
    batch, heads, length, _ = query.shape
    attention = _Attention(arguments)
    numbers = torch.arange(length, device=query.device)
    count = max(_FEWEST_ROWS, _SCORES // max(1, batch * heads * key.size(2)))
    if length <= count:
        result, sums, largest = attention.rows(query, numbers)
        return _like(result, query), sums, largest
    groups = -(-length // count)
    # The last group is filled with rows that are there already.
    padded = torch.arange(groups * count, device=query.device).clamp(max=length - 1)
    rows = query.index_select(2, padded).unflatten(2, (groups, count)).movedim(2, 0)
    results = call("map_impl", attention.rows, [rows, padded.unflatten(0, (groups, count))], ())
    result, sums, largest = (each.movedim(0, 2).flatten(2, 3)[:, :, :length] for each in results)
    return _like(result, query), sums, largest


# --- the door: PyTorch's function of the same name calls its operator, and no compiler, inside of recordings ---


class _Or:
    """A switch that is also on inside of recordings."""

    def __init__(self, switch: object) -> None:
        self.switch = switch

    def __bool__(self) -> bool:
        return bool(self.switch) or _C.is_engaged()


def _open(module: ModuleType) -> None:
    check, environment = module._validate_device, module.setup_compilation_env

    def checked(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if not (_C.is_engaged() and query.device.type == "cpu"):
            check(query, key, value)

    @contextlib.contextmanager
    def environment_or_none() -> Iterator[Any]:
        if _C.is_engaged():
            yield None
        else:
            with environment() as backend:
                yield backend

    module._validate_device, module.setup_compilation_env = checked, environment_or_none
    module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = _Or(module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG)


class _WhenLoaded(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_open(module: ModuleType) -> None:
                load(module)
                _open(module)

            spec.loader.exec_module = load_and_open
        return spec


def install() -> None:
    if _MODULE in sys.modules:
        _open(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _WhenLoaded())
