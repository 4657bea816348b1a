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
