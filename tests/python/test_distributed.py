"""Collectives of two processes on one machine (gloo): what is compiled around them gives eager mode's numbers, and no
process ends by a signal."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="no gloo"
)

PROGRAM = """
    import os, sys, warnings
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as collectives

    import saker

    warnings.simplefilter("ignore")
    rank = int(sys.argv[1])
    dist.init_process_group("gloo", rank=rank, world_size=2, init_method="tcp://127.0.0.1:" + sys.argv[2])
    group = dist.group.WORLD

    def reduced(x):
        return collectives.all_reduce(x * 2, "sum", group) + 1

    def gathered(x):
        return collectives.all_gather_tensor(x * 2, 0, group) * 3

    def both(x):
        return reduced(x).sum() + collectives.wait_tensor(collectives.reduce_scatter_tensor(x, "sum", 0, group))

    for function in (reduced, gathered, both):
        for gradients in (False, True):
            x = torch.arange(4.0).add(rank).requires_grad_(gradients and function is not both)
            expected = function(x)
            compiled, aot = saker.compile(function), saker.aot_function(function)
            captured = saker.capture(function, x.detach())
            for _ in range(2):
                for got in (compiled(x), aot(x), captured(x.detach())):
                    assert torch.equal(torch.as_tensor(got), torch.as_tensor(expected)), (function, got, expected)
            with saker.deferred():
                got = function(x)
            assert torch.equal(torch.as_tensor(got), torch.as_tensor(expected)), function
            assert type(aot(x)) is type(expected)
    # Without this PyTorch itself may end the process by a signal: its threads hold tensors.
    dist.barrier()
    dist.destroy_process_group()
    print("done", rank)
"""


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def run_both(script: Path) -> list[tuple[int, str]]:
    port = str(free_port())
    jobs = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), port],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        texts = [job.communicate(timeout=120)[0] for job in jobs]
    finally:
        for job in jobs:
            job.kill()
    return [(job.returncode, text) for job, text in zip(jobs, texts, strict=True)]


def test_functional_collectives(tmp_path: Path) -> None:
    script = tmp_path / "collectives.py"
    script.write_text(textwrap.dedent(PROGRAM))
    for attempt in range(3):
        ended = run_both(script)
        # On a loaded machine a process was seen to end by SIGABRT behind its last line, while threads of gloo are torn
        # down. What is compiled is over then: it is tried again, and said.
        if attempt == 2 or all(code == 0 or f"done {rank}" not in text for rank, (code, text) in enumerate(ended)):
            break
        print("a process ended by a signal after it was done:", ended)
    for rank, (code, text) in enumerate(ended):
        assert code == 0, text
        assert f"done {rank}" in text
