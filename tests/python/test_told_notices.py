"""Notices on stderr: what users are told without asking, once for each place."""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import saker
from told import DECIDES, decides, default_logs, functions, line_of, reads_item  # noqa: F401


def test_an_eager_function_is_told_of_once(capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        compiled = saker.compile(decides)
        for _ in range(3):
            compiled(torch.ones(3))
    out, err = capfd.readouterr()
    assert out == ""
    [line] = err.splitlines()
    assert line.startswith(f"saker: {DECIDES[0]}:{DECIDES[1]}: told.decides runs eagerly: ")
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
    assert told.startswith(f"saker: {__file__}:{line_of('the line that calls', __file__)}: package_of_pairs.pair")


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
    assert first.startswith(f"saker: {__file__}:{line_of('the line that calls the package', __file__)}: ")
    assert second.startswith(f"saker: {__file__}:{line_of('the line inside of a function', __file__)}: ")
    for line in (first, second):
        assert "depends on data (in package_of_data/masks.py:2)" in line
    [why] = saker.explain(masked)(torch.ones(3)).breaks  # the line that explains
    assert (why.file, why.line) == (__file__, line_of("the line that explains", __file__))


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
