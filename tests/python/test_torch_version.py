"""A Saker that was built against one PyTorch refuses another by a sentence, before anything of it is loaded; and only
the layer for it knows versions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import saker
from saker import _torch_version

ROOT = Path(__file__).parents[2]


def in_process(code: str) -> subprocess.CompletedProcess:
    package = str(Path(saker.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {package!r})\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_build_wrote_down_its_torch() -> None:
    built = Path(saker.__file__).with_name("torch_version.txt").read_text().strip()
    assert built == torch.__version__


@pytest.mark.parametrize("installed", ["2.12.0", "2.13.1+cpu", "2.99.0+cu140", "3.0.0", "2.13.0a0+git1234567"])
def test_another_torch_is_refused_before_the_extension_is_loaded(installed: str) -> None:
    done = in_process(
        f"""
import torch
torch.__version__ = {installed!r}
try:
    import saker
except ImportError as error:
    print(error)
print("loaded:", [name for name in sys.modules if name.startswith("saker._C")])
print("libraries:", [line for line in open("/proc/self/maps") if "libsaker" in line])
"""
    )
    assert done.returncode == 0, done.stderr
    sentence, loaded, libraries = done.stdout.splitlines()
    assert sentence == (
        f"this Saker was built against torch {torch.__version__}, and the torch that is installed is {installed}; "
        f"install torch {torch.__version__.partition('+')[0]}, or build Saker against torch {installed}"
    )
    assert (loaded, libraries) == ("loaded: []", "libraries: []")


def test_builds_of_one_release_are_the_same_release() -> None:
    _torch_version.check("2.14.1+cu130", "2.14.1+cpu")
    _torch_version.check("2.14.1", "2.14.1+cpu")
    for other in ("2.14.0+cpu", "2.14.10+cpu", "2.15.0"):
        with pytest.raises(ImportError, match=re.escape(other)):
            _torch_version.check(other, "2.14.1+cpu")


def test_a_package_without_a_build_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_torch_version, "_BUILT", tmp_path / "torch_version.txt")
    with pytest.raises(ImportError, match="has not been built"):
        _torch_version.check(torch.__version__)


def test_versions_are_asked_for_in_one_layer() -> None:
    asks = re.compile(r"SAKER_TORCH_AT_LEAST|TORCH_VERSION_(MAJOR|MINOR)")
    layer = ROOT / "src/aten/torch_version"
    files = [path for path in (ROOT / "src").rglob("*") if path.suffix in {".h", ".cpp", ".c", ".def"}]
    assert len(files) > 400
    assert [str(path) for path in files if layer not in path.parents and asks.search(path.read_text())] == []

    asks = re.compile(r"torch\.__version__\s*(<|>|==|!=|\.startswith)|at_least\(")
    helper = ROOT / "tests/python/helpers/torch_versions.py"
    files = [path for part in ("python", "tests/python", "bench") for path in (ROOT / part).rglob("*.py")]
    strays = [str(path) for path in files if asks.search(path.read_text())]
    assert strays == [str(path) for path in (helper, Path(__file__)) if str(path) in strays]
    assert str(helper) in strays
