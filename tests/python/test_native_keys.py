"""Kernels are found by their text: it is the same in every process, whatever lies where in memory."""

from __future__ import annotations

import os
import subprocess
import sys

from generated_code import needs_code

pytestmark = needs_code

_PROGRAM = """
import torch, saker
from torch import nn

torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(24, 24), nn.LayerNorm(24), nn.GELU(), nn.Dropout(0.0)) for _ in range(3)]
model = nn.Sequential(*layers, nn.Softmax(-1))
x = torch.randn(7, 24, requires_grad=True)
told = saker.explain(model, repeat=0, backend="native")(x)
for each in (*told.kernels, *told.backward_kernels):
    for group in each.groups:
        print(*group.texts, sep="")
"""


def _printed(seed: str) -> str:
    given = {**os.environ, "PYTHONHASHSEED": seed, "SAKER_COMPILE": "sync"}
    ran = subprocess.run([sys.executable, "-c", _PROGRAM], env=given, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_texts_are_those_of_every_process() -> None:
    first = _printed("1")
    assert first.count("kernel(") >= 6
    assert first == _printed("2")


def test_equal_layers_have_equal_kernels() -> None:
    kernels = ["kernel(" + each for each in _printed("0").split("kernel(")[1:]]
    assert len(set(kernels)) <= 2 * len(kernels) / 3
