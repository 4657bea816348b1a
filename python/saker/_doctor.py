"""``python -m saker doctor``: what this installation is made of, what it will use, and what is missing."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import platform
import shutil
import sys

# By target of generated code: what a processor must have for it.
TARGETS = {"avx512": "x86-64-v4", "avx2": "x86-64-v3", "sse4": "x86-64-v2", "scalar": "any x86-64"}


@dataclasses.dataclass
class Finding:
    """One line of the report. ``help`` says how to get what is missing; empty: nothing is."""

    name: str
    text: str
    help: str = ""
    fails: bool = False  # Saker does not work without

    def __str__(self) -> str:
        mark = "MISSING" if self.fails else "missing" if self.help else "ok"
        line = f"{mark:8} {self.name}: {self.text}"
        return f"{line}\n{'':9}-> {self.help}" if self.help else line


def _versions() -> list[Finding]:
    import torch

    import saker

    return [
        Finding("Python", f"{platform.python_version()} ({sys.executable})"),
        Finding("PyTorch", f"{torch.__version__}, {torch.get_num_threads()} threads"),
        Finding("Saker", f"{saker.__version__} ({pathlib.Path(saker.__file__).parent})"),
    ]


def processor() -> str:
    """Its name, as the system tells it."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _code() -> list[Finding]:
    from saker import _C

    status = _C.code_status()
    found = [Finding("processor", f"{processor()}, {os.cpu_count()} cores; has {', '.join(status['supported'])}")]
    if not status["supported"]:
        found[0].help = 'generated code is for x86-64 only; use backend="aten"'
    wanted = os.environ.get("SAKER_CPU", "")
    target = Finding("generated code is for", f"{status['target']} ({TARGETS[status['target']]})")
    if wanted and wanted != status["target"]:
        have = ", ".join(status["supported"])
        target.help = f"SAKER_CPU={wanted} names no target that this processor has: one of {have}"
    elif wanted:
        target.text += ", by SAKER_CPU"
    found.append(target)
    if status["error"]:
        how = "build Saker where LLVM 22 is (apt install llvm-22-dev), or name the library in SAKER_CODEGEN_LIBRARY"
        found.append(Finding("LLVM library", status["error"], f'{how}; until then backend="native" calls operators'))
    else:
        found.append(Finding("LLVM library", status["library"]))
    sync = os.environ.get("SAKER_COMPILE") == "sync"
    where = "in the call (SAKER_COMPILE=sync)" if sync else "in the background"
    found.append(Finding("compiler threads", f"{status['threads']}, {where}"))
    functions = Finding("PyTorch's vector functions", "found" if status["vector_functions"] else "not found")
    if not status["vector_functions"]:
        functions.help = "functions without a polynomial of ours (f64, log1p, ...) are computed one number at a time"
    found.append(functions)
    return found


def opt_path() -> str | None:
    """Where ``saker-opt`` is: beside Python, on the path, or in a build of the source tree."""
    tree = pathlib.Path(__file__).resolve().parents[2] / "build" / "saker-opt"
    beside = pathlib.Path(sys.executable).parent / "saker-opt"
    for each in (os.environ.get("SAKER_OPT"), str(beside), shutil.which("saker-opt"), str(tree)):
        if each and os.access(each, os.X_OK):
            return each
    return None


def _tools() -> list[Finding]:
    path = opt_path()
    missing = "" if path else "it comes with the wheel; in the source tree: make build, or name it in SAKER_OPT"
    found = [Finding("saker-opt", path or "not found", missing)]
    settings = {name: value for name, value in os.environ.items() if name.startswith("SAKER_")}
    if settings:
        found.append(Finding("settings", ", ".join(f"{name}={value}" for name, value in sorted(settings.items()))))
    return found


def _trial() -> list[Finding]:
    """One call with generated code, against eager mode."""
    import torch

    import saker
    from saker import _C

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * 2 + 1) - x

    before, x = _C.kernels_launched(), torch.linspace(-2, 2, 1001)
    compiled = saker.compile(program, backend="native")
    compiled(x), compiled(x)
    _C.wait_for_code()
    right = torch.allclose(compiled(x), program(x), rtol=1e-5, atol=1e-6)
    launched = _C.kernels_launched() > before
    how = "with generated code" if launched else "without generated code"
    finding = Finding("a compiled call", f"{'right' if right else 'WRONG'}, {how}")
    if not right:
        finding.help, finding.fails = "please report this, with what is printed here", True
    elif not launched:
        finding.help = _C.code_error() or "SAKER_STAGES switches it off"
    return [finding]


def findings() -> list[Finding]:
    """Everything that is looked at, in the order in which it is printed."""
    return [*_versions(), *_code(), *_tools(), *_trial()]


def doctor() -> int:
    """Prints what was found; 1 where Saker does not work."""
    found = findings()
    for each in found:
        print(each)
    return 1 if any(each.fails for each in found) else 0
