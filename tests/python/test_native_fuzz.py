"""Random programs with generated code against eager mode: exactly where eager mode determines all bits.

``SAKER_FUZZ`` in the environment is the number of programs, for long runs (``helpers/fuzz_fused.py`` for longer ones).
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest
import torch

import saker
from fused_check import failure, smallest
from fused_programs import make
from generated_code import needs_code
from saker import _C

pytestmark = needs_code

PROGRAMS = int(os.environ.get("SAKER_FUZZ", "1000"))
PARTS = 20
CPUS = ("", "avx2", "sse4", "scalar")  # the first is what the machine has


@pytest.fixture(autouse=True)
def fused(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SAKER_COMPILE", "sync")
    saker.set_stages("fuse,verify")
    saker.set_logs("")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    saker.set_stages("")
    saker.set_logs()


@pytest.mark.parametrize("part", range(PARTS))
def test_programs(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = CPUS[part % len(CPUS)] if part % 2 else ""  # half of them for what the machine has
    if cpu:
        monkeypatch.setenv("SAKER_CPU", cpu)
    before = _C.kernels_launched()
    for seed in range(part, PROGRAMS, PARTS):
        program = make(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of reductions of nothing, and the like
            found = failure(program)
            if found:
                small, found = smallest(program, found)
                pytest.fail(f"{found}\nSAKER_CPU={cpu}\n{small.told()}", pytrace=False)
        saker.reset()
    assert _C.kernels_launched() > before, _C.code_error()


@pytest.mark.parametrize("part", range(4))
def test_programs_to_the_bit(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``precision="eager"``: results and gradients, whatever eager mode computes."""
    if CPUS[part]:
        monkeypatch.setenv("SAKER_CPU", CPUS[part])
    before = _C.kernels_launched()
    for seed in range(20_000 + part, 20_000 + PROGRAMS // 4, 4):
        program = make(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = failure(program, bits=True)
            if found:
                small, found = smallest(program, found, True)
                pytest.fail(f"{found}\nSAKER_CPU={CPUS[part]}\n{small.told()}", pytrace=False)
        saker.reset()
    assert _C.kernels_launched() > before, _C.code_error()


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("guard", ["behind", "before"])
def test_nothing_outside_of_tensors_is_touched(guard: str, cpu: str, tmp_path: pathlib.Path) -> None:
    """A kernel that reads or writes beside its tensors ends the process."""
    trail = tmp_path / "trail"
    seeds = range(10_000, 10_000 + max(PROGRAMS // 40, 1))
    helper = pathlib.Path(__file__).parent / "helpers" / "fuzz_fused.py"
    arguments = ["--seeds", str(seeds.start), str(seeds.stop), "--guard", guard, "--cpu", cpu, "--trail", str(trail)]
    path = os.pathsep.join(each for each in sys.path if each)
    ended = subprocess.run(
        [sys.executable, str(helper), *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    last = trail.read_text().split()[-1:] if trail.exists() else []
    assert ended.returncode == 0, (
        f"ended with {ended.returncode} at seed {last}\n{ended.stdout}\n{ended.stderr[-2000:]}"
    )


@pytest.mark.parametrize(("guard", "writes"), [("behind", False), ("before", False), ("behind", True)])
def test_guard_pages_end_the_process(guard: str, writes: bool) -> None:
    """The test above can fail."""
    program = f"import torch\nfrom saker import _C\n_C.set_guard_pages({guard!r})\nprint('there', flush=True)\n"
    program += f"_C.touch_guarded(torch.ones(5), {writes})"
    path = os.pathsep.join(each for each in sys.path if each)
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout == "there\n"
    # A sanitizer that the process was given tells of it in its own way.
    assert ended.returncode == -signal.SIGSEGV or "AddressSanitizer: SEGV" in ended.stderr
