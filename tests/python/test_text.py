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


def call(*arguments, text=""):
    done = subprocess.run(
        [str(SAKER_OPT), *arguments], check=False, input=text.encode(), capture_output=True, timeout=60
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def passes_of_the_table():
    table = (ROOT / "src" / "passes" / "pass.h").read_text()
    names = re.findall(r"X\((?:void|Failure), \w+,\s*\"([\w-]+)\"", table)
    assert len(names) > 10
    return names


def options_of_the_tool():
    """The options that main compares its arguments with."""
    main = (ROOT / "tools" / "saker_opt.cpp").read_text().split("int main(")[1]
    names = re.findall(r"\"(--[\w-]+)=?\"", main)
    assert len(names) >= 9
    return names


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_everything(option):
    code, out, err = call(option)
    assert (code, err) == (0, "")
    for name in options_of_the_tool():
        assert re.search(rf"^  {name}\b", out, re.MULTILINE), name
    for name in passes_of_the_table():
        assert re.search(rf"^  {name} +\S", out, re.MULTILINE), name
    assert all(len(line) <= 120 for line in out.splitlines())


def test_the_page_names_every_option_and_pass():
    page = (ROOT / "docs" / "text-form.md").read_text()
    for name in [*options_of_the_tool(), *passes_of_the_table()]:
        assert f"`{name}" in page, name


def test_list_passes():
    code, out, err = call("--list-passes")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == passes_of_the_table()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "a file is missing"),
        (["--passes=dce"], "a file is missing"),
        (["--unknown", "-"], "unexpected argument --unknown"),
        (["one", "two"], "unexpected argument two"),
        (["--partition=1,2", "-"], "expected --partition=primals,tangents,results"),
    ],
)
def test_wrong_use_is_2(arguments, complaint):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert complaint in err


@pytest.mark.parametrize(
    ("arguments", "text", "complaint"),
    [
        (["-"], "graph @main( {", "-:1:14: error: "),
        (["/nowhere/at/all.sk"], "", "cannot be read"),
        (["--passes=nothing", "-"], "graph @main() {\n  return\n}\n", "nothing"),
    ],
)
def test_a_wrong_graph_is_1(arguments, text, complaint):
    code, out, err = call(*arguments, text=text)
    assert (code, out) == (1, "")
    assert complaint in err
