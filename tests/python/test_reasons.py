"""The table of reasons: every row is whole, the page of the docs is made of it, and what stops calls is told by it."""

from __future__ import annotations

import importlib.util
import re
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import saker

ROOT = Path(__file__).parents[2]
KINDS = {"a segment ends here", "cannot be replayed", "the recording itself runs"}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    yield
    saker.set_logs("")


def test_every_row_is_whole() -> None:
    rows = saker.reasons()
    assert len(rows) > 150
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", row.name), row
        assert row.kind in KINDS
        assert row.text and row.hint, row
        assert not row.text.endswith((".", " ")) and not row.hint.endswith((".", " ")), row


def test_every_row_is_used() -> None:
    table = (ROOT / "src/capture/reasons.def").read_text()
    identifiers = re.findall(r"^SAKER_STOP\((\w+),", table, re.MULTILINE)
    sources = [
        path.read_text()
        for folder in ("aot", "capture", "frontend")
        for path in (ROOT / "src" / folder).rglob("*.[ch]*")
    ]
    used = set(re.findall(r"Why::(\w+)", "\n".join(sources))) - {"identifier"}
    assert set(identifiers) == used


def test_the_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("reasons_page", ROOT / "scripts/reasons_page.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs/reasons.md").read_text()
    assert page == module.page(), "run `make reasons`"
    assert all(f"| `{row.name}` |" in page for row in saker.reasons())


def reads_data(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sum() > 0 else x - 1


def calls_unknown(x: torch.Tensor) -> torch.Tensor:
    return x + time.time()


def prints_list(x: torch.Tensor) -> torch.Tensor:
    print([x])
    return x + 1


def returns_generator(x: torch.Tensor) -> Any:
    return (x + i for i in range(2))


def leaves_grad_mode_of_autocast(x: torch.Tensor) -> torch.Tensor:
    torch.set_autocast_enabled("cpu", True)
    return x + 1


STOPS = {
    reads_data: (
        "depends-on-data",
        "a segment ends here",
        "bool() of a tensor: its result or its size depends on data",
    ),
    calls_unknown: ("calls-unknown", "a segment ends here", "calls time.time, which is not known"),
    prints_list: ("prints-object", "a segment ends here", "prints an object that is no number and no string"),
    returns_generator: (
        "leaves-new",
        "cannot be replayed",
        "returns or keeps a new generator, which cannot be made again",
    ),
    leaves_grad_mode_of_autocast: (
        "leaves-ambient",
        "cannot be replayed",
        "it leaves with another autocast than it was called with",
    ),
}


@pytest.mark.parametrize("fn", STOPS, ids=lambda fn: fn.__name__)
def test_one_reason_everywhere(fn: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """explain, logs, errors and counts tell the same row."""
    name, kind, text = STOPS[fn]
    row = next(row for row in saker.reasons() if row.name == name)
    x = torch.ones(3)
    try:
        before = saker.stats()["stops"].get(name, 0)
        [told] = saker.explain(fn)(x).breaks
        torch.set_autocast_enabled("cpu", False)
        assert (told.name, told.kind, told.reason, told.hint) == (name, kind, text, row.hint)
        assert saker.stats()["stops"][name] == before + 1
        saker.set_logs("breaks")
        saker.compile(fn)(x)
        torch.set_autocast_enabled("cpu", False)
        saker.set_logs("")
        assert f"runs eagerly: {text} [{name}]" in capfd.readouterr().err
        with pytest.raises(saker.CaptureError, match=re.escape(text)) as raised:
            saker.compile(fn, fullgraph=True)(x)
        assert row.hint in str(raised.value)
    finally:
        torch.set_autocast_enabled("cpu", False)


def test_counts_are_reset() -> None:
    saker.compile(reads_data)(torch.ones(2))
    assert saker.stats()["stops"]
    saker.reset(counts=True)
    assert saker.stats()["stops"] == {}


def test_what_is_around_the_call_is_told_once() -> None:
    compiled = saker.compile(lambda x: x + 1)
    x = torch.ones(2)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        for _ in range(3):
            torch.testing.assert_close(compiled(x), x + 1, rtol=0, atol=0)
    [report] = saker._C.compiled_reports(compiled)
    assert report["reason"] == "around-saved-hooks"
    before = saker.stats()["replays"]
    for _ in range(2):
        torch.testing.assert_close(compiled(x), x + 1, rtol=0, atol=0)
    assert saker.stats()["replays"] == before + 1


def test_the_recompile_limit_is_told() -> None:
    by = ["a"]
    compiled = saker.compile(lambda x: x + len(by[0]), recompile_limit=2)
    x = torch.ones(2)
    compiled(x)
    by[0] = "bb"
    compiled(x)
    before = saker.stats()["stops"].get("recompile-limit", 0)
    for text in ("ccc", "dddd"):
        by[0] = text
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            torch.testing.assert_close(compiled(x), x + len(text), rtol=0, atol=0)
    assert saker.stats()["stops"]["recompile-limit"] == before + 1
    report = saker._C.compiled_reports(compiled)[-1]
    assert report["outcome"] == "eager"
    assert report["why"].startswith("was recorded 2 times, which is the limit, and keeps changing: ")
    assert "by[0]: expected 'bb', found 'ccc'" in report["why"]
