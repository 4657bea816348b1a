"""The watched loop against CPython: programs run plain, watched, and watched up to every single event."""

import contextlib
import gc
import importlib
import io
import os
import sys
import threading

import pytest

import watch_programs

# Without torch: the module of scripts/build_watch.sh.
_C = importlib.import_module(os.environ.get("SAKER_WATCH_MODULE", "saker._C"))

PAST = {
    "left",
    "suspended",
    "madeFunction",
    "readAttribute",
    "called",
    "calledSpread",
    "binaryDone",
    "readItem",
    "iterated",
    "advanced",
    "imported",
    "importedFrom",
    "unseen",
}


def describe(error, known=()):
    """An exception with everything that can be seen of it."""
    if error is None or any(error is other for other in known):
        return None
    entries = []
    tb = error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if code.co_filename != __file__:
            # Not tb_lasti: CPython's own depends on which calls it has specialised.
            entries.append((code.co_qualname, tb.tb_lineno, list(code.co_positions())[tb.tb_lasti // 2]))
        tb = tb.tb_next
    known = (*known, error)
    return (
        type(error),
        str(error),
        getattr(error, "__notes__", None),
        entries,
        describe(error.__cause__, known),
        describe(error.__context__, known),
        [describe(part, known) for part in getattr(error, "exceptions", ())],
    )


def outcome(call):
    """What a program returns, prints, raises."""
    printed = io.StringIO()
    error = result = None
    with contextlib.redirect_stdout(printed):
        try:
            result = call()
        except Exception as raised:
            error = describe(raised)
    return repr(result), printed.getvalue(), error


def watched(program, counts):
    def call():
        result, counted = _C.watch_run(program)
        counts.update(counted)
        return result

    return call


def stopped(program, at):
    return lambda: _C.watch_stop_at(at, program)[0]


@pytest.mark.parametrize("program", watch_programs.PROGRAMS, ids=lambda program: program.__name__)
def test_an_observer_that_throws_disturbs_no_program(program):
    """No exception of C++ crosses CPython's frames: the program goes on unwatched."""
    expected = outcome(plain(program))
    counts = {}
    outcome(watched(program, counts))
    events = sum(counts.values())
    for at in range(1, events + 1, max(1, events // 12)):
        assert outcome(lambda at=at: _C.watch_throw_at(at, program)[0]) == expected, at


def plain(program):
    return program


@pytest.mark.parametrize("program", watch_programs.PROGRAMS, ids=lambda program: program.__name__)
def test_programs_are_the_same_watched_and_stopped_anywhere(program):
    expected = outcome(plain(program))
    assert outcome(plain(program)) == expected
    counts = {}
    assert outcome(watched(program, counts)) == expected
    # A program that raises gives no counts: then stop until nothing is left to stop at.
    events = sum(count for name, count in counts.items() if name not in PAST) if counts else 300
    assert events > 0
    for at in range(1, events + 1):
        assert outcome(stopped(program, at)) == expected, at


def test_programs_leave_no_references():
    slow = ("threads", "imports", "endless_recursion", "collections_of_garbage")
    chosen = [program for program in watch_programs.PROGRAMS if program.__name__ not in slow]
    rounds = 100

    def growth(run):
        gc.collect()
        before = sys.getallocatedblocks()
        for i in range(rounds):
            for program in chosen:
                outcome(run(program, i))
        gc.collect()
        return sys.getallocatedblocks() - before

    growth(lambda program, i: watched(program, {}))
    growth(lambda program, i: stopped(program, i + 1))
    # One object lost by one program would be as many as there are rounds. CPython's own caches grow now and then.
    allowed = rounds + max(0, growth(lambda program, i: plain(program)))
    assert min(growth(lambda program, i: watched(program, {})) for _ in range(3)) < allowed
    assert min(growth(lambda program, i: stopped(program, i + 1)) for _ in range(3)) < allowed


def test_nothing_is_watched_after_the_call():
    def f():
        return 1

    _, first = _C.watch_run(f)
    f()
    _, second = _C.watch_run(f)
    assert first == second == {"enters": 1, "left": 1}


def test_other_threads_are_not_watched():
    def work():
        for _ in range(1000):
            len([])

    def f():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    _, counts = _C.watch_run(f)
    assert counts["compares"] + counts["calls"] < 500 if "compares" in counts else counts["calls"] < 500


def test_two_threads_watch_each_its_own():
    results = []
    barrier = threading.Barrier(2)

    def f(n):
        total = 0
        for i in range(n):
            total += i
        return total

    def thread(n):
        barrier.wait()
        results.append((n, _C.watch_run(f, n)[1]["binary"]))

    threads = [threading.Thread(target=thread, args=(n,)) for n in (20000, 30000)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(results) == [(20000, 20000), (30000, 30000)]


def test_watched_calls_nest():
    def inner(x):
        return x + 1

    def outer():
        result, counts = _C.watch_run(inner, 3)
        return result * 2, counts

    (result, inside), counts = _C.watch_run(outer)
    assert result == 8
    assert inside == {"enters": 1, "left": 1, "binary": 1, "binaryDone": 1}
    assert counts["enters"] == 1 and counts["binary"] == 1


def test_a_stopped_inner_call_leaves_the_outer_watched():
    def inner(x):
        return x + 1

    def outer():
        _C.watch_stop_at(2, inner, 3)
        return 1 * inner(2)

    _, counts = _C.watch_run(outer)
    assert counts["binary"] == 2 and counts["enters"] == 2


def test_generators_are_entered_once_and_resumed():
    def numbers():
        yield 1
        yield 2

    def f():
        return [x for x in numbers()]

    _, counts = _C.watch_run(f)
    # 3.11 runs a comprehension in a frame of its own.
    assert counts["enters"] == counts["left"] == (3 if sys.version_info < (3, 12) else 2)
    assert counts["suspended"] == counts["resumes"] == 2


def test_tracing_is_told_as_unseen():
    def f():
        sys.settrace(lambda *a: None)
        sys.settrace(None)
        return 1

    before = sys.gettrace()
    _, counts = _C.watch_run(f)
    sys.settrace(before)
    assert counts["unseen"] == 1 and counts["enters"] == counts["left"]


def test_deep_recursion_goes_on_without_the_c_stack():
    def f(n):
        return 0 if n == 0 else 1 + f(n - 1)

    before = sys.getrecursionlimit()
    results = []

    def thread():
        sys.setrecursionlimit(40000)
        try:
            result, counts = _C.watch_run(f, 30000)
            results.append((result, counts.get("unseen", 0)))
        finally:
            sys.setrecursionlimit(before)

    size = threading.stack_size(4 << 20)
    try:
        t = threading.Thread(target=thread)
        t.start()
        t.join()
    finally:
        threading.stack_size(size)
    assert results == [(30000, 1)]


def test_a_keyboard_interrupt_gets_into_a_loop():
    import _thread
    import signal

    def f():
        threading.Timer(0.05, _thread.interrupt_main).start()
        while True:
            pass

    # Who starts the tests may have switched the signal off.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            _C.watch_run(f)
    finally:
        signal.signal(signal.SIGINT, before)
