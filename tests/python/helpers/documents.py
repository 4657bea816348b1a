"""The documents as tests see them: their links, their headings, and their blocks of code with what is said about each.

Comments in front of a block, which readers do not see, say what a test does with it:

    <!-- not run: why -->       the block is not run; the test prints why
    <!-- run if: expression --> the block is run where this holds after the blocks before it
    <!-- output -->             the block is what the last Python block prints; "..." stands for anything
    <!-- run before: code -->   not shown, and run as if it stood here
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from pathlib import Path

ROOT = Path(__file__).parents[3]

FENCE = re.compile(r"(?ms)^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```[ ]*$")
COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]\n]*(?:\n[^\]\n]+)?\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#{1,6}) +(.+?) *#*$", re.MULTILINE)
INDENTED = re.compile(r"(?:^ {4,}\S.*\n)+", re.MULTILINE)


@dataclasses.dataclass
class Block:
    """A block of code of a document. `line` is that of its first line of code, counted from 1."""

    language: str
    code: str
    line: int
    not_run: str = ""  # why
    condition: str = ""
    output: bool = False  # it is what the Python block before it prints
    hidden: bool = False


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def blocks(text: str) -> list[Block]:
    """The fenced blocks and hidden ones of a document, in their order."""
    found: list[tuple[int, Block]] = []
    fences = list(FENCE.finditer(text))

    def in_code(place: int) -> bool:
        return any(each.start() <= place < each.end() for each in fences)

    notes = [each for each in COMMENT.finditer(text) if not in_code(each.start())]
    for note in notes:
        if note[1].strip().startswith("run before:"):
            start = note.start(1) + note[1].index("run before:") + len("run before:")
            code = text[start : note.end(1)]
            found.append((note.start(), Block("python", code.strip("\n ") + "\n", _line(text, start), hidden=True)))
            lead = len(code) - len(code.lstrip("\n"))
            found[-1][1].line += lead
    for fence in fences:
        code = "".join(line.removeprefix(fence["indent"]) for line in fence["code"].splitlines(keepends=True))
        block = Block(fence["language"], code, _line(text, fence.start("code")))
        for note in notes:
            said = note[1].strip()
            before = note.end() <= fence.start() and not text[note.end() : fence.start()].strip()
            if before and not said.startswith("run before:"):
                if said == "output":
                    block.output = True
                elif said.startswith("not run:"):
                    block.not_run = " ".join(said.removeprefix("not run:").split())
                elif said.startswith("run if:"):
                    block.condition = said.removeprefix("run if:").strip()
                else:
                    raise ValueError(f"line {_line(text, note.start())}: no such note on a block: {said!r}")
        found.append((fence.start(), block))
    return [block for _, block in sorted(found, key=lambda each: each[0])]


def without_code(text: str) -> str:
    """The document with code and comments left blank, each line where it was."""

    def blank(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n")

    return re.sub(r"`[^`\n]+`", "`code`", COMMENT.sub(blank, FENCE.sub(blank, text)))


def links(text: str) -> list[str]:
    return LINK.findall(without_code(text))


def _plain(heading: str) -> str:
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return heading.replace("`", "").replace("*", "")


def anchors_of_github(text: str) -> set[str]:
    """What GitHub calls the headings of a document."""
    found: set[str] = set()
    for _, heading in HEADING.findall(FENCE.sub("", text)):
        slug = re.sub(r"[^\w\- ]", "", _plain(heading).strip().lower()).replace(" ", "-")
        number, unique = 0, slug
        while unique in found:
            number += 1
            unique = f"{slug}-{number}"
        found.add(unique)
    return found


def anchors_of_site(text: str) -> set[str]:
    """What MkDocs calls them."""
    found: set[str] = set()
    for _, heading in HEADING.findall(FENCE.sub("", text)):
        plain = unicodedata.normalize("NFKD", _plain(heading)).encode("ascii", "ignore").decode()
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        number, unique = 0, slug
        while unique in found:
            number += 1
            unique = f"{slug}_{number}"
        found.add(unique)
    return found


def commands(text: str) -> list[str]:
    """The lines of shell in a document: those of blocks marked sh, and indented ones."""
    lines = [line for block in blocks(text) if block.language == "sh" for line in block.code.splitlines()]
    for block in INDENTED.findall(COMMENT.sub("", FENCE.sub("", text))):
        lines += block.splitlines()
    return [line.strip() for line in lines]
