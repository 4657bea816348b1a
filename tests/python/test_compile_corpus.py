"""Every program of the corpus does the same compiled as without: results, exceptions, output, state, gradients.

`compile_corpus/eager.txt` lists the programs that are not replayed, with the reason; it is printed at the end.
Those that torch.compile captures in one graph nevertheless, with eager's results, are in `compile_corpus/behind.txt`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import saker
from compile_corpus import programs
from compile_corpus.run import run
from torch_versions import BEHIND_HERE

PROGRAMS = dict(programs())
LIST = Path(__file__).parent / "compile_corpus" / "eager.txt"
BEHIND = Path(__file__).parent / "compile_corpus" / "behind.txt"


def listed() -> dict[str, str]:
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def without_place(why: str) -> str:
    """A reason may name a line of a library, which differs between versions."""
    return re.sub(r" \(in [^)]*\)$", "", why)


@pytest.fixture(autouse=True)
def verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAKER_VERIFY", "1")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    replayed, why = run(PROGRAMS[name])
    if torch.cuda.is_available() and why and "generators of all devices" in why:
        pytest.skip(why)
    known = listed()
    assert replayed != (name in known), f"{name}: {'is replayed now' if replayed else why}"
    if not replayed and not known[name].startswith("recorded anew"):
        assert without_place(why) == without_place(known[name])


def test_beside_torch() -> None:
    """In a process of its own: once used, torch.compile changes how modules are made."""
    names = [name for name, why in listed().items() if not why.startswith("recorded anew")]
    command = [sys.executable, "-m", "compile_corpus", "--torch", *names]
    environment = {**os.environ, "PYTHONPATH": str(Path(saker.__file__).parents[1])}
    ran = subprocess.run(
        command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True, check=True, timeout=900
    )
    behind = {line for line in BEHIND.read_text().splitlines() if line and not line.startswith("#")}
    captured = set(ran.stdout.split())
    assert captured and captured <= behind | BEHIND_HERE
    assert behind <= set(names), "what is captured by now is no longer behind"


def test_the_list_is_true(capsys: pytest.CaptureFixture) -> None:
    known = listed()
    assert set(known) <= set(PROGRAMS)
    with capsys.disabled():
        print(f"\n{len(PROGRAMS)} programs, {len(PROGRAMS) - len(known)} of them replayed; run eagerly:")
        for name, why in known.items():
            print(f"  {name}: {why}")
        print("captured by torch.compile all the same:")
        print("\n".join(f"  {line}" for line in BEHIND.read_text().splitlines() if line and not line.startswith("#")))


def test_a_wrong_replay_is_found() -> None:
    from saker import _verify

    with pytest.raises(saker.VerifyError, match=r"result\[1\]: the replay gives"):
        _verify.run(lambda x: (x, x + 1), (torch.ones(2),), {}, lambda: (torch.ones(2), torch.ones(2)))
    assert _verify.run(lambda x: x + 1, (1,), {}, lambda: 2) == 2
