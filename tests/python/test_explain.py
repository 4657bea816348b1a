"""What compiled functions tell about themselves: saker.explain, SAKER_LOGS, progress, internal failures."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import saker
import saker._fx


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    yield
    saker.set_logs("")
    saker._C.set_progress_after(1.0)


def plain(x: torch.Tensor, k: int = 2) -> torch.Tensor:
    return torch.sin(x) * k + 1


def reads(x: torch.Tensor) -> torch.Tensor:
    if x.sum().item() > 0:  # the line that is told
        return x + 1
    return x - 1


def line_of(marker: str) -> int:
    with open(__file__) as file:
        return next(number for number, text in enumerate(file, 1) if marker in text and "def " not in text)


def test_explains_what_was_captured() -> None:
    x = torch.randn(3)
    told = saker.explain(plain)(x, k=3)
    torch.testing.assert_close(told.result, plain(x, 3), rtol=0, atol=0)
    assert told.captured
    assert len(told.graphs) == 1
    assert sum(told.operators.values()) == 3
    assert any("sin" in name for name in told.operators)
    assert any("k == 3" in guard for guard in told.guards)
    assert any("Float(3)" in guard for guard in told.guards)
    assert told.frames == 1
    assert set(told.seconds) == {"running and recording", "compiling"}
    text = str(told)
    assert "captured: whole" in text
    assert "k == 3" in text
    page = told._repr_html_()
    assert page.count("<table>") == page.count("</table>") == 1
    assert "sin" in page


def test_explains_why_not() -> None:
    told = saker.explain(reads)(torch.ones(3))
    assert not told.captured
    [why] = told.breaks
    assert "depends on data" in why.reason
    assert why.file == __file__
    assert why.line == line_of("the line that is told")
    assert "torch.where" in why.hint
    text = str(told)
    assert f"{__file__}:{why.line}" in text
    assert "if x.sum().item() > 0:" in text
    assert "x.sum().item() &gt; 0" in told._repr_html_()


def test_explain_leaves_the_compiled_function_alone() -> None:
    compiled = saker.compile(plain)
    told = saker.explain(compiled)(torch.randn(2))
    assert told.captured
    assert saker._C.compiled_reports(compiled) == []
    module = saker.compile(torch.nn.Linear(2, 2))
    assert saker.explain(module)(torch.randn(1, 2)).captured
    assert saker._C.compiled_reports(module._compiled) == []


def test_logs(capfd: pytest.CaptureFixture[str]) -> None:
    def told(topics: str, fn: Any, *calls: Any) -> str:
        saker.set_logs(topics)
        compiled = saker.compile(fn)
        for args in calls:
            compiled(*args)
        saker.set_logs("")
        return capfd.readouterr().err

    x = torch.randn(3)
    assert told("", plain, (x,), (x,)) == ""
    assert "depends on data" in told("breaks", reads, (x,))
    assert f":{line_of('the line that is told')}: " in told("breaks", reads, (x,))
    assert "x: Float(3)" in told("guards", plain, (x,))
    assert "sin" in told("graph", plain, (x,))
    assert told("recompiles", plain, (x,), (x,)) == ""
    assert "x.size(0): expected 3, found 4" in told("recompiles", plain, (x,), (torch.randn(4),))
    assert "3 operators" in told("captures", plain, (x,))
    assert told("replays", plain, (x,), (x,), (x,)).count("[saker replays]") == 2
    everything = told("all", plain, (x,), (x,))
    assert all(f"[saker {topic}]" in everything for topic in ("captures", "guards", "graph", "replays"))


def test_unknown_topics() -> None:
    with pytest.raises(ValueError, match=r"nonsense.*there are captures, breaks"):
        saker.set_logs("breaks,nonsense")


@pytest.mark.parametrize("topics", ["breaks", "breaks,nonsense"])
def test_logs_by_the_environment(topics: str) -> None:
    code = "import torch, saker; saker.compile(lambda x: x + x.sum().item())(torch.ones(2))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SAKER_LOGS": topics},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "[saker breaks]" in done.stderr
    assert ("nonsense" in done.stderr) == ("nonsense" in topics)


def test_progress_of_a_long_first_call(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = saker.compile(plain)
    saker._C.set_progress_after(0.0)
    compiled(torch.randn(3))
    err = capfd.readouterr().err
    assert "the first call of test_explain.plain has taken" in err
    assert err.count("\n") == 2
    compiled(torch.randn(3))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("fullgraph", [False, True])
def test_internal_failures_do_not_reach_the_user(fullgraph: bool) -> None:
    x = torch.randn(3)
    compiled = saker.compile(plain, fullgraph=fullgraph)
    before = saker.stats()["fallbacks"]
    saker._C.fail_next_compile("something is broken")
    with pytest.warns(RuntimeWarning, match=r"compiling test_explain.plain \(something is broken\)"):
        got = compiled(x)
    torch.testing.assert_close(got, plain(x), rtol=0, atol=0)
    assert saker.stats()["fallbacks"] == before + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(compiled(x), plain(x), rtol=0, atol=0)
    assert saker.stats()["fallbacks"] == before + 1
    [report] = saker._C.compiled_reports(compiled)
    assert report["internal"]


def test_internal_failures_before_a_foreign_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: Any) -> None:
        raise AssertionError("no graph")

    monkeypatch.setattr(saker._fx, "to_fx", broken)
    compiled = saker.compile(plain, backend=lambda module, inputs: module)
    before = saker.stats()["fallbacks"]
    x = torch.randn(3)
    with pytest.warns(RuntimeWarning, match="no graph"):
        compiled(x)
    torch.testing.assert_close(compiled(x), plain(x), rtol=0, atol=0)
    assert saker.stats()["fallbacks"] == before + 1


def test_errors_of_a_backend_are_raised() -> None:
    def backend(module: Any, inputs: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        saker.compile(plain, backend=backend)(torch.randn(3))
