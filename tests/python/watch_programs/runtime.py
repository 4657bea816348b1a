"""What looks at the interpreter: frames, recursion, threads, signals, tracing."""

# The programs are odd on purpose.
# ruff: noqa

import gc
import signal
import sys
import threading

from watch_programs.registry import program


@program
def frames():
    def inner():
        f = sys._getframe()
        return f.f_lineno, f.f_back.f_code.co_name, f.f_back.f_lineno, sorted(f.f_locals)

    def gen():
        yield inner()

    class A:
        @property
        def p(self):
            return inner()

        def __add__(self, other):
            return inner()

    a = A()
    kept = sys._getframe()
    local = 5
    out = [inner(), list(gen()), a.p, a + 1, [inner() for _ in range(1)], locals()["local"], eval("local + 1")]
    del kept
    return out


@program
def kept_frame_and_traceback():
    def f(x):
        y = x + 1
        raise ValueError(y)

    try:
        f(1)
    except ValueError as error:
        tb = error.__traceback__
    lines = []
    while tb:
        lines.append((tb.tb_frame.f_code.co_name, tb.tb_lineno, sorted(map(str, tb.tb_frame.f_locals))))
        frame, tb = tb.tb_frame, tb.tb_next
    return lines, frame.f_locals, frame.f_back is None


@program
def recursion():
    def f(n):
        return 0 if n == 0 else 1 + f(n - 1)

    return f(50)


@program
def endless_recursion():
    before = sys.getrecursionlimit()
    base = 0
    frame = sys._getframe()
    while frame:
        base, frame = base + 1, frame.f_back
    sys.setrecursionlimit(base + 60)
    try:

        def f():
            return f()

        try:
            f()
        except RecursionError as error:
            text = str(error)

        class Deep:
            def __getattr__(self, name):
                return getattr(self, name + "x")

        try:
            Deep().x
        except RecursionError as error:
            text2 = str(error)[:32]  # the rest depends on how deep the caller is
        return text[:32], text2
    finally:
        sys.setrecursionlimit(before)


@program
def threads():
    out = []

    def work(i):
        total = 0
        for j in range(50):
            total += j * i
        out.append(total)

    ts = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    return sorted(out)


@program
def signals():
    got = []

    def handler(number, frame):
        got.append((number, frame.f_code.co_name))

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        for i in range(3):
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)

    def raising(number, frame):
        raise InterruptedError("from handler")

    before = signal.signal(signal.SIGUSR1, raising)
    try:
        signal.raise_signal(signal.SIGUSR1)
        got.append("not reached")
    except InterruptedError as error:
        got.append(str(error))
    finally:
        signal.signal(signal.SIGUSR1, before)
    return got


@program
def collections_of_garbage():
    died = []

    class Node:
        def __del__(self):
            died.append(1)

    for _ in range(3):
        a, b = Node(), Node()
        a.other, b.other = b, a
    del a, b
    gc.collect(0)
    return len(died)


@program
def tracing_inside():
    events = []

    def tracer(frame, event, arg):
        if frame.f_code.co_filename == __file__:
            events.append((event, frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno))
        return tracer

    def traced(x):
        y = x + 1
        for _ in range(2):
            y += 1
        return y

    def switch_on():
        sys.settrace(tracer)
        return 3

    before = sys.gettrace()
    try:
        z = switch_on()
        out = traced(z)
    finally:
        sys.settrace(before)
    return out, traced(1), events


@program
def tracing_of_the_caller():
    events = []

    def tracer(frame, event, arg):
        events.append((event, frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno))
        return tracer

    class Switch:
        @property
        def on(self):
            sys.settrace(tracer)
            sys._getframe(1).f_trace = tracer
            return 1

    def f():
        s = Switch()
        x = s.on
        x += 1
        try:
            1 / 0
        except ZeroDivisionError:
            x += 2
        sys.settrace(before)
        return x

    before = sys.gettrace()
    try:
        return f(), events
    finally:
        sys.settrace(before)


@program
def profiling_inside():
    events = []

    def profiler(frame, event, arg):
        name = arg.__name__ if event.startswith("c_") else frame.f_code.co_name
        if name in ("f", "len", "g"):
            events.append((event, name))

    def f():
        return len([1])

    def g():
        sys.setprofile(profiler)
        f()
        sys.setprofile(None)
        return f()

    return g(), events


@program
def raising_tracer():
    def tracer(frame, event, arg):
        sys.settrace(None)
        raise ValueError("from tracer")

    def f():
        return 1

    def g():
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            f()
        except ValueError as error:
            return str(error)
        finally:
            sys.settrace(before)

    return g()
