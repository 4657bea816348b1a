"""``saker.reset()`` gives memory back: nothing of what was compiled stays alive, and compiling again costs none."""

from __future__ import annotations

import gc
import os
import weakref

import torch
from torch import nn

import saker
from alone import alone


def compiled_step(width: int = 8) -> tuple[list[weakref.ref], nn.Module]:
    """A compiled module that has been trained for a step, and references to all that belongs to it."""
    net = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.GELU(), nn.Linear(width, width))
    held = torch.randn(width)
    compiled = saker.compile(lambda x: net(x) * held)
    x = torch.randn(4, width)
    for _ in range(3):
        compiled(x).sum().backward()
    references = [weakref.ref(each) for each in (net, net[0], held, x, *net.parameters(), *net.buffers())]
    return references, compiled


def test_a_compiled_function_that_goes_takes_everything_with_it() -> None:
    references, compiled = compiled_step()
    assert all(each() is not None for each in references[:3])
    del compiled
    gc.collect()
    assert [each() for each in references] == [None] * len(references)


def test_reset_lets_go_of_what_was_recorded() -> None:
    held = torch.randn(1000)
    kept = weakref.ref(held)
    box = [held]
    del held
    compiled = saker.compile(lambda x: x + box[0])
    x = torch.randn(1000)
    for _ in range(3):
        compiled(x)
    argument = weakref.ref(x)
    del x
    box[0] = torch.zeros(1000)
    saker.reset()
    gc.collect()
    assert kept() is None and argument() is None
    assert torch.equal(compiled(torch.ones(1000)), torch.ones(1000))


def _resident() -> int:
    with open(f"/proc/{os.getpid()}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@alone
def test_memory_stays_flat() -> None:
    """Compiling, replaying and resetting again and again: in the second half hardly anything is added."""
    net = nn.Sequential(*(nn.Linear(64, 64) for _ in range(8)))
    x = torch.randn(256, 64)
    compiled = saker.compile(net)

    def rounds(count: int) -> None:
        for _ in range(count):
            for _ in range(3):
                compiled(x).sum().backward()
            saker.compile(net)(x)
            saker.reset()
        gc.collect()

    rounds(30)  # what is loaded and pooled once
    before = _resident()
    rounds(60)
    grown = _resident() - before
    print(f"60 rounds of compile and reset: {grown / 2**20:.2f} MiB")
    assert grown < 4 * 2**20
