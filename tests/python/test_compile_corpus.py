"""Every program of the corpus does the same compiled as without: results, exceptions, output, state, gradients.

`compile_corpus/eager.txt` lists the programs that are not replayed, with the reason; it is printed at the end.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compile_corpus import programs
from compile_corpus.run import run

PROGRAMS = dict(programs())
LIST = Path(__file__).parent / "compile_corpus" / "eager.txt"


def listed() -> dict[str, str]:
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


@pytest.fixture(autouse=True)
def verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAKER_VERIFY", "1")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    replayed, why = run(PROGRAMS[name])
    assert replayed != (name in listed()), f"{name}: {'is replayed now' if replayed else why}"


def test_the_list_is_true(capsys: pytest.CaptureFixture) -> None:
    known = listed()
    assert set(known) <= set(PROGRAMS)
    with capsys.disabled():
        print(f"\n{len(PROGRAMS)} programs, {len(PROGRAMS) - len(known)} of them replayed; run eagerly:")
        for name, why in known.items():
            print(f"  {name}: {why}")


def test_a_wrong_replay_is_found() -> None:
    import torch

    import saker
    from saker import _verify

    with pytest.raises(saker.VerifyError, match=r"result\[1\]: the replay gives"):
        _verify.run(lambda x: (x, x + 1), (torch.ones(2),), {}, lambda: (torch.ones(2), torch.ones(2)))
    assert _verify.run(lambda x: x + 1, (1,), {}, lambda: 2) == 2
