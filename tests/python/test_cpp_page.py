"""docs/cpp.md shows the program that `make test-example` builds and runs, and names what the header has."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cpp.md").read_text()
HEADER = (ROOT / "include" / "saker" / "saker.h").read_text()


def test_the_program_on_the_page_is_the_one_that_runs() -> None:
    program = re.search(r"```cpp\n(.*?)```", PAGE, re.DOTALL)
    assert program
    assert program[1] == (ROOT / "examples" / "cpp" / "compile.cpp").read_text()
    assert "build/example/compile" in (ROOT / "Makefile").read_text()


def test_every_option_is_on_the_page() -> None:
    options = re.search(r"struct CompileOptions \{(.*?)\n\};", HEADER, re.DOTALL)
    assert options
    names = re.findall(r"^  [\w:<>() ]+ (\w+) = ", options[1], re.MULTILINE)
    assert {"fullgraph", "sizes", "limit", "memoryBudget", "names", "state", "compileSmall"} == set(names)
    for name in names:
        assert f"`{name}`" in PAGE, name


def test_what_is_installed_is_all_that_the_header_includes() -> None:
    installed = re.search(r"install\(FILES (include/saker/[^)]*?) DESTINATION", (ROOT / "CMakeLists.txt").read_text())
    assert installed
    headers = {str(path.relative_to(ROOT)) for path in (ROOT / "include" / "saker").glob("*.h")}
    assert set(installed[1].split()) == headers
