"""saker.report() and saker.stats()["functions"]: counts and times of each compiled function."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import saker
from told import DECIDES, decides, default_logs, functions  # noqa: F401


def test_counts_of_each_function() -> None:
    class Scales(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    compiled, eager = saker.compile(Scales()), saker.compile(decides)
    for _ in range(5):
        compiled(torch.ones(2))
        eager(torch.ones(2))
    [first] = functions("Scales")
    assert (first["calls"], first["replays"], first["recordings"], first["eager_calls"]) == (5, 4, 1, 0)
    assert first["reasons"] == []
    assert first["file"] == __file__
    assert first["first_seconds"] > 0 and first["replay_seconds"] > 0 and first["eager_seconds"] is None
    second = functions("told.decides")[-1]
    assert (second["calls"], second["replays"], second["recordings"], second["eager_calls"]) == (5, 0, 0, 5)
    [reason] = second["reasons"]
    assert (reason["name"], reason["eager_calls"]) == ("depends-on-data", 5)
    assert (reason["file"], reason["line"]) == DECIDES
    assert second["eager_seconds"] > 0 and second["replay_seconds"] is None
    saker.reset(counts=True)
    assert functions("Scales") == []


def test_the_time_that_is_saved(capsys: pytest.CaptureFixture[str]) -> None:
    """An estimate needs calls that were forced to be eager."""
    saker.reset(counts=True)
    compiled = saker.compile(lambda x: x * 2 + 1)
    for _ in range(4):
        compiled(torch.ones(2))
    [line] = [row for row in str(saker.report()).splitlines() if "lambda" in row]
    assert line.split()[-1] == "-"
    with torch.compiler.set_stance("force_eager"):
        for _ in range(3):
            compiled(torch.ones(2))
    [told] = functions("lambda")
    assert told["forced_seconds"] > 0 and told["eager_seconds"] is None and told["eager_calls"] == 3
    [line] = [row for row in str(saker.report()).splitlines() if "lambda" in row]
    assert line.split()[-1] in ("s", "ms", "us", "ns")
    capsys.readouterr()


def test_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    saker.reset(counts=True)
    compiled, eager = saker.compile(lambda x, k: x * k), saker.compile(decides)
    for k in (2, 2, "no number"):
        try:
            compiled(torch.ones(2), k)
        except TypeError:
            pass
        eager(torch.ones(2))
    made = saker.report()
    printed = capsys.readouterr().out
    assert printed == f"{made}\n"
    assert [each["name"] for each in made.functions][-1] == "told.decides"
    lines = printed.splitlines()
    assert lines[0] == "saker.report"
    assert lines[1].split()[:5] == ["function", "calls", "replays", "recordings", "eager"]
    row = next(line for line in lines if line.strip().startswith("told.decides"))
    assert row.split()[1:5] == ["3", "0", "0", "3"]
    assert "if x.sum() > 0:" in printed and "what to do: " in printed
    assert "<pre>" in made._repr_html_()
    del compiled, eager
    saker.reset(counts=True)
    assert str(saker.report()) == "saker.report: no compiled function was called"


def test_the_report_has_functions_that_do_not_exist_any_more() -> None:
    saker.reset(counts=True)

    def train() -> None:
        fast, eager = saker.compile(lambda x: x * 3), saker.compile(decides)
        for _ in range(4):
            fast(torch.ones(2))
            eager(torch.ones(2))

    train()
    train()
    told = saker.stats()["functions"]
    assert [(each["exists"], each["calls"], each["replays"], each["recordings"]) for each in told] in (
        [(False, 8, 6, 2), (False, 8, 0, 0)],
        [(False, 8, 0, 0), (False, 8, 6, 2)],
    )
    text = str(saker.report())
    assert text.count("it does not exist any more") == 2 and "[depends-on-data], 8 eager calls" in text
    saker.reset(counts=True)
    assert saker.stats()["functions"] == []
