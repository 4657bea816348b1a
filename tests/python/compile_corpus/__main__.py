"""python -m compile_corpus [prefix ...]: runs the programs, each in a process of its own, and says how each went.

ok: replayed, and equal to eager mode throughout; eager: equal, but not replayed; wrong: something differs; ended: the
process died. `eager.txt` lists what runs eagerly, and why. With --torch before names: which of them torch.compile
captures.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable

import torch

from . import programs
from .alike import Different, compare
from .run import observe, run
from .world import World


def judge(make: Callable[[], World]) -> str:
    try:
        replayed, why = run(make)
    except Different as difference:
        return f"wrong: {str(difference).splitlines()[0]}"
    except Exception as error:
        return f"wrong: {type(error).__name__}: {error}"
    return "ok" if replayed else f"eager: {why}"


def captured_by_torch(make: Callable[[], World]) -> bool:
    """Whether torch.compile makes one graph of a program, and does in it what eager mode does."""
    torch._dynamo.reset()
    world, eager = make(), make()
    compiled = torch.compile(world.fn, fullgraph=True, backend="eager")
    try:
        compare(observe(eager.fn, eager, 0), observe(compiled, world, 0), "")
    except Different:
        return False
    return True


def main(prefixes: list[str]) -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if prefixes[:1] == ["--torch"]:
        logging.disable(logging.CRITICAL)
        print("\n".join(name for name, make in programs() if name in prefixes and captured_by_torch(make)))
        return 0
    bad = 0
    for name, make in programs():
        if prefixes and not name.startswith(tuple(prefixes)):
            continue
        child = os.fork()
        if child == 0:
            signal.alarm(300)
            said = judge(make)
            print(f"{name}: {said}", flush=True)
            os._exit(said.startswith("wrong"))
        status = os.waitpid(child, 0)[1]
        bad += status != 0
        if os.WIFSIGNALED(status):
            print(f"{name}: ended by signal {os.WTERMSIG(status)}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
