"""``saker.deferred``: record now, run at the end of the block."""

from __future__ import annotations

import os
from types import TracebackType

from saker import _C
from saker._doors import doors


class deferred:
    """Record what PyTorch is asked to do, and run it when the block is left or data is needed.

    Inside the block operators execute nothing: sizes, dtypes, strides, autograd history and version counters are
    those of eager mode at once, and data comes at a *flush*. Leaving the block flushes; so does reading data inside of
    it (``.item()``, ``print``, ``.numpy()``, ...). After a flush every tensor is an ordinary one. Blocks nest: an inner
    one records behind what the outer one has recorded, and leaving it runs both.

    >>> with saker.deferred():
    ...     loss = model(x).sum()
    ...     loss.backward()

    Limits: memory whose bare address was taken before the block (``data_ptr()``, a DLPack capsule) shows pending writes
    only after a flush, and an operator that fails because of the data in its inputs raises at the flush.
    """

    def __init__(self) -> None:
        self._scope = _C.DeferredScope()

    def __enter__(self) -> deferred:
        self._scope.enter()
        doors.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._scope.leave()
        finally:
            doors.__exit__()

    def flush(self) -> None:
        """Run what is pending."""
        self._scope.flush()

    @property
    def pending(self) -> int:
        """The number of operators that wait."""
        return self._scope.pending()

    def stats(self) -> dict[str, int]:
        """Counts since the block was entered: operators recorded, flushes, operators that could not wait, results
        whose layout was told wrongly and had to be copied."""
        return self._scope.stats()


# A forked child gets a copy of memory, which is to be what the program has made of it so far. It has none of its
# parent's threads: it leaves the mode.
os.register_at_fork(before=_C.settle, after_in_child=_C.leave_mode)
