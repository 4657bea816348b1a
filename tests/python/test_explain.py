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
    saker._C.set_progress_after(3.0)


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
    assert "sin" in told._repr_html_()


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


class Asks(torch.nn.Module):
    """As models of transformers do."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling() and x.isnan().any():  # the line that asks
            return x
        return x * 2


def test_a_program_that_is_recorded_at_its_second_call() -> None:
    told = saker.explain(Asks())(torch.ones(3))
    assert told.captured and not told.breaks
    [first] = told.first
    assert first.name == "depends-on-data" and first.line == line_of("the line that asks")
    assert "captured: whole, at the second call" in str(told)
    assert f"the first call: ran eagerly: bool() of a tensor: {first.reason.split(': ', 1)[1]}" in str(told)
    assert "The first call ran eagerly, the second one is recorded in another way" in told.html()
    assert torch.equal(told.result, torch.full((3,), 2.0))
    saker.reset(counts=True)
    module = saker.compile(Asks())
    for _ in range(4):
        module(torch.ones(3))
    [used] = saker.stats()["functions"]
    assert used["reasons"] == [] and (used["eager_calls"], used["recordings"], used["replays"]) == (1, 1, 2)


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
    code = "import torch, saker; saker.compile(lambda x: x + x.long().sum().item())(torch.ones(2))"
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


def test_guards_are_sorted_by_what_they_look_at() -> None:
    told = saker.explain(plain)(torch.randn(3), k=3)
    groups = told.guard_groups
    assert list(groups) == ["arguments", "module", "globals", "internals"]
    assert sum(map(len, groups.values())) == len(told.guards)
    assert any("k == 3" in text for text in groups["arguments"])
    assert any("Float(3)" in text for text in groups["arguments"])
    assert groups["module"] == []

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.0))
            self.scale = 2.5

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return plain(self.inner(x)) * self.scale

    for call in (lambda net: net, lambda net: net.forward):
        groups = saker.explain(call(Net()))(torch.randn(1, 3)).guard_groups
        assert any("scale == 2.5" in text for text in groups["module"])
        assert any("self.inner[0].weight: Float(3, 3)" in text for text in groups["module"])
        assert any("training" in text for text in groups["module"])
        assert any("plain" in text for text in groups["globals"])
        shown = [text for name, texts in groups.items() if name != "internals" for text in texts]
        assert not [text for text in shown if "_hooks" in text or "_call_impl" in text], shown
        assert any("_hooks" in text for text in groups["internals"])


def test_times_what_changes_nothing() -> None:
    x = torch.randn(3)
    calls = 0

    def pure(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(torch.mm(x[None], torch.ones(3, 3)).exp(), 0.5)

    state = torch.random.get_rng_state()
    pure(x)
    after_one_call = torch.random.get_rng_state()
    torch.random.set_rng_state(state)
    replays = saker.stats()["replays"]
    told = saker.explain(pure)(x)
    assert saker.stats()["replays"] == replays
    assert torch.equal(torch.random.get_rng_state(), after_one_call)
    assert told.timing is not None and told.not_timed == ""
    assert told.timing.eager > 0 and told.timing.replay > 0 and 1 <= told.timing.repeats <= 5
    counted = {each.name: each.count for each in told.timing.operators}
    assert counted == told.operators
    seconds = [each.seconds for each in told.timing.operators]
    assert seconds == sorted(seconds, reverse=True) and all(each > 0 for each in seconds)
    assert "times as fast" in str(told) and "slowest operators" in str(told)

    def changes(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return x + 1

    buffer = torch.zeros(3)

    def writes(x: torch.Tensor) -> torch.Tensor:
        return buffer.add_(x)

    for program in (changes, writes):
        calls = 0
        buffer.zero_()
        told = saker.explain(program)(x)
        assert told.captured and told.timing is None
        assert "repeat=5" in told.not_timed and "not measured" in str(told)
        assert calls == (program is changes)
        assert torch.equal(buffer, x if program is writes else torch.zeros(3))
    told = saker.explain(changes, repeat=4)(x)
    assert told.timing.repeats == 4 and told.timing.replay is not None
    assert calls == 1 + 2 * (4 + 1)
    assert saker.explain(pure, repeat=0)(x).timing is None
    told = saker.explain(reads)(x)
    assert told.timing is None
    told = saker.explain(reads, repeat=2)(x)
    assert told.timing.eager > 0 and told.timing.replay is None
    with pytest.raises(TypeError, match="number of calls"):
        saker.explain(pure, repeat=-1)


def test_tells_of_gradients() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 1))
    told = saker.explain(net)(torch.randn(8, 4))
    [backward] = told.backward
    assert "graph @" in backward.text
    assert sum(told.backward_operators.values()) == len(backward) - 1
    [saved] = told.saved
    assert saved.tensors >= 1 and saved.inputs >= 1
    assert saved.bytes >= 8 * 4 * 4
    assert {"differentiate", "cut", "prepare"} <= set(told.stages)
    assert "saved for the backward" in str(told)
    with torch.no_grad():
        told = saker.explain(net)(torch.randn(8, 4))
    assert told.backward == [] and told.saved == []


def test_printing_is_short() -> None:
    net = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(40)))
    text = str(saker.explain(net)(torch.randn(2, 4)))
    assert len(text.splitlines()) < 45
    assert max(map(len, text.splitlines())) < 300


def test_progress_of_a_long_first_call(capfd: pytest.CaptureFixture[str]) -> None:
    saker._C.set_progress_after(0.0)
    saker.set_logs("recompiles")
    compiled = saker.compile(plain)
    compiled(torch.randn(3))
    err = capfd.readouterr().err
    assert "the first call of test_explain.plain has taken" in err
    assert err.count("\n") == 2
    compiled(torch.randn(3))
    assert capfd.readouterr().err == ""
    saker.set_logs("")
    saker.compile(plain)(torch.randn(3))  # nobody looks: stderr is no terminal, and no logs are asked for
    assert capfd.readouterr().err == ""


def test_progress_on_a_terminal() -> None:
    import pty

    code = (
        "import torch, saker; saker._C.set_progress_after(0.0); "
        "f = saker.compile(lambda x: torch.sin(x) + 1); f(torch.ones(2)); f(torch.ones(2))"
    )
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, "-c", code], stderr=theirs, check=False)
    os.close(theirs)
    text = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.returncode == 0
    assert text.count("the first call of") == 2


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
