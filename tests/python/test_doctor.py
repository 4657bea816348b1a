"""``saker doctor`` and ``saker opt``."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
import torch

import saker
from saker import _C, _doctor
from saker.__main__ import main

GRAPH = """graph @main(%0: f32[4]) {
  %1: f32[4] = aten::sin(%0)
  %2: f32[4] = aten::mul.Tensor(%1, 2)
  return %2
}
"""
has_library = not _C.code_status()["error"]


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each), **settings}
    command = [sys.executable, "-m", "saker", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def lines(text: str) -> dict[str, str]:
    """By name: the mark and what follows."""
    found = {}
    for line in text.splitlines():
        mark, _, rest = line.partition(" ")
        name, colon, told = rest.strip().partition(": ")
        if colon and not line.startswith(" "):
            found[name] = f"{mark} {told}"
    return found


def test_versions_and_the_target_are_told() -> None:
    ended = run("doctor", SAKER_CPU="sse4")
    assert ended.returncode == 0, ended.stderr
    found = lines(ended.stdout)
    assert torch.__version__ in found["PyTorch"]
    assert saker.__version__ in found["Saker"]
    assert found["generated code is for"] == "ok sse4 (x86-64-v2), by SAKER_CPU"
    assert "SAKER_CPU=sse4" in found["settings"]
    assert found["compiler threads"].endswith("in the background")
    assert found["a compiled call"].split()[1] == "right,"
    if has_library:
        assert found["LLVM library"].startswith("ok ")
        assert found["a compiled call"] == "ok right, with generated code"


def test_a_missing_library_is_told_with_what_to_do() -> None:
    ended = run("doctor", SAKER_CODEGEN_LIBRARY="/nowhere/library.so")
    assert ended.returncode == 0  # operators are called
    found = lines(ended.stdout)
    assert found["LLVM library"].startswith("missing ")
    assert "LLVM 22" in ended.stdout
    assert found["a compiled call"].startswith("missing right, without generated code")


def test_a_target_that_the_processor_does_not_have() -> None:
    found = run("doctor", SAKER_CPU="avx1024")
    assert "names no target that this processor has" in found.stdout


def test_a_wrong_result_ends_with_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch, "allclose", lambda *_, **__: False)
    assert _doctor.doctor() == 1
    assert "MISSING  a compiled call: WRONG" in capsys.readouterr().out


@pytest.mark.skipif(_doctor.opt_path() is None, reason="saker-opt is not built")
def test_opt_is_saker_opt(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "program.sk"
    file.write_text(GRAPH)
    assert main(["opt", "--fuse", str(file)]) == 0
    assert "saker::fused" in capfd.readouterr().out
    assert main(["opt", "--no-such-option", str(file)]) != 0


def test_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main(["cure"]) == 2
    assert "usage" in capsys.readouterr().err
    assert main(["--help"]) == 0


def test_opt_without_saker_opt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_doctor, "opt_path", lambda: None)
    assert main(["opt", "x"]) == 2
    assert "saker doctor" in capsys.readouterr().err
