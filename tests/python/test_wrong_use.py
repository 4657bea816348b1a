"""Wrong use of public functions: the error says what is wrong and what to do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import saker

WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: saker.set_logs(["breaks"]), TypeError, r'one string with commas, such as "breaks,recompiles", not a list'),
    (lambda: saker.set_stages(None), TypeError, "one string with commas"),
    (lambda: saker.set_stages("dump=/no/such/folder"), ValueError, "dump=/no/such/folder: there is no such folder"),
    (lambda: saker.set_stages("nonsense"), ValueError, "fuse, dump=folder"),
    (lambda: saker.capture(5), TypeError, "saker.capture takes a function or a module"),
    (lambda: saker.capture(torch.sin, torch.ones(3), dynamic=True), saker.CaptureError, r"such as \{0: 0\}, not True"),
    (lambda: saker.capture(torch.sin, torch.ones(3))(), saker.RunError, r"of the structure \(_\), and was given \(\)"),
    (
        lambda: saker.capture(lambda a, b: a + b["x"], torch.ones(3), b={"x": torch.ones(3)})(torch.ones(3)),
        saker.RunError,
        r"of the structure \(_, b=\{'x': _\}\), and was given \(_\)",
    ),
    (lambda: saker.aot_function(5), TypeError, "saker.aot_function takes a function, not a int"),
    (lambda: saker.aot_module(torch.sin), TypeError, "a torch.nn.Module is needed here, not a builtin_function"),
    (lambda: saker.aot_module_simplified(nn.ReLU(), torch.ones(3)), TypeError, r"not a Tensor: write \(x,\)"),
    (lambda: saker.aot_export_module(nn.ReLU(), torch.ones(3), trace_joint=False), TypeError, r"write \(x,\)"),
    (lambda: saker.aot_export_module(torch.sin, (torch.ones(3),), trace_joint=False), TypeError, "is needed here"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_use_says_what_to_do(number: int) -> None:
    call, kind, text = WRONG[number]
    with pytest.raises(kind, match=text):
        call()
