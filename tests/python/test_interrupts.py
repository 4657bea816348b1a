"""Ctrl-C at any moment, while a call is recorded, compiled or replayed, leaves everything usable."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap

import pytest
import torch

import saker

# Signals come from a timer of the process, at random moments of a call; each call either returns what eager mode does
# or raises KeyboardInterrupt. Afterwards, without signals, everything must be equal to eager mode and replay.
PROGRAM = """
import random, signal, sys, warnings
import torch, saker

warnings.simplefilter("error")  # an interruption is no internal failure
torch.manual_seed(0)
random.seed({seed})
signal.signal(signal.SIGALRM, signal.default_int_handler)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(6))
        self.calls = 0
    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x)) + x
        return x

def step(net, x):
    return torch.autograd.grad(net(x).sum(), list(net.parameters()))

eager = Net()
compiled = saker.compile(eager)
x = torch.randn(3, 6)
expected = [each.clone() for each in step(eager, x)]
interrupted = finished = 0

def longest():
    import time
    saker.reset()
    start = time.perf_counter()
    step(compiled, x)
    return time.perf_counter() - start

longest()  # what is loaded once
budget = 1.5 * longest()
for attempt in range({attempts}):
    if attempt % {every} == 0:
        saker.reset()
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, budget if attempt % {every} == 0 else budget / 20))
        got = step(compiled, x)
        signal.setitimer(signal.ITIMER_REAL, 0)
        finished += 1
        assert all(torch.equal(a, b) for a, b in zip(got, expected))
    except KeyboardInterrupt:
        interrupted += 1
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            pass

for _ in range(3):
    got = step(compiled, x)
    assert all(torch.equal(a, b) for a, b in zip(got, expected))
before = saker.stats()["replays"]
fresh = saker.compile(eager)
for _ in range(3):
    assert torch.equal(fresh(x), eager(x))
assert saker.stats()["replays"] == before + 2
told = saker.explain(eager)(x)
assert told.captured, told
assert saker.stats()["fallbacks"] == 0, saker.stats()
assert torch.is_grad_enabled() and saker._C.trace_mode() is None
print("interrupted", interrupted, "finished", finished)
"""


@pytest.mark.parametrize("every", [1, 4], ids=["recording", "recording and replays"])
def test_signals_at_random_moments(every: int) -> None:
    seed = random.randrange(2**32)
    program = textwrap.dedent(PROGRAM).format(seed=seed, attempts=60, every=every)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"seed {seed}:\n{done.stdout}\n{done.stderr}"
    words = done.stdout.split()
    assert int(words[1]) > 5, f"seed {seed}: hardly anything was interrupted: {done.stdout}"


def test_interruption_in_compiling_is_raised() -> None:
    """Where a back end is interrupted, where a stage of the pipeline is, and where a kernel of Python's is."""
    x = torch.randn(3, requires_grad=True)

    def interrupts(module: object, inputs: object) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        saker.compile(torch.sin, backend=interrupts)(x)

    class Interrupts(torch.autograd.Function):
        raising = False

        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            if Interrupts.raising:
                raise KeyboardInterrupt
            return x * 2

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    compiled = saker.compile(lambda x: Interrupts.apply(x).sum())
    assert torch.equal(compiled(x), (x * 2).sum())
    Interrupts.raising = True
    with pytest.raises(KeyboardInterrupt):
        compiled(x)
    Interrupts.raising = False
    assert torch.equal(compiled(x), (x * 2).sum())


def test_interruption_of_a_stage() -> None:
    """A meta kernel, which a stage of compiling asks for sizes, is interrupted: that is no reason to go on without."""
    library = torch.library.Library("interrupts", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    raising = True

    def shapes(x: torch.Tensor) -> torch.Tensor:
        if raising:
            raise KeyboardInterrupt
        return torch.empty_like(x)

    library.impl("twice", lambda x: x * 2, "CPU")
    library.impl("twice", shapes, "Meta")
    x = torch.randn(3, requires_grad=True)

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.interrupts.twice(x.detach()) * x

    compiled = saker.compile(program)
    before = saker.stats()
    interrupted = 0
    for _ in range(3):
        try:
            assert torch.equal(compiled(x), program(x))
        except KeyboardInterrupt:
            interrupted += 1
    assert interrupted > 0
    raising = False
    for _ in range(3):
        assert torch.equal(compiled(x), program(x))
    after = saker.stats()
    assert after["fallbacks"] == before["fallbacks"]
    assert after["replays"] > before["replays"]
