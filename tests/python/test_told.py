"""What users are told without asking: notices on stderr, saker.report(), and what changed when a call is recorded
again."""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import saker


@pytest.fixture(autouse=True)
def default_logs() -> Iterator[None]:
    saker.set_logs()
    yield
    saker.set_logs()


def decides(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:  # the line of decides
        return x + 1
    return x - 1


def reads_item(x: torch.Tensor) -> torch.Tensor:
    return x * x.long().sum().item()


def line_of(marker: str) -> int:
    with open(__file__) as file:
        return next(number for number, text in enumerate(file, 1) if text.rstrip().endswith(f"# {marker}"))


# --- notices ---


def test_an_eager_function_is_told_of_once(capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        compiled = saker.compile(decides)
        for _ in range(3):
            compiled(torch.ones(3))
    out, err = capfd.readouterr()
    assert out == ""
    [line] = err.splitlines()
    assert line.startswith(f"saker: {__file__}:{line_of('the line of decides')}: test_told.decides runs eagerly: ")
    for part in ("bool() of a tensor", "depends on data", "[depends-on-data]", "if x.sum() > 0:", "torch.where"):
        assert part in line
    assert "saker.explain" in line
    assert "SAKER_LOGS=" in line


def test_each_place_is_told_of(capfd: pytest.CaptureFixture[str]) -> None:
    for fn in (decides, reads_item, decides, reads_item):
        saker.compile(fn)(torch.ones(3))
    lines = capfd.readouterr().err.splitlines()
    assert [name in line for name, line in zip(("decides", "reads_item"), lines, strict=True)] == [True, True]
    assert ".item() of a tensor" in lines[1]


def test_what_is_compiled_is_not_told_of(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = saker.compile(lambda x: torch.sin(x) + 1)
    for size in (3, 4, 5, 3):
        compiled(torch.randn(size, requires_grad=True)).sum().backward()
    raising = saker.compile(lambda x: x.nonsense)
    with pytest.raises(AttributeError):
        raising(torch.ones(2))
    assert capfd.readouterr() == ("", "")


def test_an_empty_list_is_silence(capfd: pytest.CaptureFixture[str]) -> None:
    saker.set_logs("")
    saker.compile(decides)(torch.ones(3))
    assert capfd.readouterr().err == ""
    saker.set_logs("notices")
    saker.compile(decides)(torch.ones(3))
    assert "runs eagerly" in capfd.readouterr().err


def test_a_log_of_breaks_is_enough(capfd: pytest.CaptureFixture[str]) -> None:
    saker.set_logs("breaks")
    saker.compile(decides)(torch.ones(3))
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("[saker breaks]")


@pytest.mark.parametrize(("topics", "lines"), [(None, 1), ("", 0), ("notices", 1), ("captures", 2)])
def test_by_the_environment(topics: str | None, lines: int) -> None:
    env = {name: value for name, value in os.environ.items() if name != "SAKER_LOGS"}
    code = "import torch, saker; print(saker.compile(lambda x: x + x.long().sum().item())(torch.ones(2)).tolist())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=env if topics is None else {**env, "SAKER_LOGS": topics},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[3.0, 3.0]\n"
    assert len(done.stderr.splitlines()) == lines, done.stderr


def test_handlers_and_warnings_of_the_program_see_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    records: list[logging.LogRecord] = []

    class Collects(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Collects()
    logging.getLogger().addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("error")
            saker.compile(decides)(torch.ones(3))
        assert not records and not warned
        logging.getLogger("saker").addHandler(handler)
        saker.set_logs()
        saker.compile(decides)(torch.ones(3))
        assert ["runs eagerly" in record.getMessage() for record in records] == [True]
    finally:
        logging.getLogger("saker").removeHandler(handler)
        logging.getLogger().removeHandler(handler)
    assert capfd.readouterr().err.count("runs eagerly") == 2


def test_a_broken_stderr_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def write(self, text: str) -> None:
            raise OSError("no room")

    for stream in (None, Broken()):
        saker.set_logs()
        monkeypatch.setattr(sys, "stderr", stream)
        got = saker.compile(decides)(torch.ones(3))
        monkeypatch.undo()
        assert torch.equal(got, torch.full((3,), 2.0))


def test_a_tracer_sees_no_frames_of_ours(capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []
    compiled = saker.compile(decides)
    sys.setprofile(lambda frame, event, arg: seen.append(frame.f_code.co_filename))
    try:
        compiled(torch.ones(3))
    finally:
        sys.setprofile(None)
    assert not any("saker" in os.path.basename(os.path.dirname(name)) for name in seen)
    assert "tracing or monitoring" in capfd.readouterr().err


def test_gradients_that_are_not_compiled(capfd: pytest.CaptureFixture[str]) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, part: slice) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            return grad * 2, None

    def applies(x: torch.Tensor) -> torch.Tensor:
        return Double.apply(x, slice(0, 1)) + 1

    x = torch.ones(3, requires_grad=True)
    compiled = saker.compile(applies)
    for _ in range(3):
        compiled(x).sum().backward()
    [line] = capfd.readouterr().err.splitlines()
    assert "applies is replayed, but its gradients are not compiled: it calls code of the user's" in line
    assert "[calls-user]" in line


def test_functions_of_packages_are_told_of_at_the_line_that_calls_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "site-packages"
    package.mkdir()
    lines = ["def pair(x, w):", "    u = x * w", "    u.mul_(2)", "    return u, u.exp()"]
    (package / "package_of_pairs.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(package))
    pair = importlib.import_module("package_of_pairs").pair
    compiled, x = saker.compile(pair), torch.randn(3, requires_grad=True)
    compiled(x, x)  # the line that calls
    told = capfd.readouterr().err
    assert "[stages-of-written]" in told
    assert told.startswith(f"saker: {__file__}:{line_of('the line that calls')}: package_of_pairs.pair")


def test_data_that_a_package_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The place is the user's line that led there; that of the package follows in brackets."""
    package = tmp_path / "site-packages" / "package_of_data"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "masks.py").write_text("def masked(x):\n    if x.all():\n        return x\n    return -x\n")
    monkeypatch.syspath_prepend(str(package.parent))
    masked = importlib.import_module("package_of_data.masks").masked
    saker.compile(masked)(torch.ones(3))  # the line that calls the package
    saker.compile(lambda x: masked(x) + 1)(torch.ones(3))  # the line inside of a function
    first, second = capfd.readouterr().err.splitlines()
    assert first.startswith(f"saker: {__file__}:{line_of('the line that calls the package')}: ")
    assert second.startswith(f"saker: {__file__}:{line_of('the line inside of a function')}: ")
    for line in (first, second):
        assert "depends on data (in package_of_data/masks.py:2)" in line
    [why] = saker.explain(masked)(torch.ones(3)).breaks  # the line that explains
    assert (why.file, why.line) == (__file__, line_of("the line that explains"))


def test_the_first_step_of_an_optimizer_is_not_told_of(capfd: pytest.CaptureFixture[str]) -> None:
    """It makes the state, which no other call finds missing; later steps are replayed."""
    weights = [torch.randn(3, requires_grad=True), torch.randn(2, requires_grad=True)]
    optimizer = torch.optim.AdamW(weights, lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)

    @saker.compile
    def step() -> None:
        optimizer.step()

    for _ in range(6):
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        step()
        scheduler.step()
    assert capfd.readouterr() == ("", "")
    assert functions("<locals>.step")[-1]["replays"] >= 3


def test_a_function_that_counts_is_told_of_all_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    class Counts(nn.Module):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls = self.calls + 1
            return x + 1 if x.sum() > 0 else x

    compiled = saker.compile(Counts())
    compiled(torch.ones(3))
    assert capfd.readouterr().err == ""
    for _ in range(3):
        compiled(torch.ones(3))
    [line] = capfd.readouterr().err.splitlines()
    assert "runs eagerly" in line and "[depends-on-data]" in line


def test_the_recompile_limit(capfd: pytest.CaptureFixture[str]) -> None:
    by = ["a"]

    def measures(x: torch.Tensor) -> torch.Tensor:
        return x + len(by[0])

    compiled = saker.compile(measures, recompile_limit=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for length in range(1, 7):
            by[0] = "x" * length
            assert torch.equal(compiled(torch.zeros(2)), torch.full((2,), float(length)))
    [line] = capfd.readouterr().err.splitlines()
    assert "measures runs eagerly for other arguments from now on: it was recorded 2 times" in line
    assert "by[0]: expected 'xx', found 'xxx' (recording 2, the nearest of 2)" in line
    assert "SAKER_RECOMPILE_LIMIT" in line


def test_the_limit_is_no_news_where_nothing_was_replayed(capfd: pytest.CaptureFixture[str]) -> None:
    """What is recorded again and again, and never replayed, has a reason of its own; a higher limit is no remedy."""
    by = ["a"]

    def never(x: torch.Tensor) -> torch.Tensor:
        length = len(by[0])
        return x + length if x.sum() > 0 else x

    compiled = saker.compile(never, recompile_limit=2)
    for length in range(1, 7):
        by[0] = "x" * length
        compiled(torch.ones(2))
    [line] = capfd.readouterr().err.splitlines()
    assert "[depends-on-data]" in line
    [told] = functions("never")
    assert {each["name"] for each in told["reasons"]} == {"depends-on-data", "recompile-limit"}


def test_tensors_that_are_keys_are_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    weight = nn.Parameter(torch.randn(4, 5))
    state: dict[nn.Parameter, dict[str, str]] = {weight: {"kind": "a"}}
    compiled = saker.compile(lambda x: x * len(state[weight]["kind"]))
    saker.set_logs("recompiles")
    for kind in ("a", "bb"):
        state[weight]["kind"] = kind
        compiled(torch.ones(2))
    assert "state[<Parameter (4, 5)>]['kind']: expected 'a', found 'bb'" in capfd.readouterr().err


# --- counts and the report ---


def functions(name: str) -> list[dict[str, Any]]:
    return [each for each in saker.stats()["functions"] if name in each["name"]]


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
    second = functions("test_told.decides")[-1]
    assert (second["calls"], second["replays"], second["recordings"], second["eager_calls"]) == (5, 0, 0, 5)
    [reason] = second["reasons"]
    assert (reason["name"], reason["eager_calls"]) == ("depends-on-data", 5)
    assert (reason["file"], reason["line"]) == (__file__, line_of("the line of decides"))
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
    assert [each["name"] for each in made.functions][-1] == "test_told.decides"
    lines = printed.splitlines()
    assert lines[0] == "saker.report"
    assert lines[1].split()[:5] == ["function", "calls", "replays", "recordings", "eager"]
    row = next(line for line in lines if line.strip().startswith("test_told.decides"))
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


# --- what changed ---

SCALE = 2


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.kind = "plain"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight if self.kind == "plain" else x


class Slotted:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Inner(), Inner()])
        self.inner = Inner()
        self.mode = "fast"
        self.act = torch.relu
        self.config = {"names": ["a", "b"]}
        self.slotted = Slotted("s")

    def forward(self, batch: dict, *rest: Any, flag: bool = True) -> torch.Tensor:
        x = batch["ids"] + len(self.config["names"][1]) + len(rest[1]) + len(self.slotted.name)
        for layer in self.layers:
            x = layer(x)
        x = self.inner(x) * len(self.mode) * SCALE
        return self.act(x) if flag else x


def changed(compiled: Any, *args: Any, **kwargs: Any) -> str:
    """What is told when this call is recorded again."""
    inner = compiled._compiled if isinstance(compiled, nn.Module) else compiled
    compiled(*args, **kwargs)
    return [report["changed"] for report in saker._C.compiled_reports(inner) if report["outcome"] == "captured"][-1]


def batch(*sizes: int, **how: Any) -> dict:
    return {"ids": torch.ones(*sizes, **how)}


def replace(owner: Any, name: str, value: Any) -> Any:
    return lambda net: setattr(owner(net), name, value)


CHANGES: dict[str, tuple[Any, str]] = {
    "an attribute": (replace(lambda net: net, "mode", "slow"), "self.mode: expected 'fast', found 'slow'"),
    "a function": (
        replace(lambda net: net, "act", torch.tanh),
        "self.act: expected torch.relu, found torch.tanh",
    ),
    "of a part": (
        replace(lambda net: net.inner, "kind", "other"),
        "self.inner.kind: expected 'plain', found 'other'",
    ),
    "of an element": (
        replace(lambda net: net.layers[1], "kind", "other"),
        "self.layers[1].kind: expected 'plain', found 'other'",
    ),
    "in containers": (
        lambda net: net.config["names"].__setitem__(1, "bbb"),
        "self.config['names'][1]: expected 'b', found 'bbb'",
    ),
    "in a slot": (replace(lambda net: net.slotted, "name", "ttt"), "self.slotted.name: expected 's', found 'ttt'"),
    "a parameter": (
        lambda net: net.inner.weight.requires_grad_(False),
        "self.inner.weight.requires_grad: expected True, found False",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_in_a_module(name: str) -> None:
    change, text = CHANGES[name]
    net = Net()
    compiled = saker.compile(net, dynamic=False)
    given = batch(3)
    compiled(given, 1, "rest", flag=True)
    change(net)
    assert changed(compiled, given, 1, "rest", flag=True) == text


def test_what_changed_in_arguments() -> None:
    compiled = saker.compile(Net(), dynamic=False)

    def call(given: dict, *rest: Any, **kwargs: Any) -> str:
        return changed(compiled, given, *rest, **kwargs)

    call(batch(4, 3), 1, "rest")
    assert call(batch(5, 3), 1, "rest") == "batch['ids'].size(0): expected 4, found 5"
    told = call(batch(5, 3), 1, "other")
    assert told == "rest[1]: expected 'rest', found 'other' (recording 2, the nearest of 2)"
    told = call(batch(4, 3, dtype=torch.float64), 1, "rest")
    assert told == "batch['ids'].dtype: expected Float, found Double (recording 1, the nearest of 3)"
    told = call(batch(4, 3), 1, "rest", flag=False)
    assert told.startswith("the keyword arguments: expected [], found ['flag']")
    told = call(batch(4, 3), 1, "rest", 3)
    assert told.startswith("the number of positional arguments: expected 3, found 4")
    other = saker.compile(lambda x: x + 1, dynamic=False)
    other(torch.ones(4, 3))
    assert changed(other, torch.ones(3, 4).t()) == "x.stride(): expected (3, 1), found (1, 4)"


def test_what_changed_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    word, words = "a", ["b"]

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * len(word) * len(words[0]) * SCALE * len(NAME)

    compiled = saker.compile(fn, dynamic=False)
    x = torch.ones(2)
    compiled(x)
    word = "cc"
    assert changed(compiled, x) == "word: expected 'a', found 'cc'"
    words[0] = "dd"
    assert changed(compiled, x).startswith("words[0]: expected 'b', found 'dd' (recording 2, ")
    monkeypatch.setitem(globals(), "NAME", "another")
    assert changed(compiled, x).startswith("NAME: expected 'name', found 'another' (recording 3, ")
    with torch.no_grad():
        assert "around the call" in changed(compiled, x)
    assert changed(compiled, x.double()).startswith("x.dtype: expected Float, found Double")


NAME = "name"


def test_types_that_changed() -> None:
    compiled = saker.compile(lambda x, k: x if k else x + 1)
    x = torch.ones(2)
    compiled(x, [1])
    assert changed(compiled, x, (1,)) == "type(k): expected list, found tuple"
    told = changed(compiled, x, {"a": 1})
    assert told.startswith("type(k): expected tuple, found dict (recording 2, the nearest of 2)")


def test_objects_are_not_asked_for_their_text() -> None:
    class Hostile:
        def __init__(self, value: int) -> None:
            self.value = value

        def __repr__(self) -> str:
            raise AssertionError("asked")

        __str__ = __repr__

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

        __hash__ = object.__hash__

    def fn(x: torch.Tensor, given: Any) -> torch.Tensor:
        return x * (given.value if isinstance(given, Hostile) else 1)

    compiled = saker.compile(fn, dynamic=False)
    x = torch.ones(2)
    compiled(x, Hostile(2))
    assert changed(compiled, x, Hostile(3)) == "given.value: expected 2, found 3"
    told = changed(compiled, x, "text")
    assert "type(given): expected test_told.test_objects_are_not_asked_for_their_text.<locals>.Hostile" in told
    assert "found str" in told


def test_the_log_of_recompiles(capfd: pytest.CaptureFixture[str]) -> None:
    saker.set_logs("recompiles")
    compiled = saker.compile(lambda x, k: x * len(k), dynamic=False)
    compiled(torch.ones(2), "a")
    compiled(torch.ones(2), "bb")
    [line] = capfd.readouterr().err.splitlines()
    assert line.endswith("was recorded again: k: expected 'a', found 'bb'")
    assert line.startswith("[saker recompiles] test_told.test_the_log_of_recompiles.<locals>.<lambda> ")


def test_recordings_are_numbered_from_one_after_a_reset(capfd: pytest.CaptureFixture[str]) -> None:
    fast = saker.compile(lambda x, name: x * len(name))
    x = torch.ones(2)
    for _ in range(2):
        for name in ("a", "bb", "ccc"):
            fast(x, name)
        saker.reset()
    saker.set_logs("recompiles")
    try:
        for name in ("a", "bb", "ccc"):
            fast(x, name)
        torch.set_default_dtype(torch.float64)
        fast(x, "a")
    finally:
        torch.set_default_dtype(torch.float32)
        saker.set_logs()
    told = capfd.readouterr().err
    assert "(recording 2, the nearest of 2)" in told
    assert "another default dtype around the call" in told
