"""Runs saker-opt on the graphs in tests/text/*.sk and saker-kernel on the kernels there, and compares what they print.

A file holds cases separated by lines `# ====`. A case is an input graph, directives in its comments, and what is
expected:

    # Title of the case.
    # passes: dce,cse
    # options: --loc
    graph @main(...) { ... }
    # ---- expected
    graph @main(...) { ... }

With `# ---- unchanged` instead, the passes must leave the graph as it is. With `# ---- error` the diagnostics follow,
with lines counted from the start of the case. SAKER_UPDATE=1 rewrites what is expected.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAKER_OPT = Path(os.environ.get("SAKER_OPT", ROOT / "build" / "saker-opt")).absolute()
SAKER_KERNEL = SAKER_OPT.with_name("saker-kernel")
UPDATE = os.environ.get("SAKER_UPDATE") == "1"
CASE_SEPARATOR = "# ====\n"
EXPECTATION = re.compile(r"^# ---- (expected|unchanged|error)\n", re.MULTILINE)


def split(case):
    """The input, the kind of the expectation, and the expectation."""
    found = EXPECTATION.search(case)
    if not found:
        raise ValueError("a case has no '# ---- expected', '# ---- unchanged' or '# ---- error':\n" + case)
    return case[: found.start()], found.group(1), case[found.end() :]


def directive(source, name):
    found = re.search(rf"^# {name}: (.*)$", source, re.MULTILINE)
    return found.group(1).strip() if found else ""


def saker_opt(source, passes=True):
    is_kernel = re.search(r"^kernel\(", source, re.MULTILINE)
    command = [str(SAKER_KERNEL if is_kernel else SAKER_OPT), "--verify", *directive(source, "options").split()]
    if passes and directive(source, "passes"):
        command.append("--passes=" + directive(source, "passes"))
    done = subprocess.run([*command, "-"], check=False, input=source.encode(), capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def answer(source, kind):
    """What saker-opt makes of the input, in the form of the expectation."""
    code, out, err = saker_opt(source)
    if kind == "error":
        assert code == 1, "an error was expected, found\n" + out
        assert out == ""
        return re.sub(r"^-:(?: error: )?", "", err, flags=re.MULTILINE)
    assert code == 0, err
    assert err == ""
    return out


def cases():
    for path in sorted((ROOT / "tests" / "text").glob("*.sk")):
        for number, case in enumerate(path.read_text().split(CASE_SEPARATOR)):
            title = re.sub(r"\W+", "-", case.split("\n", 1)[0]).strip("-")
            yield pytest.param(path, number, id=f"{path.stem}-{title}")


@pytest.mark.parametrize("path, number", cases())
def test_text(path, number):
    texts = path.read_text().split(CASE_SEPARATOR)
    source, kind, expected = split(texts[number])
    found = answer(source, kind)
    if kind == "unchanged":
        assert directive(source, "passes"), "which passes leave it unchanged?"
        assert found == saker_opt(source, passes=False)[1]
        return
    if UPDATE and found != expected:
        last = number == len(texts) - 1
        texts[number] = f"{source}# ---- {kind}\n{found}"
        path.write_text(CASE_SEPARATOR.join(texts))
        assert last or texts[number].endswith("\n")
    else:
        assert found == expected
    # Kernels are no graphs; saker-opt itself reads them back.
    if kind == "expected" and "--lower" not in directive(source, "options"):
        # What is printed reads back as the same text, with the types that are inferred where that was asked for.
        options = [option for option in ("--loc", "--infer-check") if option in directive(source, "options")]
        # A cut prints two graphs.
        graphs = re.split(r"(?<=^}\n)", found, flags=re.MULTILINE)[:-1]
        for graph in graphs:
            assert saker_opt(f"# options: {' '.join(options)}\n{graph}")[1:] == (graph, "")
