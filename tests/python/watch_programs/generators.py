"""Generators and coroutines."""

# The programs are odd on purpose.
# ruff: noqa

import asyncio
import sys

from watch_programs.registry import program


def numbers(n):
    got = None
    for i in range(n):
        got = yield i, got
    return "end"


@program
def generators():
    g = numbers(3)
    out = [next(g), g.send("a"), next(g, None), next(g, "over"), next(g, "over")]
    out.append(list(x * y for x in range(3) for y in range(2) if x))

    def delegating():
        result = yield from numbers(2)
        print("result", result)
        yield from [7, 8]
        yield from (c for c in "ab")

    out.append(list(delegating()))
    return out


@program
def generator_throw_and_close():
    out = []

    def g():
        while True:
            try:
                got = yield
                out.append(got)
            except ValueError as error:
                out.append(str(error))
                yield "handled"
            finally:
                out.append("finally")

    a = g()
    next(a)
    a.send(1)
    out.append(a.throw(ValueError("thrown")))
    next(a)
    a.close()

    def outer():
        try:
            return (yield from g())
        except KeyError as error:
            out.append(("outer", str(error)))

    b = outer()
    next(b)
    try:
        b.throw(KeyError("k"))
    except StopIteration as stop:
        out.append(stop.value)
    c = g()
    try:
        c.throw(TypeError("never started"))
    except TypeError as error:
        out.append(str(error))

    def stops():
        yield 1
        raise StopIteration(3)

    try:
        list(stops())
    except RuntimeError as error:
        out.append((str(error), repr(error.__cause__)))

    def subthrow():
        class It:
            def __iter__(self):
                return self

            def __next__(self):
                return 1

            def throw(self, *args):
                raise StopIteration("from throw")

        return (yield from It())

    s = subthrow()
    next(s)
    try:
        s.throw(ValueError)
    except StopIteration as stop:
        out.append(stop.value)
    return out


@program
def generator_inside_except():
    def g():
        yield sys.exc_info()[1] is None
        try:
            raise KeyError("inner")
        except KeyError:
            yield repr(sys.exc_info()[1])
        yield repr(sys.exc_info()[1])

    try:
        raise ValueError("outer")
    except ValueError:
        it = g()
        out = [next(it), next(it)]
    out.append(next(it))
    out.append(sys.exc_info()[1])
    return out


@program
def coroutines():
    class Wait:
        def __await__(self):
            got = yield "waiting"
            return got

    class Async:
        async def __aenter__(self):
            print("aenter")
            return "value"

        async def __aexit__(self, kind, value, tb):
            print("aexit", kind and kind.__name__)
            return True

    class Counted:
        def __init__(self):
            self.i = 0

        def __aiter__(self):
            return self

        async def __anext__(self):
            self.i += 1
            if self.i > 2:
                raise StopAsyncIteration
            return self.i

    async def agen():
        for i in range(3):
            got = yield i
            if got:
                print("got", got)
        try:
            yield "last"
        finally:
            print("agen closed")

    async def main():
        out = [await Wait()]
        async with Async() as v:
            out.append(v)
        async with Async():
            raise ValueError
        async for x in Counted():
            out.append(x)
        else:
            out.append("else")
        async for x in agen():
            out.append(x)
        out += [x async for x in agen() if x]
        g = agen()
        out.append(await g.__anext__())
        out.append(await g.asend("sent"))
        await g.aclose()
        return out

    c = main()
    out = [c.send(None)]
    try:
        c.send("answer")
    except StopIteration as stop:
        out.append(stop.value)
    return out


@program
def coroutine_errors():
    out = []

    async def run(f):
        await f()

    async def await_int():
        await 3

    async def for_int():
        async for x in 3:
            pass

    class NoNext:
        def __aiter__(self):
            return 3

    class BadNext:
        def __aiter__(self):
            return self

        def __anext__(self):
            return 3

    async def for_no_next():
        async for x in NoNext():
            pass

    async def for_bad_next():
        async for x in BadNext():
            pass

    class BadWith:
        def __aenter__(self):
            return 3

        def __aexit__(self, *args):
            return 4

    async def with_bad():
        async with BadWith():
            pass

    async def with_int():
        async with 3:
            pass

    class BadAwait:
        def __await__(self):
            return 5

    async def bad_await():
        await BadAwait()

    async def stop():
        raise StopIteration(1)

    async def agen_stop():
        async def g():
            yield 1
            raise StopAsyncIteration

        async for _ in g():
            pass

    for f in (await_int, for_int, for_no_next, for_bad_next, with_bad, with_int, bad_await, stop, agen_stop):
        try:
            run(f).send(None)
        except Exception as error:
            out.append((type(error).__name__, str(error), repr(error.__cause__)))

    async def sleepy():
        await asyncio.sleep(0)

    async def twice():
        c = sleepy()

        async def first():
            await c

        a, b = first(), first()
        a.send(None)
        try:
            b.send(None)
        except RuntimeError as error:
            out.append(str(error))
        a.close()
        b.close()

    try:
        twice().send(None)
    except StopIteration:
        pass

    def plain():
        yield from sleepy()

    try:
        list(plain())
    except TypeError as error:
        out.append(str(error))
    return out
