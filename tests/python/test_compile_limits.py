"""Where watching ends in the middle of a call: little C stack, tracing. The program goes on as in eager mode, once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import saker

calls: list[int] = []


def down(x: torch.Tensor, depth: int) -> torch.Tensor:
    return x + 1 if depth == 0 else down(x, depth - 1) * 1.0


def deep(x: torch.Tensor) -> torch.Tensor:
    calls.append(len(x))
    return down(x, 900).sin()


def handled(x: torch.Tensor) -> torch.Tensor:
    try:
        calls.append(len(x))
        return down(x, 900).sin()
    except Exception:
        calls.append(-1)
        raise


def in_a_small_thread(function: Callable[[], Any]) -> Any:
    """Runs it where half a megabyte of C stack is all there is."""
    found: list[Any] = []
    before = threading.stack_size(512 << 10)
    try:
        thread = threading.Thread(target=lambda: found.append(function()))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    return found[0]


def outcome(function: Callable, sizes: tuple[int, ...]) -> list[Any]:
    calls.clear()
    found = []
    for size in sizes:
        try:
            found.append(function(torch.ones(size)).tolist())
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return [found, list(calls)]


@pytest.mark.parametrize("function", [deep, handled])
@pytest.mark.parametrize("how", [{}, {"dynamic": True}], ids=str)
def test_a_deep_call_is_that_of_eager_mode(function: Callable, how: dict[str, Any]) -> None:
    compiled = saker.compile(function, **how)
    sizes = (2, 3, 4, 4, 5)
    assert in_a_small_thread(lambda: outcome(compiled, sizes)) == outcome(function, sizes)


def test_a_deep_call_that_must_be_captured_whole() -> None:
    compiled = saker.compile(deep, fullgraph=True)
    (found,), _ = in_a_small_thread(lambda: outcome(compiled, (2,)))
    assert found.startswith("CaptureError") and "the C stack is nearly used up" in found
    assert "test_compile_limits.py" in found


def test_tracing_ends_what_must_be_captured_whole() -> None:
    def traced(x: torch.Tensor) -> torch.Tensor:
        return down(x, 1)

    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        (found,), _ = outcome(saker.compile(traced, fullgraph=True), (2,))
        (result,), _ = outcome(saker.compile(traced), (2,))
    finally:
        sys.settrace(before)
    assert result == [2.0, 2.0]
    assert found == [2.0, 2.0] or "tracing or monitoring is on" in found


@pytest.mark.parametrize("write", ["out", "foreach"])
def test_a_checkpointed_function_that_writes(write: str) -> None:
    def run(compiling: Callable) -> list[Any]:
        buffer, found = torch.zeros(3), []

        def body(x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                if write == "out":
                    torch.add(buffer, 1, out=buffer)
                else:
                    torch._foreach_add_([buffer], 1.0)
            return x.sin() * 2

        function = compiling(lambda x: checkpoint(body, x, use_reentrant=False) * 3)
        for _ in range(3):
            x = torch.arange(3.0).requires_grad_()
            function(x).sum().backward()
            found.append((x.grad.tolist(), buffer.tolist()))
        return found

    assert run(saker.compile) == run(lambda function: function)
