"""The map in docs/architecture.md and the files under src agree: which folder includes which, and what from outside.

The table of folders there is read, so a new dependency is a change of the map, and one that points upwards is refused.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
ROW = re.compile(r"^\| `src/(\w+)` \|[^|]*\|([^|]*)\|([^|]*)\|$", re.MULTILINE)

# Kinds of headers from outside, as the table calls them. The first that matches counts.
KINDS = {
    "pybind11": re.compile(
        r"pybind11/|torch/csrc/autograd/python_|torch/csrc/utils/(pybind|python_)|torch/csrc/jit/python/"
        r"|torch/csrc/(Exceptions|PyInterpreter|Storage)\.h|torch/(extension|python)\.h"
    ),
    "CPython": re.compile(
        r"Python\.h|structmember\.h|frameobject\.h|internal/pycore|torch/csrc/utils/tensor_(numpy|memoryformats)"
        r"|torch/csrc/(Device|Dtype|DynamicTypes|Layout|MemoryFormat|Size)\.h"
    ),
    "torch": re.compile(r"torch/|ATen/|c10/|caffe2/"),
    "LLVM": re.compile(r"llvm/"),
}

# Files that include PyTorch's Python side although their folder does not, and why.
EXCEPTIONS = {
    "frontend/ambient.cpp": "asks PyTorch for its interpreter object, whose header includes pybind11",
    "frontend/guards.cpp": "unpacks tensors for every guard on one: a call through src/host would be felt",
    "frontend/memo.cpp": "unpacks tensors in every call of a compiled function",
    "frontend/subjects/nodes.cpp": "reads what the node of a torch.autograd.Function has saved, a struct of PyTorch's",
    "frontend/verify.cpp": "imports and calls the package's comparison",
}


class Map:
    """The table of folders: their order, what each may include, and which kinds of headers from outside."""

    def __init__(self, text: str) -> None:
        def names(cell: str) -> set[str]:
            return {name.strip() for name in cell.split(",") if name.strip()}

        rows = ROW.findall(text)
        self.order = [folder for folder, _, _ in rows]
        self.includes = {folder: names(cell) for folder, cell, _ in rows}
        self.outside = {folder: names(cell) for folder, _, cell in rows}


def source_files() -> dict[str, str]:
    """By path below src, the text."""
    kinds = {".h", ".c", ".cpp", ".def"}
    files = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*") if path.suffix in kinds}
    assert len(files) > 400
    return files


def problems(table: Map, files: dict[str, str], exceptions: dict[str, str]) -> list[str]:
    """What is in the files and not in the table, or in the table and not in the files."""
    found: list[str] = []
    used: dict[str, set[str]] = defaultdict(set)
    needed: set[str] = set()
    for path, text in sorted(files.items()):
        folder = path.split("/")[0]
        if folder not in table.order:
            found.append(f"src/{path}: its folder is not in the table")
            continue
        for own, outside in INCLUDE.findall(text):
            if own:
                target = own.split("/")[0]
                if target == "saker" and folder == "api":  # include/saker, the public header
                    continue
                if own not in files:
                    found.append(f'src/{path} includes "{own}": there is no such file under src')
                elif target != folder:
                    used[folder].add(target)
                    if target not in table.order[: table.order.index(folder)]:
                        found.append(f'src/{path} includes "{own}", which points upwards')
                    elif target not in table.includes[folder]:
                        found.append(f'src/{path} includes "{own}", and the row of src/{folder} does not name {target}')
                continue
            kind = next((kind for kind, headers in KINDS.items() if headers.match(outside)), None)
            if kind is None or kind in table.outside[folder]:
                continue
            if kind == "pybind11" and path in exceptions:
                needed.add(path)
                continue
            found.append(f"src/{path} includes <{outside}>, and the row of src/{folder} does not name {kind}")
    for folder in table.order:
        for name in sorted(table.includes[folder] - used[folder]):
            found.append(f"the row of src/{folder} names {name}, which none of its files includes")
    for path in sorted(exceptions.keys() - needed):
        found.append(f"src/{path} is an exception, and needs to be none")
    return found


def test_the_map_and_the_includes_agree() -> None:
    table = Map((ROOT / "docs" / "architecture.md").read_text())
    assert sorted(table.order) == sorted(path.name for path in SOURCE.iterdir() if path.is_dir())
    for path, why in EXCEPTIONS.items():
        print(f"src/{path} includes PyTorch's Python side: it {why}")
    found = problems(table, source_files(), EXCEPTIONS)
    assert not found, "\n".join(found)


def test_every_place_on_the_map_exists() -> None:
    places = re.findall(
        r"`((?:src|python|tests|docs|examples|include)/[\w./-]+)`", (ROOT / "docs/architecture.md").read_text()
    )
    assert len(places) > 60
    missing = [place for place in places if not any((ROOT / f"{place}{end}").exists() for end in ("", ".h", ".cpp"))]
    assert not missing


def test_core_and_watched_loop_know_no_torch() -> None:
    """Whatever the table says: these build without torch, and the first eleven folders without Python."""
    outside = Map((ROOT / "docs" / "architecture.md").read_text()).outside
    core = ["support", "symbolic", "ir", "ops", "passes", "lower", "autograd", "kernel"]
    assert not any(outside[folder] for folder in core)
    # LLVM is met in the library apart only.
    assert outside["codegen"] == {"LLVM"}
    for path, text in source_files().items():
        assert "<llvm/" not in text or path.startswith("codegen/llvm/"), path
    assert outside["watch"] == {"CPython"}
    assert all(outside[folder] <= {"torch"} for folder in ["aten", "runtime", "capture", "aot", "api"])
    assert [folder for folder, kinds in outside.items() if "pybind11" in kinds] == ["host", "python"]


def test_versions_are_asked_for_in_one_place_each() -> None:
    """What differs between CPython versions stands in src/watch, what differs between torch versions in its layer."""
    layers = {
        r"\b(PY_VERSION_HEX|PY_M(AJOR|INOR)_VERSION|Py_BUILD_CORE)\b": "watch/",
        r"\bTORCH_VERSION_M(AJOR|INOR)\b|\bSAKER_TORCH_(AT_LEAST|VERSION)": "aten/torch_version/",
    }
    for asks, layer in layers.items():
        found = {path for path, text in source_files().items() if re.search(rf"^\s*#.*({asks})", text, re.MULTILINE)}
        assert found
        assert all(path.startswith(layer) for path in found), sorted(found)


def test_the_build_knows_the_same_exceptions() -> None:
    """Files that include pybind11 are compiled with the precompiled header of src/python."""
    listed = re.search(r"set\(WITH_PYBIND ([^)]*)\)", (ROOT / "CMakeLists.txt").read_text())
    assert listed
    assert {f"frontend/{name}.cpp" for name in listed[1].split()} == set(EXCEPTIONS)


SMALL = "| `src/low` | x | | |\n| `src/high` | x | low | torch |\n"
FINE = {"low/a.h": "#include <vector>\n", "high/b.cpp": '#include "low/a.h"\n#include <ATen/core/Tensor.h>\n'}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, None),
        ({"low/c.h": '#include "high/b.cpp"'}, "points upwards"),
        ({"low/c.h": "#include <c10/core/Device.h>"}, "does not name torch"),
        ({"high/c.h": "#  include <pybind11/pybind11.h>"}, "does not name pybind11"),
        ({"high/c.h": "#include <torch/csrc/autograd/python_variable.h>"}, "does not name pybind11"),
        ({"high/c.h": "#include <Python.h>"}, "does not name CPython"),
        ({"high/c.h": '#include "low/gone.h"'}, "no such file"),
        ({"high/b.cpp": ""}, "names low, which none of its files includes"),
        ({"other/c.h": ""}, "its folder is not in the table"),
    ],
)
def test_the_check_finds(change: dict[str, str], complaint: str | None) -> None:
    found = problems(Map(SMALL), {**FINE, **change}, {})
    assert [complaint in each for each in found] == [True] if complaint else not found
