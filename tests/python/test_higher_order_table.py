"""Every cell of the table in docs/higher-order-ops.md: it is as it is marked, and the page is made of these marks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import higher_order_table as table
from torch_versions import control_flow_in_one_place, pages_are_of_this_version

pytestmark = control_flow_in_one_place

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("row", "column", "entry"), table.cells())
def test_cell(row: str, column: str, entry: str) -> None:
    table.check(row, column, entry)


def test_every_row_has_programs_or_a_reason() -> None:
    assert set(table.ROWS) == set(table.PROGRAMS) | set(table.WITHOUT_PROGRAM)
    assert not set(table.PROGRAMS) & set(table.WITHOUT_PROGRAM)
    assert {f"H{number}" for number in range(1, 40)} <= set(table.ROWS)
    assert set(table.MARKS) <= set(table.PROGRAMS)
    for marks in table.MARKS.values():
        assert set(marks) <= set(table.COLUMNS)
    assert {each.row for each in table.REJECTIONS} <= set(table.ROWS)


def test_a_mark_that_does_not_hold_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = table.Mark("refused", "for no reason")
    monkeypatch.setitem(table.MARKS, "H7", {"forward": (refused,)})
    with pytest.raises(AssertionError, match="for no reason"):
        table.check("H7", "forward", "deferred")
    monkeypatch.setitem(table.PROGRAMS, "H7", (table.PROGRAMS["H7"][0], lambda x: x + 1))
    monkeypatch.delitem(table.MARKS, "H7")
    with pytest.raises(AssertionError, match="close"):
        table.check("H7", "forward", "deferred")


@pages_are_of_this_version
def test_the_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("higher_order_page", ROOT / "scripts/higher_order_page.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = module.PAGE.read_text()
    assert text == module.written(text), "run `make higher-order-page`"
    assert text.count("\n| H") == len(table.ROWS)


_WITHOUT_COMPILER = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = {path!r}
import higher_order_table as table

for row, column, entry in table.cells():
    table._raised(row, column, entry)
    assert "torch._dynamo" not in sys.modules, (row, column, entry)
"""


def test_pytorchs_compiler_is_not_loaded() -> None:
    script = _WITHOUT_COMPILER.format(path=sys.path)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
