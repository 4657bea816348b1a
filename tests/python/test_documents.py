"""The documents are true as far as a machine can tell: their code runs and prints what they say, their links lead
somewhere, their commands exist, and the pages that are made of the source are those of this source."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import documents
import saker
from documents import ROOT, name, pages

PAGES = [pytest.param(page, id=name(page)) for page in pages()]
# Whose blocks all run: what a user reads first.
FIRST = ("README.md", "docs/index.md", "docs/tutorial.md", "docs/coming-from-torch-compile.md")


def in_process(*command: str, timeout: int = 600) -> subprocess.CompletedProcess:
    path = os.pathsep.join([str(Path(saker.__file__).parents[1]), str(ROOT / "tests/python/helpers")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, timeout=timeout, env=environment
    )


@pytest.mark.parametrize("page", PAGES)
def test_code_runs_and_prints_what_is_written(page: Path) -> None:
    blocks = [block for block in documents.blocks(page.read_text()) if block.language == "python"]
    if not blocks:
        pytest.skip("no Python in it")
    done = in_process(str(ROOT / "tests/python/helpers/run_page.py"), str(page))
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    run = re.findall(r":(\d+): run$", done.stdout, re.MULTILINE)
    skipped = re.findall(r":(\d+): not run: (.+)$", done.stdout, re.MULTILINE)
    assert len(run) + len(skipped) == len(blocks)
    assert all(len(why) > 10 for _, why in skipped)
    if name(page) in FIRST:
        assert all("another Saker" in why for _, why in skipped)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page: Path) -> None:
    """A block that is marked as nothing known is a slip: a test would pass over it."""
    known = {"", "python", "sh", "text", "cpp", "cmake"}
    for block in documents.blocks(page.read_text()):
        assert block.language in known, f"{name(page)}:{block.line}: {block.language!r}"
        assert not (block.not_run and block.language != "python"), f"{name(page)}:{block.line}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for link in documents.links(page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists():
            wrong.append(f"{link}: there is no such file")
        elif anchor:
            text = path.read_text()
            if anchor not in documents.anchors_of_github(text) & documents.anchors_of_site(text):
                wrong.append(f"{link}: there is no such heading")
    assert not wrong, f"{name(page)}: {wrong}"


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test", "docs", "test-wheel"} <= targets
    wrong = []
    for line in documents.commands(page.read_text()):
        if found := re.match(r"make ((?:[a-z-]+ ?)+)", line.split("#")[0]):
            wrong += [f"{line}: no target {each}" for each in found[1].split() if each not in targets]
        for path in re.findall(r"(?<![\w/.-])((?:scripts|bench|examples|tests)/[\w./-]+\.(?:py|sh))", line):
            if not (ROOT / path).exists():
                wrong.append(f"{line}: there is no {path}")
    assert not wrong, f"{name(page)}: {wrong}"


def test_the_site_has_every_page() -> None:
    listed = re.findall(r"^ +- [^:]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_the_reference_is_that_of_this_source() -> None:
    done = in_process(str(ROOT / "scripts/api_page.py"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == (ROOT / "docs/api.md").read_text(), "run `make api-page`"


def test_every_variable_of_the_environment_is_told() -> None:
    """What the package and the engine ask the environment for stands in the page about options."""
    asked: set[str] = set()
    for folder, kinds in (("src", (".cpp", ".h", ".c")), ("python", (".py",))):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in kinds:
                asked |= set(re.findall(r"(?:getenv\(|environ\.get\(|environ\[)\"(SAKER_\w+)\"", path.read_text()))
    assert {"SAKER_LOGS", "SAKER_VERIFY", "SAKER_STAGES", "SAKER_KEEP_MEMORY"} <= asked
    told = (ROOT / "docs/coming-from-torch-compile.md").read_text()
    assert not [each for each in sorted(asked) if f"`{each}" not in told]


SAMPLE = """# One `saker.x`: a - b

Text with `[no](link.md)` and a [link](other.md#two).

<!-- run before:
x = 1
-->

```python
print(x)
```

<!-- output -->
```text
1
```

<!-- not run: it needs a GPU -->
```python
1 / 0
```

<!-- run if: x > 1 -->
```python
1 / 0
```

    make demo    # a command
"""


def test_documents_are_read_as_they_are_meant() -> None:
    found = documents.blocks(SAMPLE)
    assert [(each.language, each.code, each.line) for each in found] == [
        ("python", "x = 1\n", 6),
        ("python", "print(x)\n", 10),
        ("text", "1\n", 15),
        ("python", "1 / 0\n", 20),
        ("python", "1 / 0\n", 25),
    ]
    assert [each.hidden for each in found] == [True, False, False, False, False]
    assert [each.output for each in found] == [False, False, True, False, False]
    assert found[3].not_run == "it needs a GPU"
    assert found[4].condition == "x > 1"
    assert documents.links(SAMPLE) == ["other.md#two"]
    assert documents.anchors_of_github(SAMPLE) == {"one-sakerx-a---b"}
    assert documents.anchors_of_site(SAMPLE) == {"one-sakerx-a-b"}
    assert documents.commands(SAMPLE) == ["make demo    # a command"]
    with pytest.raises(ValueError, match="no such note"):
        documents.blocks("<!-- outptu -->\n```text\n```\n")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\nx = 1\nraise KeyError(x)\n```\n", 'page.md", line 3'),
        ("```python\nprint(2)\n```\n<!-- output -->\n```text\n3\n```\n", "page.md:6: the block before it prints"),
        ("```python\nx = 2\n```\n<!-- run if: x > 1 -->\n```python\n1 / 0\n```\n", "ZeroDivisionError"),
    ],
)
def test_a_wrong_page_is_found(text: str, complaint: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    code = f"import documents, pathlib, run_page; documents.ROOT = pathlib.Path({str(tmp_path)!r}); "
    done = in_process("-c", code + f"run_page.run(pathlib.Path({str(page)!r}))")
    assert done.returncode == 1
    assert complaint in done.stderr
