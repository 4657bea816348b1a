"""What Python programs ask about a function is answered of a compiled one as of the function itself."""

from __future__ import annotations

import asyncio
import functools
import inspect

import pytest
import torch

import saker


def plain(x, /, y=1, *, z: int = 2):
    return x * y + z


def generator(x):
    yield x * 2
    yield x * 3


async def coroutine(x):
    await asyncio.sleep(0)
    return x * 2


async def async_generator(x):
    yield x * 2


class Holder:
    async def method(self, x):
        return x + 1

    compiled = saker.compile(method)


QUESTIONS = [
    *(inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction),
    *(asyncio.iscoroutinefunction, callable, inspect.isclass, inspect.ismethod, inspect.signature),
    *(lambda f: f.__name__, lambda f: f.__qualname__, lambda f: f.__module__, lambda f: f.__doc__),
    *(lambda f: f.__annotations__, lambda f: f.__defaults__, lambda f: f.__kwdefaults__, lambda f: f.__code__),
]


@pytest.mark.parametrize("fn", [plain, generator, coroutine, async_generator], ids=lambda fn: fn.__name__)
def test_questions(fn) -> None:
    compiled = saker.compile(fn)
    for question in QUESTIONS:
        assert question(compiled) == question(fn)
        assert question(saker.compile(backend="eager")(fn)) == question(fn)
    assert inspect.iscoroutinefunction(functools.partial(compiled, 1)) == inspect.iscoroutinefunction(fn)


def test_methods() -> None:
    assert inspect.iscoroutinefunction(Holder().compiled)
    assert torch.equal(asyncio.run(Holder().compiled(torch.ones(2))), torch.full((2,), 2.0))


def test_results() -> None:
    x = torch.rand(3)
    for _ in range(3):
        assert all(map(torch.equal, saker.compile(generator)(x), generator(x)))
        assert torch.equal(asyncio.run(saker.compile(coroutine)(x)), x * 2)

        async def collect():
            return [item async for item in saker.compile(async_generator)(x)]

        assert torch.equal(asyncio.run(collect())[0], x * 2)


def test_modules_and_other_callables() -> None:
    class Callable_:
        async def __call__(self, x):
            return x

    made = saker.compile(Callable_())
    assert inspect.iscoroutinefunction(made) == inspect.iscoroutinefunction(Callable_())
    assert not inspect.iscoroutinefunction(saker.compile(torch.nn.Linear(2, 2)))
