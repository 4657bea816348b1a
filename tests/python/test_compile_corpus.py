"""Every program of the corpus does the same compiled as without: results, exceptions, output, state, gradients.

`compile_corpus/eager.txt` lists the programs that are not replayed, with the reason; it is printed at the end.
Those that torch.compile captures in one graph nevertheless, with eager's results, are in `compile_corpus/behind.txt`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from compile_corpus import programs
from compile_corpus.alike import Different, compare
from compile_corpus.run import observe, run

PROGRAMS = dict(programs())
LIST = Path(__file__).parent / "compile_corpus" / "eager.txt"
BEHIND = Path(__file__).parent / "compile_corpus" / "behind.txt"


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


def captured_by_torch(name: str) -> bool:
    """Whether torch.compile makes one graph of a program, and does in it what eager mode does."""
    torch._dynamo.reset()
    world, eager = PROGRAMS[name](), PROGRAMS[name]()
    compiled = torch.compile(world.fn, fullgraph=True, backend="eager")
    try:
        compare(observe(eager.fn, eager, 0), observe(compiled, world, 0), "")
    except Different:
        return False
    return True


NOT_CAPTURED = [name for name, why in listed().items() if not why.startswith("recorded anew")]


@pytest.mark.parametrize("name", NOT_CAPTURED)
@pytest.mark.filterwarnings("ignore")
def test_beside_torch(name: str) -> None:
    behind = [line for line in BEHIND.read_text().splitlines() if line and not line.startswith("#")]
    assert not captured_by_torch(name) or name in behind


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
    import saker
    from saker import _verify

    with pytest.raises(saker.VerifyError, match=r"result\[1\]: the replay gives"):
        _verify.run(lambda x: (x, x + 1), (torch.ones(2),), {}, lambda: (torch.ones(2), torch.ones(2)))
    assert _verify.run(lambda x: x + 1, (1,), {}, lambda: 2) == 2
