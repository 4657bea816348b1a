"""What pip is told about the package: one version, the torch it was built against, the license. `make test-wheel`
builds a wheel and tries it."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import saker

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import package_metadata  # noqa: E402


@pytest.fixture
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_stands_in_one_place(project: dict) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", saker.__version__)
    assert "version" not in project
    assert package_metadata.dynamic_metadata({}, {})["version"] == saker.__version__
    for name in ("pyproject.toml", "CMakeLists.txt", "python/saker/__init__.py"):
        assert saker.__version__ not in (ROOT / name).read_text(), name
    assert f"\n## {saker.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_a_wheel_asks_for_its_torch_and_a_source_package_for_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    release = torch.__version__.partition("+")[0]
    assert package_metadata.dynamic_metadata({}, {})["dependencies"] == [f"torch=={release}"]
    monkeypatch.setattr(package_metadata, "_state", "sdist")
    assert package_metadata.dynamic_metadata({}, {})["dependencies"] == ["torch>=2.11,<2.16"]
    assert package_metadata.dynamic_wheel({}) == {"dependencies": True}


def test_the_license_is_named_and_there(project: dict) -> None:
    assert project["license"] == "BSD-3-Clause"
    assert all((ROOT / name).exists() for name in project["license-files"])


def test_what_is_built_is_what_is_packed() -> None:
    """Every target that is installed into a wheel is built for it."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]["build"]
    skbuild = re.search(r"if\(SKBUILD\)(.*?)\n  else\(\)", (ROOT / "CMakeLists.txt").read_text(), re.DOTALL)
    assert skbuild
    installed = " ".join(re.findall(r"install\(TARGETS ([^)]*?) DESTINATION", skbuild[1])).split()
    assert sorted(installed) == sorted(build["targets"]) == ["saker", "saker-opt", "saker_python"]
