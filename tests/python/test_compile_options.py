"""The options of ``saker.compile`` and ``saker.aot_function``: what is unknown is an error that lists what is known."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

import saker


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize("mode", ["fast", "", "Default", 3])
def test_unknown_modes(mode: Any) -> None:
    with pytest.raises(
        saker.OptionError, match=r"unknown mode .*: one of 'default', 'reduce-overhead', 'max-autotune'"
    ):
        saker.compile(double, mode=mode)
    with pytest.raises(ValueError, match="unknown mode"):
        saker.compile(mode=mode)(double)


@pytest.mark.parametrize("value", ["a", 3.0, [], 2])
@pytest.mark.parametrize("name", ["dynamic", "fullgraph", "disable"])
def test_flags_that_are_none(name: str, value: Any) -> None:
    with pytest.raises(saker.OptionError, match=rf"{name} must be True.* not "):
        saker.compile(double, **{name: value})


@pytest.mark.parametrize("mode", [None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_known_modes(mode: str | None) -> None:
    compiled = saker.compile(double, mode=mode)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


@pytest.mark.parametrize("backend", ["aten", "native", "eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", ["max_autotun", "recompile_limit", 3, "triton.cudagraph"])
def test_unknown_options(name: Any, backend: str) -> None:
    with pytest.raises(saker.OptionError, match=r"unknown option .* \('epilogue_fusion', .*'triton.cudagraphs'"):
        saker.compile(double, backend=backend, options={name: True})


@pytest.mark.parametrize(
    "name", ["epilogue_fusion", "shape_padding", "triton.cudagraphs", "trace.enabled", "max_autotune"]
)
def test_options_of_torch_compile(name: str) -> None:
    assert torch.equal(saker.compile(double, options={name: True})(torch.ones(2)), torch.full((2,), 2.0))


def test_options_that_are_no_dict() -> None:
    with pytest.raises(TypeError, match="options must be a dict, not a list"):
        saker.compile(double, options=["max_autotune"])


def test_mode_and_options() -> None:
    with pytest.raises(saker.OptionError, match="either mode or options"):
        saker.compile(double, mode="default", options={"max_autotune": True})


def test_wrong_options_are_told_although_nothing_is_compiled() -> None:
    with pytest.raises(saker.OptionError, match="unknown mode"):
        saker.compile(double, mode="fast", disable=True)


def test_a_backend_gets_its_mode_and_options() -> None:
    given: list[dict] = []

    def backend(module: Any, examples: Any, **keywords: Any) -> Any:
        given.append(keywords)
        return module

    saker.compile(double, backend=backend)(torch.ones(2))
    saker.compile(double, backend=backend, mode="max-autotune")(torch.ones(2))
    saker.compile(double, backend=backend, options={"mine": 1})(torch.ones(2))
    assert given == [{}, {"mode": "max-autotune"}, {"options": {"mine": 1}}]


def test_unknown_backends() -> None:
    with pytest.raises(
        saker.OptionError, match="unknown backend 'tensorrt': one of 'aten', 'native', 'inductor', 'aot_eager'"
    ):
        saker.compile(double, backend="tensorrt")


REGISTERED = """
import sys
import torch
import torch._dynamo
import saker

@torch._dynamo.register_backend
def mine(module, examples):
    calls.append("made")
    def run(*inputs):
        calls.append("run")
        return module(*inputs)
    return run

calls = []
compiled = saker.compile(lambda x: x * 2, backend="mine")
for _ in range(2):
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
assert calls == ["made", "run"], calls
try:
    saker.compile(lambda x: x * 2, backend="other")
except saker.OptionError as error:
    assert "registered with PyTorch: 'mine'" in str(error), error
assert "torch._inductor.compile_fx" not in sys.modules
"""

BY_ENTRY_POINT = """
import sys
import torch
import saker

compiled = saker.compile(lambda x: x * 2, backend="packaged")
assert "torch._dynamo" not in sys.modules
assert "torch._inductor" not in sys.modules
for _ in range(2):
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
import packaged_backend
assert packaged_backend.calls == ["made", "run"]
try:
    saker.compile(lambda x: x * 2, backend="other")
except saker.OptionError as error:
    assert "registered with PyTorch: 'packaged'" in str(error), error
assert "torch._inductor.compile_fx" not in sys.modules
"""

PACKAGED = """
calls = []

def compile_graph(module, examples):
    calls.append("made")
    def run(*inputs):
        calls.append("run")
        return module(*inputs)
    return run
