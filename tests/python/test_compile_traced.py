"""While a tracer, a profiler or a monitor is told about calls, a compiled function is the function itself."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import saker

X = torch.tensor([1.0, 2.0])


def helper(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def program(x: torch.Tensor) -> torch.Tensor:
    return helper(x) + 1


@contextmanager
def traced(seen: list[str]) -> Iterator[None]:
    def trace(frame: Any, event: str, arg: Any) -> Any:
        if event == "call":
            seen.append(frame.f_code.co_name)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def profiled(seen: list[str]) -> Iterator[None]:
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, arg: seen.append(frame.f_code.co_name) if event == "call" else None)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextmanager
def monitored(seen: list[str]) -> Iterator[None]:
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    tool, event = monitoring.PROFILER_ID, monitoring.events.PY_START
    monitoring.use_tool_id(tool, "test")
    monitoring.register_callback(tool, event, lambda code, offset: seen.append(code.co_name))
    monitoring.set_local_events(tool, helper.__code__, event)
    try:
        yield
    finally:
        monitoring.set_local_events(tool, helper.__code__, 0)
        monitoring.free_tool_id(tool)


WAYS = [traced, profiled] + ([monitored] if hasattr(sys, "monitoring") else [])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("backend", ["aten", "eager"])
def test_calls_are_seen(way: Callable, backend: str) -> None:
    compiled = saker.compile(program, backend=backend)
    for _ in range(2):
        compiled(X)
    stats = saker.stats()
    seen: list[str] = []
    with way(seen):
        for _ in range(2):
            assert torch.equal(compiled(X), program(X))
    assert seen.count("helper") == 4
    assert saker.stats()["replays"] == stats["replays"]
    assert saker.stats()["recompiles"] == stats["recompiles"]
    # What was recorded before still holds.
    assert torch.equal(compiled(X), program(X))
    assert saker.stats()["replays"] == stats["replays"] + 1


@pytest.mark.parametrize("way", WAYS)
def test_a_first_call_under_a_tracer_is_not_the_last_word(way: Callable) -> None:
    compiled = saker.compile(program, backend="eager")
    with way([]):
        assert torch.equal(compiled(X), program(X))
    compiled(X)
    before = saker.stats()["replays"]
    assert torch.equal(compiled(X), program(X))
    assert saker.stats()["replays"] == before + 1


def test_a_tracer_of_another_thread_changes_nothing() -> None:
    compiled = saker.compile(program, backend="eager")
    for _ in range(2):
        compiled(X)
    ready, done = threading.Event(), threading.Event()

    def other() -> None:
        with traced([]):
            ready.set()
            done.wait()

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    try:
        before = saker.stats()["replays"]
        assert torch.equal(compiled(X), program(X))
        assert saker.stats()["replays"] == before + 1
        fresh = saker.compile(lambda x: program(x) + 1, backend="eager")
        for _ in range(2):
            assert torch.equal(fresh(X), program(X) + 1)
        assert saker.stats()["replays"] == before + 2
    finally:
        done.set()
        thread.join()
