"""What Saker raises. All of it can be pickled, as it must be where a worker raises it."""

import linecache
from typing import Any

from saker._lines import here


def _made_again(kind: type[BaseException], args: tuple, state: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class Refusal(RuntimeError):
    """Saker cannot do what was asked, for a reason it can name.

    >>> try:
    ...     saker.capture(fn, x)
    ... except saker.Refusal as error:
    ...     print(error.reason, error.message)

    ``reason`` is one of a fixed set of names, for programs ("BadArgument", "Unsupported", "DataDependent",
    "Undecided", "Overflow"); the message is for people.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message

    def __reduce__(self) -> Any:
        return _made_again, (type(self), self.args, self.__dict__)


class ParseError(ValueError):
    """Text that is not a graph. ``line`` and ``column`` count from 1.

    >>> try:
    ...     saker.parse("graph @main(")
    ... except saker.ParseError as error:
    ...     print(error.line, error.column, error.message)
    """

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.message = message
        self.line = line
        self.column = column

    def __reduce__(self) -> Any:
        return _made_again, (type(self), self.args, self.__dict__)


class CaptureError(Refusal):
    """A program cannot be captured. ``operator``, ``file`` and ``line`` say what and where, as far as it is known.

    >>> try:
    ...     saker.compile(fn, fullgraph=True)(x)
    ... except saker.CaptureError as error:
    ...     print(error.file, error.line, error.message)
    """

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
    """With SAKER_VERIFY=1: a replay gave something else than eager mode.

    >>> os.environ["SAKER_VERIFY"] = "1"
    >>> fast = saker.compile(model)
    """


class FakeTensorError(CaptureError, AssertionError):
    """A function uses a FakeTensor, which has no data."""

    def __init__(self, message: str) -> None:
        CaptureError.__init__(self, "Unsupported", message)


class MutationError(CaptureError, AssertionError):
    """A function does to an argument what no compiled function can do again.

    >>> saker.aot_function(fn)(x)  # raises it where fn does to x what no compiled function can
    """

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
    """A graph was given what it was not captured for.

    >>> graph = saker.capture(torch.sin, torch.ones(3))
    >>> graph(torch.ones(4))  # raises it
    """


class BackendError(RunError, TypeError):
    """A back end or compiler made something that cannot be used: no callable, or one with other results than the
    graph's.

    >>> saker.compile(fn, backend=lambda module, inputs: None)(x)  # raises it
    """


class OptionError(ValueError, RuntimeError):
    """An option that Saker does not know, or a value that it cannot have. The message lists what is known.

    >>> saker.compile(fn, backend="nativ")  # raises it
    """
