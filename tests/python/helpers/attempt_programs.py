"""Programs that would keep a part of an attempt to record them: each a function of a tensor, and what it may change."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import functools
import random
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.autograd.forward_ad as fwAD
from torch import nn

PROGRAMS: dict[str, Callable[[], tuple]] = {}


def program(make: Callable[[], tuple]) -> Callable[[], tuple]:
    PROGRAMS[make.__name__] = make
    return make


@program
def cached_table() -> tuple:
    @functools.lru_cache
    def table(rows: int) -> torch.Tensor:
        return torch.arange(float(rows)).sin()

    return lambda x: x * table(3) + x.shape[0], lambda: table(3)


@program
def cached_by_the_size() -> tuple:
    @functools.cache
    def table(rows: int) -> torch.Tensor:
        return torch.arange(float(rows)).cos()

    return lambda x: x * table(x.shape[0])[:, None], lambda: [table(n) for n in range(2, 9)]


@program
def cached_method() -> tuple:
    class Rotary(nn.Module):
        @functools.lru_cache(maxsize=4)
        def table(self, width: int) -> torch.Tensor:
            return torch.outer(torch.arange(4.0), torch.arange(float(width)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.table(4).T[:3] * x.shape[0]

    model = Rotary()
    return model, lambda: model.table(4)


@program
def cached_with_keywords() -> tuple:
    @functools.lru_cache(typed=True)
    def table(*, rows: int, scale: float = 1.0) -> torch.Tensor:
        return torch.arange(float(rows)) * scale

    return lambda x: x * table(rows=3, scale=2.0), lambda: table(rows=3, scale=2.0)


@program
def cached_of_a_tensor() -> tuple:
    kept = []

    @functools.lru_cache
    def double(x: torch.Tensor) -> torch.Tensor:
        kept.append(1)
        return x * 2

    def function(x: torch.Tensor) -> torch.Tensor:
        return double(x) * x.shape[0]

    return function, lambda: len(kept)


@program
def cached_property() -> tuple:
    class Model(nn.Module):
        @functools.cached_property
        def table(self) -> torch.Tensor:
            return torch.arange(3.0).exp()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.table + x.shape[0]

    model = Model()
    return model, lambda: model.__dict__.get("table")


@program
def dict_cache() -> tuple:
    cache: dict[Any, torch.Tensor] = {}

    def function(x: torch.Tensor) -> torch.Tensor:
        if "table" not in cache:
            cache["table"] = torch.arange(3.0).exp()
        if x.shape[0] not in cache:
            cache[x.shape[0]] = torch.arange(float(x.shape[0]))
        return x * cache["table"] + cache[x.shape[0]][:, None]

    return function, lambda: cache


@program
def attribute_cache() -> tuple:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask: torch.Tensor | None = None
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.mask is None or self.mask.shape[0] < x.shape[0]:
                self.mask = torch.ones(2 * x.shape[0])
                self.register_buffer("late", torch.ones(x.shape[0]))
            self.steps.add_(1)
            return x * self.mask[: x.shape[0], None]

    model = Model()
    return model, lambda: (model.mask, dict(model.named_buffers()))


@program
def grad_mode_left() -> tuple:
    log: list[bool] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        torch.set_grad_enabled(False)
        log.append(torch.is_grad_enabled())
        torch.set_grad_enabled(True)
        return x * x.shape[0]

    return function, lambda: log


def entering(name: str, enter: Callable[[], contextlib.AbstractContextManager]) -> None:
    def make() -> tuple:
        log: list[int] = []

        def function(x: torch.Tensor) -> torch.Tensor:
            with enter():
                y = x * x.shape[0]
                log.append(1)  # refused, inside of what was entered
            return y + 1

        return function, lambda: log

    PROGRAMS[name] = make


entering("inside no_grad", torch.no_grad)
entering("inside inference_mode", torch.inference_mode)
entering("inside autocast", lambda: torch.autocast("cpu", dtype=torch.bfloat16))
entering("inside autocast without a cache", lambda: torch.autocast("cpu", cache_enabled=False))
entering("inside autocast of float16", lambda: torch.autocast("cpu", dtype=torch.float16))
entering("inside sdpa_kernel", lambda: nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH))
entering("inside dual_level", fwAD.dual_level)
entering("inside a device", lambda: torch.device("cpu"))
entering("inside disabled hooks", lambda: torch.autograd.graph.disable_saved_tensors_hooks("no"))
entering("inside catch_warnings", warnings.catch_warnings)
entering("inside suppress", lambda: contextlib.suppress(ZeroDivisionError))


@program
def vmap_inside() -> tuple:
    log: list[int] = []

    def inner(row: torch.Tensor) -> torch.Tensor:
        log.append(1)
        return row * 2

    return lambda x: torch.func.vmap(inner)(x) * x.shape[0], lambda: log


@program
def context_variable() -> tuple:
    variable: contextvars.ContextVar = contextvars.ContextVar("variable", default=None)
    log: list[int] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        token = variable.set(x * 2)
        log.append(x.shape[0])
        y = variable.get() + 1
        variable.reset(token)
        return y

    return function, lambda: (variable.get(), log)


@program
def finalizer() -> tuple:
    gone: list[int] = []

    class Noisy:
        def __init__(self, value: Any) -> None:
            self.value = value

        def __del__(self) -> None:
            gone.append(1)
            print("gone")

    def function(x: torch.Tensor) -> torch.Tensor:
        holder = Noisy(x * 2)
        return holder.value * x.shape[0]

    return function, lambda: len(gone)


@program
def generator_with_finally() -> tuple:
    log: list[str] = []

    def rows(x: torch.Tensor) -> Iterator:
        try:
            for i in range(3):
                yield x[i % 2] * 2
        finally:
            log.append("closed")

    def function(x: torch.Tensor) -> torch.Tensor:
        for row in rows(x):
            return row * x.shape[0]
        return x

    return function, lambda: log


@program
def generator_in_a_with() -> tuple:
    log: list[str] = []

    @contextlib.contextmanager
    def region() -> Iterator[None]:
        log.append("enter")
        try:
            yield
        finally:
            log.append("exit")

    def function(x: torch.Tensor) -> torch.Tensor:
        with region(), torch.no_grad():
            return x * x.shape[0]

    return function, lambda: log


@program
def exception_from_outside() -> tuple:
    error = ValueError("made before")

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        try:
            raise error
        except ValueError:
            y = y + x.shape[0]
        return y

    def frames() -> int:
        count, at = 0, error.__traceback__
        while at:
            count, at = count + 1, at.tb_next
        error.__traceback__ = None
        return count > 0

    return function, frames


@program
def class_made_inside() -> tuple:
    class Base:
        def __init_subclass__(cls) -> None:
            made.append(cls.__name__)

    made: list[str] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        class Sub(Base):
            value = x * 2

        return Sub.value * x.shape[0]

    return function, lambda: (made, len(Base.__subclasses__()) > 20)


@program
def generator_from_outside() -> tuple:
    steps = (i for i in range(1000))
    return lambda x: x * steps.send(None) + x.shape[0], lambda: next(steps)


@program
def thread_local() -> tuple:
    local = threading.local()
    local.calls = 0

    def function(x: torch.Tensor) -> torch.Tensor:
        local.last = x * 2
        local.calls = x.shape[0]
        return local.last + 1

    return function, lambda: (local.last, local.calls)


@program
def global_list() -> tuple:
    kept: list[torch.Tensor] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        kept.append(x.sum(0))
        return x * x.shape[0]

    return function, lambda: kept


@program
def warning() -> tuple:
    def function(x: torch.Tensor) -> torch.Tensor:
        warnings.warn("once", UserWarning, stacklevel=1)
        return x * x.shape[0]

    return function, lambda: None


@program
def ordered_cache() -> tuple:
    cache: collections.OrderedDict = collections.OrderedDict()

    def function(x: torch.Tensor) -> torch.Tensor:
        for key in ("a", x.shape[0]):
            if key not in cache:
                cache[key] = torch.arange(3.0)
            cache.move_to_end(key)
            if len(cache) > 3:
                cache.popitem(last=False)
        return x * cache["a"] if "a" in cache else x

    return function, lambda: list(cache.items())


@program
def weak_cache() -> tuple:
    cache: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
    owner = nn.Linear(1, 1)

    def function(x: torch.Tensor) -> torch.Tensor:
        if owner not in cache:
            cache[owner] = torch.arange(3.0)
        return x * cache[owner] * x.shape[0]

    return function, lambda: cache[owner]


@program
def class_attribute_cache() -> tuple:
    class Model(nn.Module):
        table: torch.Tensor | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if Model.table is None or len(Model.table) < x.shape[0]:
                Model.table = torch.arange(float(x.shape[0]))
            return x * Model.table[: x.shape[0], None]

    return Model(), lambda: Model.table


@program
def module_attribute_cache() -> tuple:
    module = types.ModuleType("holder")
    module.table = None  # type: ignore[attr-defined]

    def function(x: torch.Tensor) -> torch.Tensor:
        if module.table is None:  # type: ignore[attr-defined]
            module.table = torch.arange(3.0)  # type: ignore[attr-defined]
        module.last = x.sum(0)  # type: ignore[attr-defined]
        return x * module.table  # type: ignore[attr-defined]

    return function, lambda: (module.table, module.last)  # type: ignore[attr-defined]


@program
def function_attribute_cache() -> tuple:
    def function(x: torch.Tensor) -> torch.Tensor:
        function.calls = getattr(function, "calls", 0) + 1  # type: ignore[attr-defined]
        function.last = x.sum(0)  # type: ignore[attr-defined]
        return x * x.shape[0]

    return function, lambda: (function.calls, function.last)  # type: ignore[attr-defined]


@program
def mutable_default() -> tuple:
    def function(x: torch.Tensor, cache: dict = {}) -> torch.Tensor:  # noqa: B006
        cache.setdefault("table", torch.arange(3.0))
        cache["rows"] = x.shape[0]
        return x * cache["table"]

    return function, lambda: function.__defaults__


@program
def closure_cache() -> tuple:
    table = None

    def function(x: torch.Tensor) -> torch.Tensor:
        nonlocal table
        if table is None or len(table) < x.shape[0]:
            table = torch.arange(float(x.shape[0]))
        return x * table[: x.shape[0], None]

    return function, lambda: table


@program
def bare_except() -> tuple:
    class Holder:
        error: Any = None

    holder = Holder()

    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            holder.value = x * 2
            print("printed")
        except:  # noqa: E722
            holder.error = "an error"
        finally:
            holder.done = x.shape[0]
        return x * x.shape[0]

    return function, lambda: vars(holder)


@program
def exception_is_kept() -> tuple:
    class Holder:
        error: Any = None

    holder = Holder()

    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            print("printed")
            raise ValueError(x.shape[0])
        except Exception as error:
            holder.error = error
        return x * x.shape[0]

    return function, lambda: (type(holder.error), holder.error.args)


@program
def exit_stack() -> tuple:
    log: list[str] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.callback(lambda: log.append("callback"))
            y = x * x.shape[0]
            print("inside")
        return y

    return function, lambda: log


@program
def random_numbers() -> tuple:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * random.random() + torch.rand(3) + x.shape[0]

    random.seed(0)
    return function, lambda: (random.random(), torch.rand(1))


@program
def counters_and_refusals() -> tuple:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step, self.log = 2, []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.step += 1
            self.log.append(self.step)
            return x * self.step

    model = Model()
    return model, lambda: (model.step, type(model.step), model.log)
