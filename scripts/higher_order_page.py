"""Writes the table of docs/higher-order-ops.md, made of tests/python/helpers/higher_order_table.py.

`make higher-order-page` runs it; what stands outside of the two marks of the page stays as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/higher-order-ops.md"
BEGIN = (
    "<!-- Made by scripts/higher_order_page.py from tests/python/helpers/higher_order_table.py: "
    "change that, then run `make higher-order-page`. -->"
)
END = "<!-- The end of what is made. -->"


def written(text: str) -> str:
    """The page, with its table made anew."""
    sys.path.append(str(ROOT / "tests/python/helpers"))
    from higher_order_table import Table

    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{PAGE} does not have the two marks that the table stands between")
    return "\n".join([before + BEGIN, "", *Table().lines(), "", END + after])


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
