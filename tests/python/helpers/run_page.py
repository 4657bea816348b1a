"""Runs the Python blocks of a document, in order and in one process, and compares what they print where it is written.

    python tests/python/helpers/run_page.py docs/tutorial.md

A block that fails ends the run with the document's own line in the traceback.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import sys
import tempfile
import types
from pathlib import Path

import documents

_LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(page: Path) -> int:
    """How many blocks were run."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main  # so that what the page defines is found by name, in pickles for example
    known = main.__dict__
    printed, count, left_out = "", 0, False
    for block in documents.blocks(page.read_text()):
        where = f"{documents.name(page)}:{block.line}"
        if block.output and left_out:
            continue
        left_out = bool(block.condition) and not eval(block.condition, known)
        if left_out:
            print(f"{where}: not run: this holds in another Saker only: {block.condition}")
        elif block.output:
            if not doctest.OutputChecker().check_output(block.code, printed, _LIKE):
                sys.exit(f"{where}: the block before it prints something else:\n{printed}")
            print(f"{where}: printed as written")
        elif block.language == "python" and block.not_run:
            print(f"{where}: not run: {block.not_run}")
        elif block.language == "python":
            # So that errors, and what Saker tells about lines, name those of the document.
            program = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                exec(program, known)
            printed = text.getvalue()
            count += 1
            print(f"{where}: run")
    return count


if __name__ == "__main__":
    document = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # for what a document writes
        run(document)
        os.chdir("/")
