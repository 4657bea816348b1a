"""Log records that a compiled function emits: replays emit them too, with what eager mode tells."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import saker
from differential import same

FORMAT = "%(name)s %(levelname)s %(levelno)d %(filename)s %(pathname)s %(lineno)d %(funcName)s %(module)s %(message)s"
LOG = logging.getLogger("saker.tests.logging")
CHILD = logging.getLogger("saker.tests.logging.child")
SCALE = 3


@pytest.fixture(autouse=True)
def stream() -> Iterator[io.StringIO]:
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter(FORMAT))
    LOG.addHandler(handler)
    LOG.propagate = False
    LOG.setLevel(logging.INFO)
    yield text
    LOG.handlers.clear()
    LOG.propagate = True
    LOG.setLevel(logging.NOTSET)


def alone() -> None:
    """pytest puts handlers of its own on loggers that do not propagate, once a test begins."""
    LOG.handlers[:] = [each for each in LOG.handlers if type(each) is logging.StreamHandler]


def message(x: torch.Tensor) -> torch.Tensor:
    LOG.info("called")
    return x * 2


def with_arguments(x: torch.Tensor) -> torch.Tensor:
    LOG.info("shape %s, %d of %.2f, %r", tuple(x.shape), x.dim(), 0.5, "text")
    return x * 2


def formatted(x: torch.Tensor) -> torch.Tensor:
    LOG.warning(f"sizes {list(x.shape)} and {x.dtype}")
    return x * 2


def below_the_level(x: torch.Tensor) -> torch.Tensor:
    LOG.debug("not told")
    LOG.error("told")
    return x * 2


def by_level(x: torch.Tensor) -> torch.Tensor:
    LOG.log(logging.CRITICAL, "level")
    LOG.log(35, "between")
    return x * 2


def from_a_child(x: torch.Tensor) -> torch.Tensor:
    CHILD.info("child")
    return x * 2


def deeper(x: torch.Tensor) -> torch.Tensor:
    def inner() -> None:
        LOG.info("inner")

    for _ in range(2):
        inner()
    return x * SCALE


def adapted(x: torch.Tensor) -> torch.Tensor:
    LOG.info("a")
    y = x * 2
    LOG.info("b")
    return y


PROGRAMS: list[Callable] = [
    message, with_arguments, formatted, below_the_level, by_level, from_a_child, deeper, adapted,
]  # fmt: skip


def told(stream: io.StringIO, fn: Callable, *args: Any) -> tuple[Any, str]:
    stream.seek(0)
    stream.truncate()
    return fn(*args), stream.getvalue()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_mode(stream: io.StringIO, program: Callable) -> None:
    alone()
    program(torch.ones(2))  # loggers remember what they are asked
    compiled = saker.compile(program, fullgraph=True)
    for step in range(4):
        x = torch.full((2,), float(step))
        before = saker.stats()["replays"]
        got = told(stream, compiled, x)
        assert (saker.stats()["replays"] > before) == (step > 0)
        expected = told(stream, program, x)
        assert expected[1]
        same(got, expected)


def test_the_first_call_ever(stream: io.StringIO) -> None:
    alone()
    for level in (logging.INFO, logging.ERROR, logging.INFO, logging.INFO):
        LOG.setLevel(level)  # forgets what was asked
        compiled = saker.compile(message)
        for _ in range(4):
            same(told(stream, compiled, torch.ones(2)), told(stream, message, torch.ones(2)))


def test_levels_and_handlers_that_change(stream: io.StringIO) -> None:
    alone()
    compiled = saker.compile(message)
    other = io.StringIO()
    second = logging.StreamHandler(other)

    def check() -> None:
        for _ in range(3):
            texts = []
            for fn in (message, compiled):
                other.seek(0)
                other.truncate()
                texts.append((told(stream, fn, torch.ones(2))[1], other.getvalue()))
            assert texts[0] == texts[1]

    check()
    LOG.setLevel(logging.ERROR)
    check()
    LOG.setLevel(logging.INFO)
    LOG.addHandler(second)
    check()
    second.setLevel(logging.ERROR)
    check()
    second.setLevel(logging.NOTSET)
    second.addFilter(lambda record: "x" in record.getMessage())
    check()
    LOG.removeHandler(second)
    LOG.disabled = True
    check()
    LOG.disabled = False
    logging.disable(logging.INFO)
    check()
    logging.disable(logging.NOTSET)
    check()


class Collects(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def test_a_handler_of_another_class_runs_eagerly(stream: io.StringIO) -> None:
    alone()
    collects = Collects()
    LOG.addHandler(collects)

    def program(x: torch.Tensor) -> Any:
        LOG.info("a %d", 3)
        return x * len(collects.records)

    compiled = saker.compile(program)
    before = saker.stats()["replays"]
    for count in range(1, 5):
        assert compiled(torch.ones(())).item() == count
    assert saker.stats()["replays"] == before
    first, last = collects.records[0], collects.records[-1]
    for name in ("msg", "args", "levelno", "name", "lineno", "funcName", "pathname"):
        assert getattr(first, name) == getattr(last, name)
    with pytest.raises(saker.CaptureError, match="logs to a handler"):
        saker.compile(program, fullgraph=True)(torch.ones(()))


@pytest.mark.parametrize("how", ["exc_info", "stack_info", "extra", "stacklevel", "tensor", "list"])
def test_other_ways_to_log_run_eagerly(stream: io.StringIO, how: str) -> None:
    alone()

    def program(x: torch.Tensor) -> torch.Tensor:
        if how == "exc_info":
            LOG.info("a", exc_info=True)
        elif how == "stack_info":
            LOG.info("a", stack_info=True)
        elif how == "extra":
            LOG.info("a", extra={"more": 1})
        elif how == "stacklevel":
            LOG.info("a", stacklevel=2)
        elif how == "tensor":
            LOG.info("%s", x)
        else:
            LOG.info("%s", [1, 2])
        return x * 2

    compiled = saker.compile(program)
    program(torch.ones(2))
    for step in range(3):
        x = torch.full((2,), float(step))
        results = [told(stream, fn, x) for fn in (compiled, program)]
        lines = [[line for line in text.splitlines() if 'File "' not in line] for _, text in results]
        same(results[0][0], results[1][0])
        assert lines[0][0] == lines[1][0]


def test_without_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    LOG.handlers.clear()

    def program(x: torch.Tensor) -> torch.Tensor:
        LOG.warning("last resort %d", 3)
        LOG.info("told nowhere")
        return x * 2

    program(torch.ones(2))
    compiled = saker.compile(program)
    for _ in range(4):
        texts = []
        for fn in (program, compiled):
            text = io.StringIO()
            monkeypatch.setattr(sys, "stderr", text)
            fn(torch.ones(2))
            texts.append(text.getvalue())
        assert texts[0] == texts[1] == "last resort 3\n"


def test_gradients_and_random_numbers(stream: io.StringIO) -> None:
    alone()

    def program(x: torch.Tensor) -> torch.Tensor:
        LOG.info("noise of %d", x.shape[0])
        return (x * torch.rand(2)).sum()

    program(torch.ones(2))
    compiled = saker.compile(program)
    for step in range(3):
        found = []
        for fn in (program, compiled):
            torch.manual_seed(step)
            x = torch.ones(2, requires_grad=True)
            result, text = told(stream, fn, x)
            result.backward()
            found.append((result.detach(), x.grad, text))
        same(found[1], found[0])


@pytest.mark.parametrize("part", ["handler", "logger", "stream"])
def test_methods_that_are_replaced_on_one_object(stream: io.StringIO, part: str) -> None:
    alone()
    seen: list[Any] = []

    def program(x: torch.Tensor) -> Any:
        LOG.info("a")
        return x * len(seen)

    handler = LOG.handlers[0]
    handler.setStream(io.StringIO())  # type: ignore[attr-defined]
    owner, name = {
        "handler": (handler, "emit"),
        "logger": (LOG, "handle"),
        "stream": (handler.stream, "write"),  # type: ignore[attr-defined]
    }[part]
    program(torch.ones(()))
    compiled = saker.compile(program)
    assert [compiled(torch.ones(())).item() for _ in range(3)] == [0, 0, 0]
    try:
        setattr(owner, name, seen.append)
        assert [compiled(torch.ones(())).item() for _ in range(3)] == [1, 2, 3]
    finally:
        vars(owner).pop(name, None)
