"""A hook of MkDocs: links to files outside of docs, for readers of the repository, are plain text in the site."""

from __future__ import annotations

import re
from typing import Any

_LEADS_OUT = re.compile(r"\[([^\]]+)\]\(\.\./[^)\s]+\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    return _LEADS_OUT.sub(r"\1", markdown)