"""


def run(program: str, folder: Path) -> None:
    code = f"import sys\nsys.path.insert(0, {str(folder)!r})\n{textwrap.dedent(program)}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr


def test_backends_registered_with_pytorch(tmp_path: Path) -> None:
    run(REGISTERED, tmp_path)


def test_backends_of_packages(tmp_path: Path) -> None:
    (tmp_path / "packaged_backend.py").write_text(PACKAGED)
    info = tmp_path / "packaged_backend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: packaged-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch_dynamo_backends]\npackaged = packaged_backend:compile_graph\n")
    run(BY_ENTRY_POINT, tmp_path)


class Scaled:
    """What a guard compares: every value of ``by`` needs a recording of its own."""

    def __init__(self) -> None:
        self.by = "0"

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * len(self.by)

    def calls(self, compiled: Any, count: int) -> None:
        for i in range(count):
            self.by = "x" * (i + 1)
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), i + 1.0))


def recordings(compiled: Any, scaled: Scaled, count: int) -> int:
    before = saker.stats()["graphs"]
    scaled.calls(compiled, count)
    return saker.stats()["graphs"] - before


@pytest.mark.parametrize("limit", [1, 3, 12])
def test_recompile_limit(limit: int, capfd: pytest.CaptureFixture[str]) -> None:
    scaled = Scaled()
    saker.set_logs()
    assert recordings(saker.compile(scaled, recompile_limit=limit), scaled, limit + 2) == limit
    [line] = capfd.readouterr().err.splitlines()
    assert re.search(f"runs eagerly for other arguments .* was recorded {limit} times?, .*recompile_limit=", line)


def test_recompile_limit_of_the_process(capfd: pytest.CaptureFixture[str]) -> None:
    scaled = Scaled()
    saker.set_logs()
    compiled = saker.compile(scaled)
    before = saker.set_recompile_limit(3)
    try:
        assert recordings(compiled, scaled, 5) == 3
        assert "was recorded 3 times" in capfd.readouterr().err
        assert saker.set_recompile_limit(10) == 3
        assert recordings(compiled, scaled, 12) == 7  # three of them are there
    finally:
        saker.set_recompile_limit(before)
    assert before == 8


@pytest.mark.parametrize(("text", "limit"), [("5", 5), ("", 8), ("0", 8), ("many", 8)])
def test_recompile_limit_by_the_environment(text: str, limit: int) -> None:
    code = "import saker; print(saker.set_recompile_limit(3))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SAKER_RECOMPILE_LIMIT": text},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == limit
    assert ("SAKER_RECOMPILE_LIMIT must be" in done.stderr) == (text in ("0", "many"))


def test_fullgraph_past_the_limit() -> None:
    scaled = Scaled()
    compiled = saker.compile(scaled, fullgraph=True, recompile_limit=2)
    scaled.calls(compiled, 2)
    scaled.by = "xxx"
    for _ in range(2):
        with pytest.raises(saker.CaptureError, match=r"was recorded 2 times, and fullgraph=True .* what kept changing"):
            compiled(torch.ones(2))
    scaled.calls(compiled, 2)  # what was recorded is replayed as ever


@pytest.mark.parametrize(
    ("limit", "error"), [(0, saker.OptionError), (-1, saker.OptionError), ("8", TypeError), (True, TypeError)]
)
def test_wrong_recompile_limits(limit: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="a recompile limit must be"):
        saker.compile(double, recompile_limit=limit)
    with pytest.raises(error, match="a recompile limit must be"):
        saker.set_recompile_limit(limit)


@pytest.mark.parametrize("budget", [-0.1, 1.1, float("nan"), float("inf"), 2])
def test_memory_budgets_that_are_none(budget: float) -> None:
    module = torch.nn.Linear(2, 2)
    for make in (
        lambda: saker.aot_function(double, memory_budget=budget),
        lambda: saker.aot_module(module, memory_budget=budget),
        lambda: saker.aot_module_simplified(module, (torch.ones(2),), memory_budget=budget),
    ):
        with pytest.raises(saker.OptionError, match="memory_budget must lie between 0 and 1"):
            make()


@pytest.mark.parametrize("budget", [0, 0.5, 1])
def test_memory_budgets(budget: float) -> None:
    x = torch.rand(3, requires_grad=True)
    y = saker.aot_function(lambda x: x.sin().exp(), memory_budget=budget)(x)
    (found,) = torch.autograd.grad(y.sum(), x)
    assert torch.allclose(found, x.cos() * x.sin().exp())


def test_settings_travel_with_a_pickled_module() -> None:
    import pickle

    made = pickle.loads(pickle.dumps(saker.compile(torch.nn.Linear(2, 2), recompile_limit=3, mode="max-autotune")))
    assert made._settings["recompile_limit"] == 3
    assert made._settings["mode"] == "max-autotune"
