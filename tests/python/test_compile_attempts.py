"""Recording with stand-ins for sizes that change is an attempt: whatever comes of it, the world is as before.

Each program does something that would keep a part of the attempt, or leave something changed when the attempt is given
up. It is called with changing sizes, compiled and eagerly, and everything that can be seen must be the same.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import importlib
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as fwAD
from torch import nn

import saker
from differential import same


def dead_tensors() -> list[torch.Tensor]:
    """Tensors without data that somebody can still reach."""
    gc.collect()
    found = []
    for each in gc.get_objects():
        if not issubclass(type(each), torch.Tensor):
            continue
        if each.layout is torch.strided and not each.is_meta:
            try:
                torch.Tensor.data_ptr(each)
            except RuntimeError:
                found.append(each)
    return found


def surroundings() -> dict[str, Any]:
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "autocast dtype": torch.get_autocast_dtype("cpu"),
        "autocast cache": torch.is_autocast_cache_enabled(),
        "default dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "modes": torch._C._len_torch_function_stack(),
        "sdp": [torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()],
        "sdp order": torch._C._get_sdp_priority_order(),
        "hook": sys.unraisablehook,
        "random": torch.get_rng_state().sum().item(),
        "compiling": torch.compiler.is_compiling(),
        "dual level": fwAD._current_level,
        "multithreading": torch.autograd._is_multithreading_enabled()
        if hasattr(torch.autograd, "_is_multithreading_enabled")
        else None,
        "hooks": torch._C._autograd._saved_tensors_hooks_get_disabled_error_message(),
    }


Make = Callable[[], tuple[Callable, Callable[[], Any]]]
PROGRAMS: dict[str, Make] = {}


def program(make: Make) -> Make:
    """`make` gives a function of a tensor and a function that tells the state that it may change."""
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


def buffer_changes(name: str, change: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
    def make() -> tuple:
        buffer = torch.arange(6.0).reshape(2, 3)

        def function(x: torch.Tensor) -> torch.Tensor:
            change(buffer, x)
            return x * x.shape[0] + buffer.sum()

        return function, lambda: (buffer, buffer._version, buffer.shape, buffer.stride(), buffer.requires_grad)

    PROGRAMS[name] = make


buffer_changes("buffer t_", lambda b, x: b.t_())
buffer_changes("buffer unsqueeze_", lambda b, x: b.unsqueeze_(0))
buffer_changes("buffer squeeze_", lambda b, x: b.squeeze_())
buffer_changes("buffer transpose_", lambda b, x: b.transpose_(0, 1))
buffer_changes("buffer add_", lambda b, x: b.add_(1))
buffer_changes("buffer copy_", lambda b, x: b.copy_(x[:2]))
buffer_changes("buffer as_strided_", lambda b, x: b.as_strided_((3,), (1,)))
buffer_changes("buffer set_", lambda b, x: b.set_(torch.ones(3)))
buffer_changes("buffer data", lambda b, x: setattr(b, "data", x[:2] * 1))
buffer_changes("buffer attribute", lambda b, x: setattr(b, "mark", x.sum()))
buffer_changes("buffer out", lambda b, x: torch.add(x, 1, out=b))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("default")
@pytest.mark.filterwarnings("ignore:.*resized.*")
def test_the_world_is_as_before(name: str, capfd: pytest.CaptureFixture) -> None:
    outcomes = []
    for compile_it in (False, True):
        torch.manual_seed(0)
        capfd.readouterr()
        function, state = PROGRAMS[name]()
        called = saker.compile(function) if compile_it else function
        seen: list[Any] = []
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for size in (4, 5, 6, 7, 5, 4):
                torch.manual_seed(size)
                seen.append(called(torch.randn(size, 3)))
                seen.append(surroundings())
        seen.append(state())
        seen.append([str(each.message) for each in told])
        seen.append(function(torch.ones(8, 3)))
        outcomes.append((seen, capfd.readouterr()))
    same([part for part in outcomes[1][0] if not isinstance(part, dict)], [p for p in outcomes[0][0] if not isinstance(p, dict)])
    for eager, compiled in zip(outcomes[0][0], outcomes[1][0], strict=True):
        if isinstance(eager, dict) and "grad" in eager:
            assert eager == compiled
    assert outcomes[0][1] == outcomes[1][1]
    assert not dead_tensors()


def test_autocast_around_the_call() -> None:
    """Weights that an attempt casts do not stay in the cache of the region around it."""
    layer = nn.Linear(3, 3)
    compiled = saker.compile(lambda x: layer(x) * x.shape[0])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for size in (4, 5, 6, 7):
            x = torch.randn(size, 3)
            same(compiled(x), layer(x) * x.shape[0])
            assert not dead_tensors()
            layer(x).sum().backward()


def test_a_module_that_is_loaded_in_the_call(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "saker_late_module.py").write_text("import torch\nTABLE = torch.arange(3.0)\n")
    (tmp_path / "saker_later_module.py").write_text("import torch\nTABLE = torch.arange(3.0) + 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def function(x: torch.Tensor, late: bool) -> torch.Tensor:
        if late and x.shape[0] > 4:
            import saker_late_module

            table = saker_late_module.TABLE
            if x.shape[0] > 5:
                table = importlib.import_module("saker_later_module").TABLE
            return x * table
        return x * 2

    compiled = saker.compile(function)
    for size in (3, 4, 5, 6, 7, 8, 6):
        x = torch.randn(size, 3)
        got = compiled(x, True)
        same(got, function(x, True))
    for name in ("saker_late_module", "saker_later_module"):
        assert isinstance(sys.modules[name], types.ModuleType)
        sys.modules[name].TABLE.tolist()
        del sys.modules[name]
    assert not dead_tensors()


def test_a_filled_cache_is_used() -> None:
    """Tables that were cached before are inputs of a recording for many sizes."""

    @functools.lru_cache
    def table(rows: int) -> torch.Tensor:
        return torch.arange(float(rows)).sin()

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * table(3) * x.shape[0]

    before = saker.stats()
    compiled = saker.compile(function)
    for size in range(2, 14):
        x = torch.randn(size, 3)
        same(compiled(x), function(x))
    assert saker.stats()["graphs"] - before["graphs"] == 2
    assert saker.stats()["replays"] - before["replays"] == 10
