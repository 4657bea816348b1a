"""What Saker raises."""

import linecache

from saker._lines import here


class Refusal(RuntimeError):
    """Saker cannot do what was asked, for a reason it can name.

    ``reason`` is one of a fixed set of names, for programs ("BadArgument", "Unsupported", "DataDependent",
    "Undecided", "Overflow"); the message is for people.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class ParseError(ValueError):
    """Text that is not a graph. ``line`` and ``column`` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.message = message
        self.line = line
        self.column = column


class CaptureError(Refusal):
    """A program cannot be captured. ``operator``, ``file`` and ``line`` say what and where, as far as it is known."""

    def __init__(self, reason: str, message: str, operator: str = "", file: str | None = None, line: int = 0) -> None:
        where = f"{file}:{line}: " if file else ""
        what = f"{operator} cannot be captured: " if operator else ""
        source = linecache.getline(file, line).strip() if file else ""
        shown = f"\n    {source}" if source else ""
        RuntimeError.__init__(self, f"{where}{what}{message}{shown}")
        self.reason = reason
        self.message = message
        self.operator = operator
        self.file = file
        self.line = line


class NotTakenApart(CaptureError):
    """A function does with a tensor subclass what cannot be done with the tensors inside of it."""


class VerifyError(AssertionError):
    """With SAKER_VERIFY=1: a replay gave something else than eager mode."""


class FakeTensorError(CaptureError, AssertionError):
    """A function uses a FakeTensor, which has no data."""

    def __init__(self, message: str) -> None:
        CaptureError.__init__(self, "Unsupported", message)


class MutationError(CaptureError, AssertionError):
    """A function does to an argument what no compiled function can do again."""

    def __init__(self, message: str) -> None:
        CaptureError.__init__(self, "Unsupported", message)


class BodyError(CaptureError):
    """A function that an operator such as ``torch.cond`` is given does what it may not do there."""

    def __init__(self, operator: str, message: str) -> None:
        self.file, self.line = here()
        where = f"{self.file}:{self.line}: " if self.file else ""
        RuntimeError.__init__(self, f"{where}{operator}: {message}")
        self.reason, self.message, self.operator = "Unsupported", message, operator


class BodyAssertion(BodyError, AssertionError):
    """The same, where PyTorch raises an AssertionError."""


class BodyValueError(BodyError, ValueError):
    """The same, where PyTorch raises a ValueError."""


class BodyTypeError(BodyError, TypeError):
    """The same, where PyTorch raises a TypeError."""


class BodyIndexError(BodyError, IndexError):
    """The same, where PyTorch raises an IndexError."""


class AssignmentError(CaptureError, ValueError):
    """A module assigns tensors to attributes that are no buffers, which an exported graph cannot do."""

    def __init__(self, names: list[str]) -> None:
        listed = ", ".join(f"self.{name}" for name in names)
        message = f"what was exported has kept a tensor of the capture in {listed}; make it a buffer (register_buffer)"
        CaptureError.__init__(self, "Unsupported", message)
        self.names = names


class RunError(RuntimeError):
    """A graph was given what it was not captured for."""


class BackendError(RunError, TypeError):
    """A back end or compiler made something that cannot be used: no callable, or one with other results than the
    graph's."""


class OptionError(ValueError, RuntimeError):
    """An option that Saker does not know, or a value that it cannot have. The message lists what is known."""
