"""Random programs from the command line, one for each seed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable


def tell_differences(seeds: Iterable[int], difference: Callable[[int], str | None]) -> int:
    """Prints what differs from eager mode, or raises; how many programs do."""
    failed = 0
    for seed in seeds:
        try:
            found = difference(seed)
        except Exception:
            found = f"seed {seed}: " + traceback.format_exc()
        if found:
            failed += 1
            print(found, flush=True)
    return failed
