"""``saker.reset()`` gives memory back: nothing of what was compiled stays alive, and compiling again costs none."""

from __future__ import annotations

import gc
import os
import weakref

import pytest
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


class Last:
    """The only one that holds `others`, and calls what is compiled when it goes."""

    def __init__(self, *others: object) -> None:
        self.others = others
        self.ran = saker.compile(lambda x: x + 1)

    def __del__(self) -> None:
        self.ran(torch.ones(2))
        saker.stats()


def test_compiled_functions_that_go_while_others_are_asked() -> None:
    """In cycles that the garbage collector finds while counts are told, and in recordings that are let go of."""
    x = torch.ones(3)

    def hold(other: object) -> object:
        box: list = [other]
        compiled = saker.compile(lambda x: x.sin() if box else x)
        box.append(compiled)
        compiled(x)
        compiled(x)
        return compiled

    thresholds = gc.get_threshold()
    try:
        for later in (10, 20, 40, 60):
            gc.disable()
            for _ in range(40):
                hold(None)  # only the cycle holds it
            gc.set_threshold(gc.get_count()[0] + later)
            gc.enable()
            assert all(each["calls"] > 0 for each in saker.stats()["functions"])
    finally:
        gc.enable()
        gc.set_threshold(*thresholds)
    kept = [hold(Last(hold(Last(None)))) for _ in range(3)]
    saker.reset()
    assert all(torch.equal(each(x), x.sin()) for each in kept)


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


@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer keeps memory that was given back"
)
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
