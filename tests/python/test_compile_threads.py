"""Threads that compile and call the same functions at once: in a process of its own, where nothing was made before."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import random, sys, threading, warnings
import torch
from torch import nn
import saker

warnings.simplefilter("ignore")
sys.setswitchinterval(1e-5)
torch.set_num_threads(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.layers[0].register_full_backward_hook(lambda module, given, made: None)

    def forward(self, x, factor=1, text=None):
        for layer in self.layers:
            x = torch.relu(layer(x)) * factor
        return x + len(text) if text else x


def plain(x, factor=1, text=None):
    out = {"sum": x.sin() * factor, "more": [x.cos()]}
    return out["sum"] + out["more"][0]


def ahead(x, factor=1, text=None):
    return (x.sin() * 2).exp()


model = Model()
# One of them runs eagerly soon, since it is recorded as often as it may be; the other is replayed.
cases = [(model, saker.compile(model, backend=KIND)), (plain, saker.compile(plain, backend=KIND, recompile_limit=100))]
cases.append((ahead, saker.aot_function(ahead)))
wrong = []


def work(seed):
    choose = random.Random(seed)
    for _ in range(60):
        eager, compiled = choose.choice(cases)
        rows = 2 if eager is ahead else choose.choice([1, 2, 3])
        x = torch.randn(rows, 8, requires_grad=choose.random() < 0.5)
        args = (x, choose.choice([1, 2]), choose.choice([None, "ab"]))
        with torch.set_grad_enabled(choose.random() < 0.7):
            got, expected = compiled(*args), eager(*args)
        if not torch.equal(got, expected) or got.requires_grad != expected.requires_grad:
            wrong.append(args)
        if expected.requires_grad and x.requires_grad:
            grads = [torch.autograd.grad(each.sum(), x)[0] for each in (got, expected)]
            if not torch.allclose(*grads):
                wrong.append(grads)


def guarded(seed):
    try:
        work(seed)
    except BaseException as error:
        wrong.append(error)


threads = [threading.Thread(target=guarded, args=(seed,)) for seed in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong[0]
assert not torch.compiler.is_compiling()
assert saker.stats()["replays"] > 0
"""


@pytest.mark.parametrize("kind", ["aten", "eager"])
def test_threads_wait_for_nobody(kind: str) -> None:
    program = PROGRAM.replace("KIND", repr(kind))
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
