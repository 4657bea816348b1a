"""What programs tell torch.compile: stances, static dimensions, functions that are kept out or called as they are.

In a process of its own, since setting a stance loads torch.compile.
"""

from __future__ import annotations

import subprocess
import sys

TOLD = """
import pytest
import torch
import saker

calls = []

def fn(x):
    calls.append(1)
    return x + 1

fast = saker.compile(lambda x: fn(x), dynamic=False)
for stance in ("default", "force_eager"):
    with torch.compiler.set_stance(stance):
        before = saker.stats()["replays"]
        for _ in range(3):
            assert torch.equal(fast(torch.ones(2)), torch.full((2,), 2.0))
        assert saker.stats()["replays"] - before == (2 if stance == "default" else 0), stance
with torch.compiler.set_stance("eager_on_recompile"):
    before = saker.stats()
    fast(torch.ones(3))
    fast(torch.ones(2))
    assert saker.stats()["recompiles"] == before["recompiles"] and saker.stats()["replays"] == before["replays"] + 1
with torch.compiler.set_stance("fail_on_recompile"):
    fast(torch.ones(2))
    with pytest.raises(RuntimeError, match="fail_on_recompile"):
        fast(torch.ones(3))
assert fast(torch.ones(3)).shape == (3,)

twice = saker.compile(lambda x: x * 2)
for size in (4, 5, 6):
    x = torch.ones(size)
    torch._dynamo.mark_static(x, 0)
    twice(x)
assert saker.stats()["graphs"] >= 5, saker.stats()  # one for each size

@torch.compiler.disable
def kept_out(x):
    return x + 1

with pytest.raises(saker.CaptureError, match="torch.compiler.disable"):
    saker.compile(lambda x: kept_out(x), fullgraph=True)(torch.ones(2))

@torch.compiler.allow_in_graph
def allowed(x):
    return x * 3

@torch.compiler.assume_constant_result
def constant():
    return 7

def checked(x):
    torch._check(x.shape[0] == 2)
    return None if torch.compiler.is_compiling() else allowed(x) + constant()

whole = saker.compile(checked, fullgraph=True)
assert torch.equal(whole(torch.ones(2)), torch.full((2,), 10.0))
assert torch.equal(whole(torch.ones(2)), torch.full((2,), 10.0))
"""


def test_what_programs_tell_torch_compile() -> None:
    subprocess.run([sys.executable, "-c", TOLD], check=True, timeout=300)
