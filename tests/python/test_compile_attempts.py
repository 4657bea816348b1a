"""Recording with stand-ins for sizes that change is an attempt: whatever comes of it, the world is as before.

Each program does something that would keep a part of the attempt, or leave something changed when the attempt is given
up. It is called with changing sizes, compiled and eagerly, and everything that can be seen must be the same.
"""

from __future__ import annotations

import functools
import gc
import importlib
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as fwAD
from torch import nn

import saker
from attempt_programs import PROGRAMS
from differential import same


def dead_tensors() -> list[torch.Tensor]:
    """Tensors without data that somebody can still reach. PyTorch's own compiler leaves fake ones."""
    gc.collect()
    found = []
    for each in gc.get_objects():
        if not issubclass(type(each), torch.Tensor) or type(each).__name__ == "FakeTensor":
            continue
        if each.layout is torch.strided and not each.is_meta:
            try:
                torch.Tensor.data_ptr(each)
            except RuntimeError:
                found.append(each)
    return found


@pytest.fixture(autouse=True)
def nothing_dead_is_left() -> Iterator[None]:
    before = dead_tensors()  # of other tests, which keep some on purpose
    yield
    assert not [each for each in dead_tensors() if not any(each is known for known in before)]


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
        out, err = capfd.readouterr()
        notices = [line for line in err.splitlines() if line.startswith("saker: ") and " runs eagerly: " in line]
        assert len(notices) <= 1  # of the program itself, not of its attempts
        outcomes.append((seen, (out, [line for line in err.splitlines() if line not in notices])))
    results = [[part for part in seen if not isinstance(part, dict)] for seen, _ in outcomes]
    same(results[1], results[0])
    for eager, compiled in zip(outcomes[0][0], outcomes[1][0], strict=True):
        if isinstance(eager, dict) and "grad" in eager:
            assert eager == compiled
    assert outcomes[0][1] == outcomes[1][1]


def test_autocast_around_the_call() -> None:
    """Weights that an attempt casts do not stay in the cache of the region around it."""
    layer = nn.Linear(3, 3)
    compiled = saker.compile(lambda x: layer(x) * x.shape[0])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for size in (4, 5, 6, 7):
            x = torch.randn(size, 3)
            same(compiled(x), layer(x) * x.shape[0])
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


def test_types_that_typing_keeps_are_asked_for() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return typing.cast(typing.Union[torch.Tensor, nn.Module], x) * x.shape[0]  # noqa: UP007

    function(torch.ones(1))
    before = saker.stats()
    compiled = saker.compile(function)
    for size in range(2, 14):
        x = torch.randn(size, 3)
        same(compiled(x), function(x))
    assert saker.stats()["replays"] - before["replays"] == 10


@pytest.mark.parametrize("dynamic", [None, True])
def test_coroutines_are_not_left_behind(dynamic: bool | None) -> None:
    """One that an attempt made and never awaited would be warned about."""

    async def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def function(x: torch.Tensor, n: int) -> torch.Tensor:
        made = double(x)
        text = str(n)  # shows that a number is a symbol
        try:
            made.send(None)
        except StopIteration as ended:
            return ended.value * n + len(text)
        raise AssertionError

    compiled = saker.compile(function, dynamic=dynamic)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for size in (2, 3, 4, 5):
            x = torch.randn(size, 3)
            same(compiled(x, size), function(x, size))
            gc.collect()
    assert not [str(each.message) for each in told]
