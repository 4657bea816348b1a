"""Wrong use of public functions: the error says what is wrong and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
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
    (
        lambda: saker.aot_function(torch.sin, fw_compiller=print),
        TypeError,
        "saker.aot_function has no keyword 'fw_compiller'; did you mean 'fw_compiler'",
    ),
    (
        lambda: saker.aot_function(torch.sin, quite_other=print),
        TypeError,
        "no keyword 'quite_other'; it has fn, fw_compiler, .*, memory_budget",
    ),
    (lambda: saker.aot_module(nn.ReLU(), bw_compilr=print), TypeError, "saker.aot_module has no .* 'bw_compiler'"),
    (lambda: saker.aot_module(nn.ReLU(), fn=print), TypeError, "saker.aot_module has no keyword 'fn'"),
    (
        lambda: saker.aot_module_simplified(nn.ReLU(), [torch.ones(3)], inference_compilr=print),
        TypeError,
        "saker.aot_module_simplified has no keyword 'inference_compilr'; did you mean 'inference_compiler'",
    ),
    (
        lambda: saker.aot_export_module(nn.ReLU(), (torch.ones(3),), trace_joints=False),
        TypeError,
        "saker.aot_export_module has no keyword 'trace_joints'; did you mean 'trace_joint'",
    ),
    (
        lambda: saker.aot_export_joint_simple(torch.sin, (torch.ones(3),), joint=False),
        TypeError,
        "saker.aot_export_joint_simple has no keyword 'joint'; did you mean 'trace_joint'",
    ),
    (lambda: saker.compile(torch.sin, full_graph=True), TypeError, "saker.compile has no .*; did you mean 'fullgraph'"),
    (lambda: saker.compile(fullGraph=True), TypeError, "saker.compile has no .*; did you mean 'fullgraph'"),
    (lambda: saker.compile(torch.sin, backend="natve"), saker.OptionError, "did you mean 'native'"),
    (lambda: saker.compile(torch.sin, mode="max_autotune"), saker.OptionError, "did you mean 'max-autotune'"),
    (
        lambda: saker.compile(torch.sin, backend="native", options={"precison": "eager"}),
        saker.OptionError,
        "did you mean 'precision'",
    ),
    (
        lambda: saker.compile(torch.sin, backend="native", options={"precision": "eagr"}),
        saker.OptionError,
        "did you mean 'eager'",
    ),
    (lambda: saker.explain(torch.sin, repeats=3), TypeError, "saker.explain has no .*; did you mean 'repeat'"),
    (lambda: saker.explain(torch.sin, dynamc=True), TypeError, "saker.explain has no .*; did you mean 'dynamic'"),
    (lambda: saker.explain(torch.sin, backend="nativ"), saker.OptionError, "did you mean 'native'"),
    (lambda: saker.explain(5), TypeError, "saker.explain takes a function or a module, not a int"),
    (lambda: saker.capture(lambda x: x, torch.ones(3), dynamics={0: 0}), TypeError, "did you mean 'dynamic'"),
    (lambda: saker.capture(nn.ReLU(), torch.ones(3), dynamc={0: 0}), TypeError, "did you mean 'dynamic'"),
    (lambda: saker.set_logs("break"), ValueError, "did you mean 'breaks'"),
    (lambda: saker.set_stages("simplify,-simplfy"), ValueError, "did you mean '-simplify'"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_use_says_what_to_do(number: int) -> None:
    call, kind, text = WRONG[number]
    with pytest.raises(kind, match=text):
        call()


def test_a_keyword_of_the_function_is_not_taken_for_ours() -> None:
    graph = saker.capture(lambda x, dynamics: x * dynamics, torch.ones(3), dynamics=2)
    assert torch.equal(graph(torch.ones(3), dynamics=2), torch.full((3,), 2.0))
    anything = saker.capture(lambda **given: given["dynamics"] + 1, dynamics=torch.ones(2))
    assert torch.equal(anything(dynamics=torch.ones(2)), torch.full((2,), 2.0))


def test_keywords_of_pytorchs_functions_are_accepted() -> None:
    given = {"num_params_buffers": 0, "enable_log": False, "_disable_torch_fn_metadata_mode": True}
    assert torch.equal(saker.aot_function(torch.sin, **given)(torch.ones(2)), torch.ones(2).sin())
    call = saker.aot_module_simplified(nn.ReLU(), [torch.ones(2)], ignore_shape_env=True, compile_region_name="a")
    assert torch.equal(call(torch.ones(2)), torch.ones(2))


VARIABLES = [
    ("SAKER_LOG", "breaks", "Saker reads no variable SAKER_LOG; did you mean SAKER_LOGS?"),
    ("SAKER_RECOMPILE_LIMITS", "3", "did you mean SAKER_RECOMPILE_LIMIT?"),
    ("SAKER_VERFIY", "1", "did you mean SAKER_VERIFY?"),
    ("SAKER_STAGE", "fuse", "did you mean SAKER_STAGES?"),
    ("SAKER_LOGS", "break", "SAKER_LOGS: no such topics of logs: break"),
    ("SAKER_STAGES", "fus", "SAKER_STAGES: no such settings of stages: fus"),
    ("SAKER_STAGES", "dump=/no/such/folder", "SAKER_STAGES: dump=/no/such/folder: there is no such folder"),
    ("SAKER_CPU", "avx", "SAKER_CPU must be one of avx512, avx2, sse4, scalar, not 'avx'"),
    ("SAKER_COMPILE", "synchronous", "SAKER_COMPILE must be sync, not 'synchronous'"),
    ("SAKER_KEEP_MEMORY", "no", "SAKER_KEEP_MEMORY must be 0 or 1, not 'no'"),
]
FINE = {"SAKER_LOGS": "", "SAKER_VERIFY": "0", "SAKER_CPU": "avx2", "SAKER_STAGES": "verify", "SAKER_HOME_OF_MINE": "x"}


def warned(environment: dict[str, str]) -> str:
    """What importing Saker warns of."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SAKER_")}
    done = subprocess.run(
        [sys.executable, "-c", "import saker"], env={**kept, **environment}, capture_output=True, text=True, check=True
    )
    return done.stderr


@pytest.mark.parametrize(("name", "value", "text"), VARIABLES)
def test_a_variable_that_nobody_reads_is_told(name: str, value: str, text: str) -> None:
    assert text in warned({name: value})


def test_variables_that_are_right_are_not_told() -> None:
    assert not warned(FINE)
