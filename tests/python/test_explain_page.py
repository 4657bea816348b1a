"""The page that ``saker.explain(...).save()`` writes: complete, small, and readable in a browser.

Where Chromium is installed it draws the page, light and dark, wide and as on a phone, and tells how wide the page is;
elsewhere only the HTML is read.
"""

from __future__ import annotations

import html.parser
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
import torch

import saker

LIMIT = 100_000


def bert(width: int = 64, layers: int = 12) -> tuple[torch.nn.Module, torch.Tensor]:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=100,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        max_position_embeddings=64,
    )
    torch.manual_seed(0)
    return BertModel(config), torch.randint(0, 100, (2, 16))


def reads(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sum().item() > 0 else x < 2


class Reader(html.parser.HTMLParser):
    """Checks that what is opened is closed, and collects what a page asks for."""

    VOID = ("meta", "br", "link", "img", "hr", "input")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def told() -> saker.Explanation:
    model, ids = bert()
    return saker.explain(model)(ids)


def test_page_of_bert(told: saker.Explanation, tmp_path: Path) -> None:
    assert told.captured
    path = tmp_path / "report.html"
    told.save(path)
    page = path.read_text(encoding="utf-8")
    assert page == told.html()
    assert path.stat().st_size < LIMIT
    reader = read(page)
    tags = {tag for tag, _ in reader.seen}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed"}
    assert not re.search(r"https?://|@import|url\(", page)
    names = {attributes.get("name") for tag, attributes in reader.seen if tag == "meta"}
    assert {"viewport", "color-scheme"} <= names
    assert "prefers-color-scheme:dark" in page
    text = " ".join(reader.text)
    for part in ("BertModel", "Guards", "Graphs", "Gradients", "Operators", "Time", "encoder.layer.0."):
        assert part in text, part
    assert "more lines in .graphs[0].text" in text
    fragment = told._repr_html_()
    assert "<html" not in fragment and "<style>" in fragment
    read(f"<div>{fragment}</div>")
    assert len(fragment) < LIMIT


def test_page_of_what_is_not_captured() -> None:
    page = saker.explain(reads)(torch.ones(3)).html()
    reader = read(page)
    text = " ".join(reader.text)
    assert "depends on data" in text and "torch.where" in text
    assert "x.sum().item() &gt; 0" in page and "x < 2" in text


def test_text_of_the_program_is_no_markup() -> None:
    def odd(x: torch.Tensor, text: str) -> torch.Tensor:
        return x + len(text)

    odd.__qualname__ = "<b>odd</b>"
    told = saker.explain(odd)(torch.ones(2), text="<script>alert(1)</script>")
    reader = read(told.html())
    assert not [tag for tag, _ in reader.seen if tag == "script"]
    assert "<b>odd</b>" in " ".join(reader.text)


def browser() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not found:
        reason = "no Chromium is installed: the page was read by an HTML parser only"
        print(f"skipped the browser: {reason}")
        pytest.skip(reason)
    return found


def pixels(path: Path) -> tuple[int, int, list[bytes]]:
    """Width, bytes for each pixel, and the rows of a PNG of 8 bits a colour."""
    data = path.read_bytes()
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8 and kind in (2, 6)
    step, at, packed = (3 if kind == 2 else 4), 8, b""
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at : at + 8])
        packed += data[at + 8 : at + 8 + length] if name == b"IDAT" else b""
        at += 12 + length
    raw, rows, before = zlib.decompress(packed), [], bytes(width * step)
    for row in range(height):
        start = row * (width * step + 1)
        filtered, line = raw[start], bytearray(raw[start + 1 : start + 1 + width * step])
        for i in range(len(line)):
            left = line[i - step] if i >= step else 0
            above = before[i]
            corner = before[i - step] if i >= step else 0
            if filtered == 4:
                guess = left + above - corner
                near = min((left, above, corner), key=lambda each: abs(guess - each))
            else:
                near = (0, left, above, (left + above) // 2)[filtered]
            line[i] = (line[i] + near) % 256
        before = bytes(line)
        rows.append(before)
    return width, step, rows


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_browser(told: saker.Explanation, tmp_path: Path, scheme: str, width: int) -> None:
    """The background is that of the colour scheme, there is ink on it, and nothing is wider than the window."""
    page, shot = tmp_path / "report.html", tmp_path / "shot.png"
    # Headless Chromium has no window narrower than 500: a phone is a frame of that width.
    told.save(page)
    frame = tmp_path / "frame.html"
    frame.write_text(f'<body style="margin:0"><iframe src="report.html" style="border:0" width={width} height=700>')
    command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--screenshot={shot}"]
    command += [f"--window-size={max(width, 500)},700", f"--user-data-dir={tmp_path / 'profile'}"]
    command += [f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}"]
    done = subprocess.run([*command, frame.as_uri()], capture_output=True, text=True, check=False, timeout=120)
    assert shot.exists(), done.stderr
    _, step, rows = pixels(shot)
    corner = rows[690][:3]
    assert (max(corner) < 80) == (scheme == "dark"), f"{scheme}: {tuple(corner)}"
    ink = sum(row[x * step : x * step + 3] != corner for row in rows[::7] for x in range(0, width, 3))
    assert ink > 1000
    edge = [tuple(row[(width - 3) * step : (width - 3) * step + 3]) for row in rows]
    assert set(edge) == {tuple(corner)}, "something reaches the edge of the window"
