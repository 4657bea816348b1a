"""``flex_attention`` inside of recordings: rows of queries, some at a time, as a ``map`` whose function has a graph.

With a block mask these are rows of blocks, and columns that they do not see are skipped (``_flex_blocks``). Scores
exist for one group of rows only, forward and backward: a backward computes them again. PyTorch's own implementation
starts its compiler, keeps all scores, and has no backward on CPUs.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from saker import _C, _flex_blocks
from saker._flex_scores import Attention, Triple, like

_SCORES = 2**20  # that exist at a time
_FEWEST_ROWS = 16
_MODULE = "torch.nn.attention.flex_attention"


def attend(call: Callable, record: Callable | None, *arguments: Any) -> Triple:
    """The operator ``flex_attention``; ``call`` calls others, and ``record`` records them as nodes, or raises.

    Without ``record`` the lists of a block mask are not followed.
    """
    device = arguments[0].device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        arguments = (*(tensor.to(dtype) for tensor in arguments[:3]), *arguments[3:])
        with torch.autocast(device, enabled=False):
            return attend(call, record, *arguments)
    attention = Attention(arguments)
    if record is not None and _flex_blocks.is_for(attention):
        steps = -(-attention.length // _rows_at_once(attention))
        result, sums, largest = _flex_blocks.attend(record, attention, 4 * _SCORES, steps)
    else:
        result, sums, largest = _by_rows(call, attention)
    return like(result, attention.query), sums, largest


def _rows_at_once(attention: Attention) -> int:
    return max(_FEWEST_ROWS, _SCORES // max(1, attention.batch * attention.heads * attention.width))


def _by_rows(call: Callable, attention: Attention) -> Triple:
    """All columns, of some rows at a time."""
    query, length = attention.query, attention.length
    others = [attention.arange(size) for size in (attention.batch, attention.heads)]
    columns = attention.arange(attention.width)

    def rows(query: torch.Tensor, numbers: torch.Tensor) -> Triple:
        return attention.rows(query, attention.key, attention.value, (*others, numbers, columns))

    count = _rows_at_once(attention)
    if length <= count:
        return rows(query, attention.arange(length))
    groups = -(-length // count)
    # The last group is filled with rows that are there already.
    padded = attention.arange(groups * count).clamp(max=length - 1)
    taken = query.index_select(2, padded).unflatten(2, (groups, count)).movedim(2, 0)
    results = call("map_impl", rows, [taken, padded.unflatten(0, (groups, count))], ())
    return tuple(each.movedim(0, 2).flatten(2, 3)[:, :, :length] for each in results)


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
