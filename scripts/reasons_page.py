"""Prints docs/reasons.md, made of the table of reasons (src/capture/reasons.def): `make reasons` writes it."""

from __future__ import annotations

import saker

KINDS = {
    "a segment ends here": """What came before can be replayed; this the interpreter has to do itself. A call is one
segment today, so it runs eagerly as a whole.""",
    "cannot be replayed": """What the call did, or how it leaves things, has no form that can be done again.""",
    "the recording itself runs": """The call is replayed, but its gradients are not compiled: the recording runs, and
autograd follows it as it follows eager mode. `saker.stats()["instead"]` counts these.""",
}


def cell(text: str) -> str:
    return text.replace("{}", "…").replace("|", "\\|")


def page() -> str:
    lines = [
        "# Why a call runs eagerly",
        "",
        "<!-- Made by scripts/reasons_page.py from src/capture/reasons.def: change that, then run `make reasons`. -->",
        "",
        "A notice tells the reason once for each place, `saker.explain(fn)(...)` names it with the user's file and "
        "line,",
        "`SAKER_LOGS=breaks` prints it,",
        '`fullgraph=True` raises it, and `saker.stats()["stops"]` counts by name. `saker.reasons()` gives this table',
        "to programs. Names are stable; sentences may change.",
    ]
    rows = saker.reasons()
    for kind, meaning in KINDS.items():
        lines += [
            "",
            f"## {kind[0].upper()}{kind[1:]}",
            "",
            meaning,
            "",
            "| name | sentence | what to do |",
            "|---|---|---|",
        ]
        lines += [f"| `{row.name}` | {cell(row.text)} | {cell(row.hint)} |" for row in rows if row.kind == kind]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
