"""How long calls take, for ``saker.explain``: eager mode against replays, and operator by operator."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from saker import _C

# Without being asked, explain measures only what is over soon.
_UNASKED_REPEATS = 5
_LONGEST_FIRST_CALL = 2.0
_MOST_SECONDS = 0.5


@dataclasses.dataclass
class OperatorTime:
    """All calls of one operator in the recorded graph: how often, and how long together."""

    name: str
    count: int
    seconds: float


@dataclasses.dataclass
class Timing:
    """Seconds of one call, the median of ``repeats``: of the function itself and of a replay."""

    eager: float
    replay: float | None  # None: calls run eagerly
    repeats: int
    operators: list[OperatorTime]  # the slowest first; empty where the graph could not be run by itself

    @property
    def told(self) -> str:
        """How it was measured."""
        return "measured once" if self.repeats == 1 else f"the median of {self.repeats}"

    @property
    def speedup(self) -> float | None:
        """How many times faster a replay is than the function itself."""
        return self.eager / self.replay if self.replay else None


@contextlib.contextmanager
def _generators_kept() -> Iterator[None]:
    """Random generators of PyTorch are afterwards what they were."""
    state = torch.random.get_rng_state()
    cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
    devices = torch.cuda.get_rng_state_all() if cuda else []
    try:
        yield
    finally:
        torch.random.set_rng_state(state)
        if cuda:
            torch.cuda.set_rng_state_all(devices)


def _wait() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _median(call: Callable[[], Any], repeats: int, most: float | None) -> tuple[float, int]:
    """The time of a call, and how many were measured; there was one more."""
    call()  # what is prepared at the first run is no part of it
    times: list[float] = []
    while len(times) < repeats and (most is None or not times or sum(times) < most):
        _wait()
        start = time.perf_counter()
        call()
        _wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times), len(times)


def _replay(call: Callable[[], Any], repeats: int, most: float | None) -> float:
    """The same of a compiled function; ``saker.stats()`` counts what the program does, and not these calls."""
    before = _C.frontend_counts()["replays"]
    seconds, times = _median(call, repeats, most)
    _C.uncount_replays(min(times + 1, _C.frontend_counts()["replays"] - before))
    return seconds


def _operators(inner: Any, args: tuple, kwargs: dict[str, Any], repeats: int) -> list[OperatorTime]:
    try:
        rows = _C.time_operators(inner, args, kwargs, repeats)
    except (ValueError, RuntimeError):  # what it was recorded for has changed, or it cannot run so
        return []
    seconds: collections.Counter[str] = collections.Counter()
    counts: collections.Counter[str] = collections.Counter()
    for name, _, _, took in rows:
        seconds[name] += took
        counts[name] += 1
    return [OperatorTime(name, counts[name], took) for name, took in seconds.most_common()]


def why_not(repeat: int | None, versions: list[dict[str, Any]], first: float) -> str:
    """Why nothing is measured; empty where it is."""
    if repeat is not None:
        return "" if repeat else "repeat=0 asks for no measurement"
    ask = "explain(fn, repeat=5) calls it again all the same"
    if not any(version["program"] and not version["eager"] for version in versions):
        return f"the call is not replayed; {ask}"
    if not all(version["pure"] for version in versions):
        return f"a second call would change what the first one left, or runs code that might; {ask}"
    return f"the first call took {first:.1f} s; {ask}" if first > _LONGEST_FIRST_CALL else ""


def measure(
    fn: Callable, compiled: Callable, inner: Any, call: tuple[tuple, dict[str, Any]], repeat: int | None
) -> Timing:
    """Calls both, as often as ``repeat`` says; each once more before, unmeasured."""
    args, kwargs = call
    versions = _C.compiled_versions(inner)
    replayed = any(version["program"] and not version["eager"] for version in versions)
    pure = replayed and all(version["pure"] for version in versions)
    repeats, most = (repeat, None) if repeat else (_UNASKED_REPEATS, _MOST_SECONDS)
    with _generators_kept():
        eager, times = _median(lambda: fn(*args, **kwargs), repeats, most)
        replay = _replay(lambda: compiled(*args, **kwargs), repeats, most) if replayed else None
        operators = _operators(inner, args, kwargs, min(repeats, 3)) if pure else []
    return Timing(eager, replay, times, operators)
