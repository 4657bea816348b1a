"""A fuzzer over pairs: a random program, and a random change of the world between two of its calls.

A world is a namespace that the subjects of a program set up; it is made twice, for a compiled program and for one that
is not. Each pair makes one change to both worlds, calls both programs twice and compares what they saw.

    PYTHONPATH=python python tests/python/helpers/fuzz_pairs.py --pairs 1000000 --seed 1 --jobs 2
    PYTHONPATH=python python tests/python/helpers/fuzz_pairs.py --reproduce 12345 --verbose

The exit code is 1 where a difference was found; its seed reproduces it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import math
import multiprocessing
import random
import sys
import time
import types
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

import fuzz_world  # noqa: F401  (it adds its subjects)
import saker
from fuzz_subjects import SUBJECTS, Subject

PAIRS_OF_A_PROGRAM = 40
FORGOTTEN_AFTER = 6  # pairs: a function is recorded eight times at most
_PLACES = ("global", "argument", "closure")
_THREAD = ThreadPoolExecutor(1)


def rng_k(rng: random.Random | None) -> int:
    return rng.randrange(4) if rng else 3


class Restored:
    """Puts back what `shared` changes of the subject "replaced" have set."""

    def __init__(self) -> None:
        from torch.nn import functional

        owners = [torch.Tensor, torch.nn.Linear, torch.nn.Module, torch.nn.Parameter, functional, torch, math]
        self.before = [(owner, dict(vars(owner))) for owner in owners]

    def __call__(self) -> None:
        for owner, before in self.before:
            now = vars(owner)
            for name in [name for name in now if now[name] is not before.get(name)]:
                if name in ("__doc__", "__dict__", "__weakref__"):
                    continue
                if name in before:
                    setattr(owner, name, before[name])
                else:
                    delattr(owner, name)


restore = Restored()
GETATTR = torch.nn.Module.__getattr__


@functools.cache
def _code(text: str) -> types.CodeType:
    return compile(text, "<fuzz>", "exec", dont_inherit=True)


class World:
    def __init__(self, name: str, seed: int, subjects: list[Subject]) -> None:
        self.rng = random.Random(seed)
        self.space: dict[str, Any] = {
            "__name__": __name__,
            "torch": torch,
            "rng": self.rng,
            "value": self.value,
            "tensor": self.tensor,
            "rng_k": rng_k,
            "restore": restore,
            "GETATTR": GETATTR,
            "WORLD": name,
            "view_argument": False,
            "call_in_thread": False,
            "call_in_handler": False,
            "call_without_grad": False,
            "call_with_autocast": False,
        }
        for subject in subjects:
            exec(_code(subject.setup), self.space)

    def value(self) -> Any:
        return self.rng.choice([0, 1, 2, 3, -1, 0.5, 2.0, -0.0, "a", "b", "", True, False, None, (1, 2), "text"])

    def tensor(self) -> torch.Tensor:
        return torch.full((self.rng.choice([3, 3, 1]),), float(self.rng.randrange(4)))

    def change(self, text: str) -> None:
        with contextlib.suppress(
            TypeError, AttributeError, ValueError, KeyError, RuntimeError
        ):  # it may not fit what is there now
            exec(_code(text), self.space)


def told(value: Any, depth: int = 0) -> Any:
    """What can be seen of an object, in a form that two worlds can compare."""
    kind = type(value)
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            return (kind.__name__, value.dtype, value.requires_grad, value.detach().tolist())
    if kind in (int, float, str, bool, bytes, type(None)):
        return (kind.__name__, repr(value))
    if depth > 5:
        return kind.__name__
    if isinstance(value, (list, tuple, collections.deque)):
        return (kind.__name__, [told(v, depth + 1) for v in value])
    if isinstance(value, dict):
        return (kind.__name__, [(told(k, depth + 1), told(v, depth + 1)) for k, v in value.items()])
    if isinstance(value, (set, frozenset)):
        return (kind.__name__, sorted(map(repr, value)))
    if isinstance(value, BaseException):
        return (kind.__name__, told(value.args, depth + 1), value.__cause__ is None)
    if isinstance(value, (type, types.FunctionType)):
        return (kind.__name__, value.__qualname__)
    if isinstance(value, (torch.dtype, torch.Size)):
        return repr(value)
    return kind.__name__


_STATEMENT = "    try:\n{}\n    except Exception as failure:\n        note(type(failure).__name__)\n"


def _indented(text: str) -> str:
    return "\n".join("        " + line for line in text.split("\n"))


class Program:
    """Statements over a world, as a function that finds the world in its globals, its arguments or its closure."""

    def __init__(self, statements: list[str], place: str, world: World) -> None:
        names = sorted(n for n in world.space if n.isidentifier() and not n.startswith("__"))
        code = [_code(s) for s in statements]
        used = {n for c in code for n in _names(c)}
        written = {n for c in code for n in c.co_names if f"{n} = " in "".join(statements)}
        self.names = [n for n in names if n in used and n not in written] if place != "global" else []
        self.world = world
        body = "".join(_STATEMENT.format(_indented(s)) for s in statements)
        given = "".join(f", {n}" for n in self.names) if place == "argument" else ""
        self.text = (
            f"def program(x{given}):\n    seen = []\n    def note(*v): seen.append(v)\n{body}    return x, seen\n"
        )
        if place == "closure" and self.names:
            inner = "\n".join("  " + line for line in self.text.split("\n"))
            self.text = f"def make({', '.join(self.names)}):\n{inner}\n  return program\n"
            exec(_code(self.text), world.space)
            self.fn = world.space.pop("make")(*[world.space[n] for n in self.names])
            self.names = []
        else:
            exec(_code(self.text), world.space)
            self.fn = world.space.pop("program")
            if place != "argument":
                self.names = []

    def call(self, fn: Callable, step: int) -> Any:
        space = self.world.space
        x = torch.full((3,), float(step % 3 + 1))
        if space["view_argument"]:
            x = x[:]
        args = [space[n] for n in self.names]
        return told(_surrounded(space, lambda: _outcome(fn, x, args)))


def _names(code: types.CodeType) -> set[str]:
    inner = [_names(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*inner)


def _outcome(fn: Callable, x: torch.Tensor, args: list[Any]) -> Any:
    try:
        return fn(x, *args)
    except Exception as error:
        return type(error).__name__, str(error)


def _surrounded(space: dict[str, Any], call: Callable) -> Any:
    if space["call_in_thread"]:
        return _THREAD.submit(call).result()
    if space["call_in_handler"]:
        try:
            raise OSError
        except OSError:
            return call()
    if space["call_without_grad"]:
        with torch.no_grad():
            return call()
    if space["call_with_autocast"]:
        with torch.autocast("cpu"):
            return call()
    return call()


class Found(AssertionError):
    pass


class Counts:
    def __init__(self) -> None:
        self.pairs: collections.Counter[tuple[str, str]] = collections.Counter()
        self.replayed: collections.Counter[str] = collections.Counter()
        self.seen: collections.Counter[str] = collections.Counter()

    def add(self, other: Counts) -> None:
        for name in ("pairs", "replayed", "seen"):
            getattr(self, name).update(getattr(other, name))


def follow(seed: int, counts: Counts, verbose: bool = False, pairs: int = PAIRS_OF_A_PROGRAM) -> None:
    """One program and its changes. Raises Found where the worlds part."""
    rng = random.Random(seed)
    kinds = rng.sample(sorted(SUBJECTS), rng.choice([1, 1, 2]))
    subjects = [SUBJECTS[kind] for kind in kinds]
    statements = [rng.choice(rng.choice(subjects).statements) for _ in range(rng.randrange(1, 5))]
    place = rng.choice(_PLACES)
    shared = [(kind, text, True) for kind in kinds for text in SUBJECTS[kind].shared]
    changes = [(kind, text, False) for kind in kinds for text in SUBJECTS[kind].changes]
    # "world" is told of: both have the names of their own loggers.
    mine, theirs = World("mine", seed, subjects), World("theirs", seed, subjects)
    eager, program = Program(statements, place, mine), Program(statements, place, theirs)
    compiled = saker.compile(program.fn, backend="eager", dynamic=False)
    done: list[str] = []
    try:
        for step in range(pairs):
            for again in range(2):
                before = saker.stats()["replays"]
                b = program.call(compiled, step)
                after = saker.stats()["replays"] - before
                a = eager.call(eager.fn, step)
                counts.seen[kinds[0]] += again
                counts.replayed[kinds[0]] += again and after
                if a != b:
                    report = saker._C.compiled_reports(compiled)[-1:]
                    raise Found(
                        f"seed {seed}, place {place}, step {step}, call {again}, replayed {after}, "
                        f"changes {done[-6:]}\n{program.text}\neager:    {a}\ncompiled: {b}\n{report}"
                    )
            if step % FORGOTTEN_AFTER == FORGOTTEN_AFTER - 1:
                saker._C.compiled_forget(compiled)
            kind, text, once = rng.choice(shared if shared and rng.random() < 0.3 else changes)
            done.append(text)
            if verbose:
                print(f"{step}: {text}")
            mine.change(text)
            if once:
                theirs.rng.setstate(mine.rng.getstate())
            else:
                theirs.change(text)
            counts.pairs["+".join(sorted(kinds)), kind] += 1
    finally:
        for kind in kinds:
            if SUBJECTS[kind].undo:
                mine.change(SUBJECTS[kind].undo)


def _many(seed: int, pairs: int, stop: bool) -> tuple[Counts, list[str]]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counts, found = Counts(), []
    done = 0
    while done < pairs:
        try:
            follow(seed, counts)
        except Found as difference:
            found.append(str(difference))
            if stop:
                break
        done += PAIRS_OF_A_PROGRAM
        seed += 1
    return counts, found


def run(pairs: int, seed: int, jobs: int = 1, stop: bool = True) -> tuple[Counts, list[str]]:
    """Counts of what was done, and the differences that were found."""
    if jobs == 1:
        return _many(seed, pairs, stop)
    share, step = -(-pairs // jobs), 10**9
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        parts = pool.starmap(_many, [(seed + i * step, share, stop) for i in range(jobs)])
    counts, found = Counts(), []
    for part, differences in parts:
        counts.add(part)
        found += differences
    return counts, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="go on after a difference")
    parser.add_argument("--reproduce", type=int, metavar="SEED")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    if given.reproduce is not None:
        follow(given.reproduce, Counts(), given.verbose)
        return 0
    start = time.monotonic()
    counts, found = run(given.pairs, given.seed, given.jobs, not given.all)
    seconds = time.monotonic() - start
    total = sum(counts.pairs.values())
    changes: collections.Counter[str] = collections.Counter()
    for (_, kind), number in counts.pairs.items():
        changes[kind] += number
    print("programs by subject (calls that may be replays, and were):")
    for kind in sorted(counts.seen):
        print(f"  {kind:12} {counts.seen[kind]:9} {counts.replayed[kind]:9}")
    print("changes by subject:")
    for kind in sorted(changes):
        print(f"  {kind:12} {changes[kind]:9}")
    print(f"{total} pairs, {sum(counts.replayed.values())} replays, {seconds:.0f} s, {total / seconds:.0f} pairs/s")
    for difference in found:
        print("\nDIFFERENT:", difference)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
