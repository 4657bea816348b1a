"""What a user finds in the package: names, documentation, types, and errors that travel between processes."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path

import pytest

import saker

# Written in their own modules, which tell what Saker does.
WITHOUT_EXAMPLES = {"saker._stats", "saker._logs"}


def public() -> list[str]:
    return [name for name in saker.__all__ if not name.startswith("__")]


def test_dir_lists_what_is_public() -> None:
    listed = [name for name in dir(saker) if not name.startswith("_")]
    assert set(listed) == {*public(), "errors"}
    assert not [name for name in listed if name in ("torch", "from_environment")]
    assert saker._C is not None  # internals are there all the same


@pytest.mark.parametrize("name", public())
def test_everything_public_is_documented(name: str) -> None:
    value = getattr(saker, name)
    text = inspect.getdoc(value)
    assert text, f"saker.{name} has no docstring"
    if getattr(value, "__module__", "") not in WITHOUT_EXAMPLES:
        assert ">>>" in text, f"the docstring of saker.{name} has no example"
    if not inspect.isclass(value) or issubclass(value, BaseException):
        return
    for member, found in vars(value).items():
        if not member.startswith("_") and (callable(found) or isinstance(found, property)):
            assert inspect.getdoc(found), f"saker.{name}.{member} has no docstring"


def test_the_package_says_that_it_has_types() -> None:
    assert (Path(saker.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize(
    "error",
    [
        saker.Refusal("Unsupported", "text"),
        saker.CaptureError("DataDependent", "text", "aten::nonzero", "file.py", 3),
        saker.MutationError("text"),
        saker.ParseError("text", 1, 2),
        saker.RunError("text"),
        saker.BackendError("text"),
        saker.OptionError("text"),
        saker.VerifyError("text"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_are_pickled(error: BaseException) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
