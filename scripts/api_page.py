"""Prints docs/api.md, the reference of the Python package, made of its docstrings: `make api-page` writes it."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
import types
from typing import Any

import saker

# What __all__ names, in the order in which a reader wants it. A name that is in no group comes last.
GROUPS = {
    "Compiling": ["compile", "allow", "reset", "set_recompile_limit"],
    "Finding out": [
        "explain",
        "Explanation",
        "report",
        "Report",
        "reasons",
        "Reason",
        "stats",
        "set_logs",
        "set_stages",
    ],
    "Ahead-of-time autograd": ["aot_function", "aot_module", "aot_module_simplified"],
    "Graphs": ["capture", "Graph", "parse", "passes", "SymbolSpace"],
    "Exported graphs": ["aot_export_module", "aot_export_joint_simple"],
    "Running later": ["deferred"],
    "Errors": [
        "Refusal",
        "CaptureError",
        "MutationError",
        "OptionError",
        "BackendError",
        "RunError",
        "ParseError",
        "VerifyError",
    ],
    "The operator table": ["ops"],
}
LEFT_OUT = {"__version__"}


def prose(doc: str) -> list[str]:
    """A docstring as Markdown: code in backquotes, examples in blocks."""
    lines: list[str] = []
    example = False
    for line in inspect.cleandoc(doc).splitlines():
        begins = line.startswith((">>>", "..."))
        if begins and not example:
            lines += ["```text"]
        elif example and not line.strip():
            lines += ["```"]
        example = begins or (example and bool(line.strip()))
        lines.append(line if example else re.sub(r":\w+:`([^`]+)`", r"`\1`", line.replace("``", "`")))
    return [*lines, "```"] if example else lines


def _annotation(found: Any) -> str:
    return found if isinstance(found, str) else inspect.formatannotation(found)


def _parameter(found: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    text = stars.get(found.kind, "") + found.name
    if found.annotation is not found.empty:
        text += f": {_annotation(found.annotation)}"
    if found.default is found.empty:
        return text
    return f"{text} = {found.default!r}" if ":" in text else f"{text}={found.default!r}"


def signature(thing: Any) -> str:
    """The arguments and the result, one on a line where there are many."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    kinds = inspect.Parameter
    parts: list[str] = []
    before = None
    for each in found.parameters.values():
        if before is kinds.POSITIONAL_ONLY and each.kind is not before:
            parts.append("/")
        if each.kind is kinds.KEYWORD_ONLY and before not in (each.kind, kinds.VAR_POSITIONAL):
            parts.append("*")
        parts.append(_parameter(each))
        before = each.kind
    result = "" if found.return_annotation is found.empty or isinstance(thing, type) else found.return_annotation
    end = f" -> {_annotation(result)}" if result else ""
    line = f"({', '.join(parts)}){end}"
    return line if len(line) <= 90 else "(\n    " + ",\n    ".join(parts) + f",\n){end}"


def of_pybind(doc: str) -> tuple[str, str]:
    """pybind11 writes the signature into the first line of a docstring."""
    first, _, rest = doc.partition("\n")
    return (first, rest.strip()) if re.match(r"\w+\(.*\)", first) else ("", doc)


def in_one_line(doc: str) -> str:
    """A docstring without its examples."""
    lines = (line.strip() for line in doc.splitlines())
    return " ".join(line for line in lines if line and not line.startswith((">>>", "...")))


def item(text: str) -> str:
    lines = textwrap.wrap(text, 116, break_long_words=False, break_on_hyphens=False)
    return "- " + "\n  ".join(lines)


def members(cls: type) -> list[str]:
    """The public methods and properties of a class that say what they are."""
    lines = []
    for name, value in vars(cls).items():
        if name.startswith("_") and name != "__call__":
            continue
        doc = in_one_line(inspect.getdoc(value) or "")
        if isinstance(value, property):
            lines.append(item(f"`{name}`: {doc}".rstrip(": ")))
        elif isinstance(value, types.FunctionType) and doc:
            arguments = re.sub(r"^\(self(?:, )?", "(", signature(value)).replace("\n", " ")
            lines.append(item(f"`{name}{arguments}`: {doc.replace('``', '`')}"))
    if dataclasses.is_dataclass(cls):
        fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(cls))
        lines.insert(0, item(f"attributes: {fields}"))
    return ["", *lines] if lines else []


def entry(name: str, thing: Any, level: str = "###") -> list[str]:
    lines = [f"{level} {name}", ""]
    doc = thing.__doc__ or ""
    if isinstance(thing, type) and issubclass(thing, BaseException):
        bases = ", ".join(f"`{base.__name__}`" for base in thing.__bases__)
        return [*lines, f"Derives from {bases}.", "", *prose(doc), ""]
    if isinstance(thing, types.BuiltinFunctionType):
        told, doc = of_pybind(doc)
        lines += ["```text", f"saker.{told or name}", "```", ""]
    elif callable(thing) and name[0].islower():  # other classes are not made by the user
        lines += ["```text", f"saker.{name}{signature(thing)}", "```", ""]
    lines += prose(doc)
    if isinstance(thing, type):
        lines += members(thing)
    return [*lines, ""]


def module(name: str, thing: types.ModuleType) -> list[str]:
    lines = [*prose(thing.__doc__ or ""), ""]
    for each, value in vars(thing).items():
        if isinstance(value, types.FunctionType) and value.__module__ == thing.__name__ and not each.startswith("_"):
            lines += entry(f"{name}.{each}", value)
    return lines


def page() -> str:
    lines = [
        "# Python reference",
        "",
        "<!-- Made by scripts/api_page.py from the docstrings: change these, then run `make api-page`. -->",
        "",
        "All of it is in the module `saker`. What begins with an underscore is not part of it.",
        "",
    ]
    grouped = {name for names in GROUPS.values() for name in names}
    others = [name for name in saker.__all__ if name not in grouped | LEFT_OUT]
    for title, names in {**GROUPS, "More": others}.items():
        there = [name for name in names if name in saker.__all__]
        if there:
            lines += [f"## {title}", ""]
        for name in there:
            thing = getattr(saker, name)
            lines += module(name, thing) if isinstance(thing, types.ModuleType) else entry(name, thing)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
