"""Exceptions, context managers, exception groups."""

# The programs are odd on purpose.
# ruff: noqa

import contextlib

from watch_programs.registry import program


class Manager:
    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        print("enter", self.name)
        return self.name

    def __exit__(self, kind, value, tb):
        print("exit", self.name, kind and kind.__name__, value)
        return self.swallow


@program
def contexts():
    out = []
    with Manager("a") as a, Manager("b") as b:
        out.append((a, b))
    with Manager("c", True):
        raise ValueError("swallowed")
    try:
        with Manager("d"):
            raise KeyError("d")
    except KeyError as error:
        out.append(str(error))

    def early():
        with Manager("e"):
            return "returned"

    out.append(early())
    for i in range(3):
        with Manager(i):
            if i == 1:
                break

    @contextlib.contextmanager
    def gen():
        print("before")
        try:
            yield 5
        except ZeroDivisionError as error:
            print("caught", error)
        finally:
            print("after")

    with gen() as five:
        out.append(five)
        1 / 0
    with contextlib.ExitStack() as stack:
        out.append(stack.enter_context(Manager("stack")))
    for bad in (3, type("E", (), {"__enter__": lambda s: s})()):
        try:
            with bad:
                pass
        except (TypeError, AttributeError) as error:
            out.append((type(error).__name__, str(error)))
    return out


@program
def exceptions():
    out = []

    def f(kind):
        try:
            try:
                if kind == 0:
                    raise ValueError("zero")
                if kind == 1:
                    raise KeyError
                if kind == 2:
                    1 / 0
                if kind == 3:
                    raise TypeError("x") from ValueError("cause")
                if kind == 4:
                    return "returned"
                if kind == 5:
                    raise 3
                if kind == 6:
                    raise ValueError from 3
                if kind == 7:
                    raise OSError from None
            except ValueError as error:
                out.append(repr(error))
                raise
            except (KeyError, ZeroDivisionError) as error:
                raise RuntimeError("chained") from error
            else:
                out.append("else")
            finally:
                out.append("finally")
        except Exception as error:
            out.append((repr(error), repr(error.__cause__), repr(error.__context__), error.__suppress_context__))
            return "caught"

    for kind in range(9):
        out.append(f(kind))
    try:
        try:
            raise ValueError
        except 3:
            pass
    except TypeError as error:
        out.append((str(error), repr(error.__context__)))
    try:
        raise
    except RuntimeError as error:
        out.append(str(error))
    while True:
        try:
            break
        finally:
            out.append("break")

    def overrides():
        try:
            raise ValueError
        finally:
            return "overridden"

    class Odd(Exception):
        def __new__(cls):
            return 5

    try:
        raise Odd
    except TypeError as error:
        out.append(str(error)[:40])
    out.append(overrides())
    return out


@program
def uncaught():
    def inner(x):
        return [
            1,
            x.nothing,
        ]

    def middle(x):
        try:
            inner(x)
        except AttributeError as error:
            raise LookupError("translated") from error

    try:
        middle(3)
    finally:
        print("leaving")


@program
def uncaught_in_many_lines():
    value = {"a": [1, 2, 3]}
    return value["a"][0] + value["a"][5]


@program
def uncaught_from_comprehension():
    return [1 // (2 - x) for x in range(5)]


@program
def uncaught_from_generator():
    def g():
        yield 1
        raise ValueError("from generator")

    return list(g())


@program
def uncaught_call_with_wrong_arguments():
    def f(a):
        pass

    f(1, 2, b=3)


@program
def uncaught_context():
    try:
        raise KeyError("first")
    except KeyError:
        raise ValueError("second")


@program
def uncaught_in_with():
    with Manager("m"):
        with Manager("n"):
            raise ValueError("in with")


@program
def uncaught_reraise():
    try:
        int("x")
    except ValueError:
        try:
            int("y")
        except ValueError:
            pass
        raise


@program
def exception_groups():
    out = []

    def f(group):
        try:
            raise group
        except* ValueError as error:
            out.append(("value", repr(error)))
        except* (TypeError, KeyError) as error:
            out.append(("type", repr(error)))
            raise RuntimeError("again") from error

    for group in (
        ExceptionGroup("a", [ValueError(1), ValueError(2)]),
        ExceptionGroup("b", [ValueError(1), OSError(2)]),
        ExceptionGroup("c", [KeyError(1), ExceptionGroup("d", [ValueError(3), OSError(4)])]),
        ValueError("lone"),
        OSError("lone"),
    ):
        try:
            f(group)
            out.append("passed")
        except Exception as error:
            out.append((repr(error), repr(error.__cause__)))
            out.append([repr(e) for e in getattr(error, "exceptions", ())])

    def g():
        try:
            raise ExceptionGroup("r", [ValueError(1), TypeError(2), OSError(3)])
        except* ValueError:
            raise
        except* TypeError as error:
            raise KeyError("new")

    try:
        g()
    except BaseExceptionGroup as error:
        out.append(repr(error))
    try:
        try:
            raise ValueError
        except* ExceptionGroup:
            pass
    except TypeError as error:
        out.append(str(error))
    return out


@program
def uncaught_group():
    try:
        raise ExceptionGroup("a", [ValueError(1), OSError(2)])
    except* ValueError as error:
        error.add_note("note")
        raise
