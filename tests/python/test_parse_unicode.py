"""Texts with other than ASCII characters are parsed, or refused with a ``ParseError`` that shows them."""

from __future__ import annotations

import pytest

import saker


@pytest.mark.parametrize(
    "text", ["é", "graph é", "graph(%é: f32[2])", "日本語", "graph(%0: f32[2]) {\n  é", "\u00ff", "a\u0301", "🙂"]
)
def test_refused(text: str) -> None:
    with pytest.raises(saker.ParseError) as raised:
        saker.parse(text)
    assert "\ufffd" not in str(raised.value)


def test_the_character_is_shown_and_counted() -> None:
    with pytest.raises(saker.ParseError, match="found 'é'") as raised:
        saker.parse("é")
    assert (raised.value.line, raised.value.column) == (1, 1)
    with pytest.raises(saker.ParseError, match="found '日'") as raised:
        saker.parse("\n  # é é é\n 日")
    assert (raised.value.line, raised.value.column) == (3, 2)
