"""Small things of PyTorch and of the standard library that a compiled function may use and is still captured whole."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import saker

X = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
PATTERN = re.compile(r"(\w+)_(\d+)")
CONFIG: dict[str, Any] = {"a": [1, 2.5, None, True], "b": {"c": "d"}}
KINDS = int | str
LOCK = threading.Lock()
RLOCK = threading.RLock()
CONDITION = threading.Condition()
LOG = logging.getLogger("saker.tests.library")
NAME = "layer_12"


def second(x: torch.Tensor) -> Any:
    return x.max(1)[1], x.topk(2)[0], x.sort()[1]


def unpacked(x: torch.Tensor) -> Any:
    values, places = x.max(1)
    return values + 1, places


def by_name(x: torch.Tensor) -> Any:
    found = x.topk(2)
    return found.values * 2, found.indices, len(found), found[0]


def returned(x: torch.Tensor) -> Any:
    return x.max(1)


def routed(x: torch.Tensor) -> torch.Tensor:
    scores = x.softmax(-1)
    chosen = scores.topk(2)[1]
    return scores.gather(1, chosen) / scores.gather(1, chosen).sum(-1, keepdim=True)


def union(x: torch.Tensor) -> Any:
    return x * 2, isinstance(3, KINDS), isinstance(2.5, int | str), isinstance(x, torch.Tensor | None)


def locked(x: torch.Tensor) -> torch.Tensor:
    with LOCK:
        x = x + 1
    with RLOCK, RLOCK:
        return x * 2


def under_a_condition(x: torch.Tensor) -> torch.Tensor:
    with CONDITION:
        return x * 2


def own_lock(x: torch.Tensor) -> torch.Tensor:
    lock, again = threading.Lock(), threading.RLock()
    with lock, again:
        return x * 3


def matched(x: torch.Tensor) -> Any:
    match = PATTERN.match(NAME)
    found = re.search("[0-9]+", NAME)
    assert match and found
    return x * int(match.group(2)), match[1], found.group(), re.sub("_", "-", NAME), PATTERN.pattern


def with_json(x: torch.Tensor) -> Any:
    return x * 2, json.dumps(CONFIG), json.loads('{"k": [1, 2]}'), json.loads(json.dumps(CONFIG, indent=1))


def logged(x: torch.Tensor) -> torch.Tensor:
    LOG.debug("shape %s", x.shape)
    if LOG.isEnabledFor(logging.DEBUG):
        return x - 1
    return x + 1


def printed(x: torch.Tensor) -> torch.Tensor:
    print(x.shape, x.dtype, [1, (2, "a")], {"k": None}, type(x))
    print("sizes:", tuple(x.shape), sep="-", end="!")
    return x * 2


def item_of_a_literal(x: torch.Tensor) -> torch.Tensor:
    return x * torch.tensor(3).item()


def generator_of_pytorch(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return x + torch.rand(3, generator=generator)


def distribution(x: torch.Tensor) -> torch.Tensor:
    normal = torch.distributions.Normal(x, torch.ones_like(x), validate_args=False)
    return normal.log_prob(x + 1) + normal.entropy()


def kept_parameter(x: torch.Tensor) -> torch.Tensor:
    weight = nn.Parameter(torch.ones(3, 3), requires_grad=False)
    return nn.functional.linear(x, weight)


PROGRAMS = [
    second, unpacked, by_name, returned, routed, union, locked, under_a_condition, own_lock, matched, with_json, logged,
    printed, item_of_a_literal, distribution,
]  # fmt: skip


def outcome(fn: Callable, *args: Any) -> Any:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = fn(*args)
    return repr(result), type(result), out.getvalue()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("backend", ["aten", "eager"])
def test_is_captured(program: Callable, backend: str) -> None:
    compiled = saker.compile(program, backend=backend)
    for x in (X, X, X + 1, X.flip(1)):
        assert outcome(program, x) == outcome(compiled, x)
    before = saker.stats()["replays"]
    assert outcome(program, X * 2) == outcome(compiled, X * 2)
    assert saker.stats()["replays"] == before + 1, saker._C.compiled_reports(compiled)[-1]


def test_a_generator_of_pytorch_is_an_argument() -> None:
    mine, theirs = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    compiled = saker.compile(generator_of_pytorch, backend="eager", fullgraph=True)
    for _ in range(3):
        assert torch.equal(generator_of_pytorch(X, mine), compiled(X, theirs))


@pytest.mark.parametrize(
    ("program", "name", "value"),
    [
        (matched, "NAME", "block_3"),
        (matched, "PATTERN", re.compile(r"(\w)\w*_(\d)")),
        (with_json, "CONFIG", {"z": 1}),
        (union, "KINDS", str | float),
    ],
)
def test_other_values_are_noticed(program: Callable, name: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = saker.compile(program, backend="eager")
    for _ in range(3):
        assert outcome(program, X) == outcome(compiled, X)
    monkeypatch.setitem(globals(), name, value)
    for _ in range(3):
        assert outcome(program, X) == outcome(compiled, X)


def test_the_level_of_a_logger() -> None:
    compiled = saker.compile(logged, backend="eager")
    emitted: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: emitted.append(record.getMessage())  # type: ignore[method-assign]
    LOG.addHandler(handler)
    LOG.propagate = False
    try:
        for level in (logging.INFO, logging.DEBUG, logging.INFO):
            LOG.setLevel(level)
            for _ in range(3):
                emitted.clear()
                expected, told = outcome(logged, X), list(emitted)
                emitted.clear()
                assert (outcome(compiled, X), emitted) == (expected, told)
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(logging.NOTSET)


def test_a_lock_that_another_thread_has() -> None:
    """The call waits, as in eager mode."""
    state = {"count": 0}
    lock = threading.Lock()

    def program(x: torch.Tensor) -> torch.Tensor:
        with lock:
            return x * state["count"]

    compiled = saker.compile(program, backend="eager")
    for _ in range(3):
        compiled(X)
    assert not lock.locked()
    results = []
    with lock:
        thread = threading.Thread(target=lambda: results.append(compiled(X)))
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
        state["count"] = 4
    thread.join()
    assert torch.equal(results[0], X * 4)
    assert not lock.locked()


def test_counting_under_a_lock() -> None:
    """Replays of several threads lose no count."""
    lock = threading.Lock()
    box = {"n": 0}

    def program(x: torch.Tensor) -> torch.Tensor:
        with lock:
            box["n"] = box["n"] + 1
        return x * 2

    compiled = saker.compile(program, backend="eager")

    def work() -> None:
        for _ in range(50):
            compiled(X)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert box["n"] == 200


def test_a_lock_that_stays_taken() -> None:
    lock = threading.Lock()

    def program(x: torch.Tensor) -> torch.Tensor:
        lock.acquire()
        return x * 2

    compiled = saker.compile(program, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(X), X * 2)
        assert lock.locked()
        lock.release()
