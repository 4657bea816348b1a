"""The stages between a recording and what runs it: their times, dumps, verification and switches; and the reasons for
running the recording itself where gradients are not compiled, which are told everywhere alike."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import saker

ROOT = Path(__file__).parents[2]
SAKER_OPT = os.environ.get("SAKER_OPT", str(ROOT / "build/saker-opt"))
W = torch.randn(4, 3, requires_grad=True)


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    yield
    saker.set_stages("")
    saker.set_logs("")


def loss(x: torch.Tensor) -> torch.Tensor:
    return (x @ W).clone().relu().sum()


def test_explain_tells_the_stages_of_gradients() -> None:
    told = saker.explain(loss)(torch.randn(2, 4))
    assert list(told.stages) == ["differentiate", "functional", "simplify", "cut", "prepare"]
    assert all(seconds > 0 for seconds in told.stages.values()) and not told.instead
    assert "gradients: compiled" in str(told) and "stages of compiling: differentiate " in str(told)
    with torch.no_grad():
        assert not saker.explain(loss)(torch.randn(2, 4)).stages


def test_logs_tell_each_stage(capfd: pytest.CaptureFixture[str]) -> None:
    saker.set_logs("stages")
    compiled = saker.compile(loss)
    compiled(torch.randn(2, 4))
    lines = re.findall(r"\[saker stages\] (\w+) (\w+): [\d.]+ ms, \d+ operators", capfd.readouterr().err)
    assert lines == [
        ("prepare", "recording"),  # to run it on stand-ins
        ("differentiate", "joint"),
        ("functional", "joint"),
        ("simplify", "joint"),
        ("cut", "backward"),
        ("simplify", "forward"),
        ("simplify", "backward"),
        ("prepare", "forward"),
    ]
    with torch.no_grad():
        for _ in range(3):
            compiled(torch.randn(2, 4))
    lines = re.findall(r"\[saker stages\] (\w+) (\w+)", capfd.readouterr().err)
    assert lines == [("simplify", "recording"), ("prepare", "recording")]


def test_dumps_can_be_run_again(tmp_path: Path) -> None:
    """What one stage leaves is what the next one begins with: saker-opt does the same to it."""
    saker.set_stages(f"verify,dump={tmp_path}")
    saker.compile(loss)(torch.randn(2, 4))
    files = sorted(path.name for path in tmp_path.iterdir())
    assert [name.split("-", 1)[1] for name in files] == [
        "prepare-recording.sk",
        "differentiate-joint.sk",
        "functional-joint.sk",
        "simplify-joint.sk",
        "cut-backward.sk",
        "simplify-forward.sk",
        "simplify-backward.sk",
        "prepare-forward.sk",
    ]

    def text(name: str) -> str:
        return "".join(line for line in open(tmp_path / name) if not line.startswith("#"))

    passes = "--passes=fold-constants,simplify-views,remove-noops,cse,dce"
    again = subprocess.run(
        [SAKER_OPT, passes, str(tmp_path / files[2])], capture_output=True, text=True, check=True
    ).stdout
    numbers = re.compile(r"%\d+")
    assert numbers.sub("%", again) == numbers.sub("%", text(files[3]))
    assert "aten::clone" in text(files[2]) and "aten::clone" not in text(files[3])


def test_stages_can_be_left_out(tmp_path: Path) -> None:
    x = torch.randn(2, 4)
    saker.set_stages(f"-simplify,dump={tmp_path}")
    compiled = saker.compile(loss)
    got = compiled(x)
    assert not any("simplify" in path.name for path in tmp_path.iterdir())
    assert any("aten::clone" in path.read_text() for path in tmp_path.glob("*prepare*"))
    torch.testing.assert_close(compiled(x), got)
    torch.testing.assert_close(torch.autograd.grad(compiled(x), W), torch.autograd.grad(loss(x), W))
    saker.set_stages("-differentiate")
    told = saker.explain(loss)(x)
    assert [each.name for each in told.instead] == ["switched-off"]
    assert "the stage differentiate is switched off" in told.instead[0].reason


def test_unknown_settings_are_named() -> None:
    with pytest.raises(ValueError, match=r"no such settings of stages: -cut, nonsense"):
        saker.set_stages("verify,-cut,nonsense")


def test_the_variable_sets_them(tmp_path: Path) -> None:
    program = "import torch, saker; w = torch.ones(3, requires_grad=True); saker.compile(lambda x: (x * w).sum())(w)"
    environment = {**os.environ, "SAKER_STAGES": f"dump={tmp_path}"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert any("differentiate" in path.name for path in tmp_path.iterdir())


def test_the_variable_does_not_undo_what_the_program_sets(tmp_path: Path) -> None:
    program = (
        "import torch, saker; saker.set_stages(''); w = torch.ones(3, requires_grad=True);"
        "saker.compile(lambda x: (x * w).sum())(w)"
    )
    environment = {**os.environ, "SAKER_STAGES": f"dump={tmp_path}"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert not list(tmp_path.iterdir())


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, *_: Any) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * 2, *(None,) * (len(ctx.needs_input_grad) - 1)


INSTEAD = {
    "calls-user": lambda x: Doubled.apply(x @ W, slice(0, 1)),
    "awaits-backward": lambda x: Doubled.apply(x @ W),
    "depends-on-order": lambda x: (x @ W).masked_select(x[:, :3] > 0).sum(),
    "stages-of-written": lambda x: (lambda y: (y[0].mul_(2), y, y * y)[1:])((x @ W) * 1),
    "writes-differentiable": lambda x: Y.mul_(2) * (x @ W),
}
Y = torch.randn(2, 3, requires_grad=True) * 1


@pytest.mark.parametrize("name", INSTEAD)
def test_one_reason_everywhere(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    fn = INSTEAD[name]
    row = next(row for row in saker.reasons() if row.name == name)
    assert row.kind == "the recording itself runs"
    x = torch.randn(2, 4)
    before = saker.stats()["instead"].get(name, 0)
    told = saker.explain(fn)(x)
    assert not told.breaks and [each.name for each in told.instead] == [name]
    assert told.instead[0].hint == row.hint and told.instead[0].reason in str(told)
    assert saker.stats()["instead"][name] == before + 1
    saker.set_logs("breaks")
    saker.compile(fn)(x)
    assert f"[{name}]" in capfd.readouterr().err
