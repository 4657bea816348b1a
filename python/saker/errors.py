"""What Saker raises."""


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
