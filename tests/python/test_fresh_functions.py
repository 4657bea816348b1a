"""Functions that each call makes anew and passes in: one recording serves all of the same code, whatever they close
over, as long as nothing depends on which object they are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker
from differential import same

Tensor = torch.Tensor


class Box:
    def __init__(self, value: Any) -> None:
        self.value = value


def run(fn: Callable, calls: list[Callable[[], tuple]], *, recordings: int, **options: Any) -> None:
    """Makes each call eagerly and compiled, and counts recordings."""
    fast = saker.compile(fn, **options)
    before = saker.stats()
    for make in calls:
        same(fast(*make()), fn(*make()))
    after = saker.stats()
    assert after["graphs"] - before["graphs"] == recordings, saker.stats()["stops"]
    assert after["replays"] - before["replays"] == len(calls) - recordings


X = torch.arange(4.0)


def apply(x: Tensor, fn: Callable) -> Tensor:
    return fn(x) * 2


def test_a_lambda_of_each_call():
    run(apply, [lambda i=i: (X + i, lambda t: t + 1) for i in range(12)], recordings=1)


def test_what_it_closes_over_is_read():
    """Tensors may change, numbers are compared."""
    run(apply, [lambda i=i: (X, (lambda w: lambda t: t * w)(X + i)) for i in range(12)], recordings=1)
    run(apply, [lambda i=i: (X, (lambda n: lambda t: t * n)(float(i % 2))) for i in range(6)], recordings=2)
    boxes = [Box(torch.tensor(float(i))) for i in range(6)]
    run(apply, [lambda box=box: (X, lambda t: t * box.value) for box in boxes], recordings=1)


def test_another_code():
    def calls(i: int) -> tuple:
        return (X, (lambda t: t + 1) if i % 2 else (lambda t: t - 1))

    run(apply, [lambda i=i: calls(i) for i in range(6)], recordings=2)


def test_defaults():
    run(apply, [lambda i=i: (X, lambda t, k=X + i: t * k) for i in range(6)], recordings=1)
    run(apply, [lambda i=i: (X, lambda t, *, k=X + i: t * k) for i in range(6)], recordings=1)
    run(apply, [lambda i=i: (X, lambda t, k=i % 2: t * k) for i in range(6)], recordings=2)
    made = [lambda t, k=3: t * k for _ in range(3)]
    made[1].__defaults__ = (4,)
    made[2].__defaults__ = (5, 6)[:1]
    run(apply, [lambda f=f: (X, f) for f in made], recordings=3)


def test_code_that_is_replaced():
    made = [lambda t: t + 1 for _ in range(3)]
    made[1].__code__ = (lambda t: t - 1).__code__
    run(apply, [lambda f=f: (X, f) for f in made], recordings=2)


def test_other_globals():
    code = compile("f = lambda t: t * scale", "<made>", "exec")

    def make(scale: float) -> Callable:
        names: dict[str, Any] = {"scale": scale}
        exec(code, names)
        return names.pop("f")

    run(apply, [lambda i=i: (X, make(float(i))) for i in range(3)], recordings=3)


def test_functions_in_functions():
    def wrap(inner: Callable) -> Callable:
        return lambda t: inner(t) + 1

    run(apply, [lambda i=i: (X, wrap(wrap(lambda t: t * 3))) for i in range(6)], recordings=1)
    run(apply, [lambda i=i: (X, wrap(wrap((lambda t: t * 3) if i < 3 else torch.sin))) for i in range(6)], recordings=2)


def test_functions_in_containers():
    def fn(x: Tensor, hooks: list[Callable], named: dict[str, Callable]) -> Tensor:
        for hook in hooks:
            x = hook(x)
        return named["end"](x)

    def call(i: int) -> tuple:
        return X + i, [lambda t: t + 1, lambda t: t * 2], {"end": lambda t: t.sum()}

    run(fn, [lambda i=i: call(i) for i in range(6)], recordings=1)


def test_variables_are_written():
    """A counter that the function keeps is its own."""

    def make() -> tuple[Callable, Callable]:
        total = X * 0

        def add(t: Tensor) -> Tensor:
            nonlocal total
            total = total + t
            return total

        return add, lambda: total

    def fn(x: Tensor, add: Callable) -> Tensor:
        return add(x) + add(x * 2)

    fast = saker.compile(fn)
    before = saker.stats()["replays"]
    for i in range(4):
        (one, told), (other, told_other) = make(), make()
        for _ in range(2):
            same(fast(X + i, one), fn(X + i, other))
        same(told(), told_other())
    assert saker.stats()["replays"] - before == 7


def test_two_that_share_a_variable():
    def make(shared: bool) -> tuple[Callable, Callable]:
        def pair() -> tuple[Callable, Callable]:
            held = X

            def put(t: Tensor) -> None:
                nonlocal held
                held = t

            return put, lambda: held

        put, get = pair()
        return put, get if shared else pair()[1]

    def fn(x: Tensor, put: Callable, get: Callable) -> Tensor:
        put(x * 2)
        return get() + 1

    run(fn, [lambda i=i: (X + i, *make(i % 2 == 0)) for i in range(8)], recordings=2)


def test_it_is_given_back():
    def fn(x: Tensor, f: Callable, box: Box) -> Any:
        box.value = f
        return f(x), f, [f], functools.partial(f, x)

    fast = saker.compile(fn)
    before = saker.stats()["replays"]
    for i in range(4):
        made, box = (lambda t: t + 1), Box(None)
        y, f, (g,), partial = fast(X + i, made, box)
        same(y, X + i + 1)
        assert f is made and g is made and box.value is made and partial.func is made
    assert saker.stats()["replays"] - before == 3


# --- which object it is decides something ---

KNOWN = [lambda t: t + 1 for _ in range(3)]
TABLE = {f: float(i) for i, f in enumerate(KNOWN)}


def identity(x: Tensor, f: Callable) -> Any:
    return f(x), f is KNOWN[0]


def equality(x: Tensor, f: Callable) -> Any:
    return f(x), f == KNOWN[1]


def key(x: Tensor, f: Callable) -> Any:
    return f(x) * TABLE.get(f, 7.0)


def member(x: Tensor, f: Callable) -> Any:
    return f(x), f in KNOWN[1:], f in set(KNOWN[:1])


def address(x: Tensor, f: Callable) -> Any:
    return f(x), id(f), hash(f)


def text(x: Tensor, f: Callable) -> Any:
    return f(x), repr(f), str(f)


def name(x: Tensor, f: Callable) -> Any:
    return f(x), f.__name__, f.__qualname__, f.__doc__, f.__defaults__


def attribute(x: Tensor, f: Callable) -> Any:
    return f(x), getattr(f, "scale", 3.0)


def position(x: Tensor, f: Callable) -> Any:
    return f(x), KNOWN.index(f) if f in KNOWN else -1


def count(x: Tensor, f: Callable) -> Any:
    return f(x), KNOWN.count(f)


PROGRAMS = [identity, equality, key, member, address, text, name, attribute, position, count]


@pytest.mark.parametrize("fn", PROGRAMS, ids=[fn.__name__ for fn in PROGRAMS])
def test_identity_is_seen(fn):
    fast = saker.compile(fn)
    scaled = eval(compile("lambda t: t + 1", __file__, "eval"), globals())
    for _ in range(2):
        for f in [*KNOWN, lambda t: t + 1, scaled]:
            same(fast(X, f), fn(X, f))
            f.scale = 5.0
            same(fast(X, f), fn(X, f))
            f.__name__, f.__doc__ = "other", "text"
            same(fast(X, f), fn(X, f))
            del f.scale


def test_two_arguments_are_one():
    def fn(x: Tensor, f: Callable, g: Callable) -> Any:
        return f(x) + g(x), f is g

    one, other = KNOWN[0], KNOWN[1]
    fast = saker.compile(fn)
    for f, g in [(one, one), (one, other), (other, other), (other, one)] * 2:
        same(fast(X, f, g), fn(X, f, g))


GLOBAL = KNOWN[0]


def test_a_global_that_is_passed_too():
    """What is known of the argument tells nothing of another function in its place, or of the global."""

    def fn(x: Tensor, f: Callable) -> Tensor:
        return f(x) + GLOBAL(x) * 10

    global GLOBAL
    GLOBAL = make = eval(compile("lambda t: t * 2", __file__, "eval"), globals())
    try:
        fast = saker.compile(fn)
        for f in (make, make, lambda t: t * 2):
            same(fast(X, f), fn(X, f))
        make.__code__ = (lambda t: t * 3).__code__
        again = eval(compile("lambda t: t * 2", __file__, "eval"), globals())
        for f in (again, make, again):
            same(fast(X, f), fn(X, f))
    finally:
        GLOBAL = KNOWN[0]


def test_code_that_calls_from_below():
    """Functions that C code, iterators or PyTorch call."""

    def fn(x: Tensor, f: Callable) -> Any:
        rows = list(map(f, [x, x + 1]))
        best = sorted([3, 1, 2], key=lambda n: n)
        return rows, functools.reduce(lambda a, b: a + f(b), rows), best, functools.partial(f, x)()

    run(fn, [lambda i=i: (X + i, lambda t: t * 2 + 1) for i in range(4)], recordings=1)
    fast = saker.compile(fn)
    for f in [lambda t: t + 1, lambda t: t + 2, lambda t: t + 1]:
        got, wanted = fast(X, f), fn(X, f)
        same(got, wanted)


def test_wrong_arguments_are_caught():
    def fn(x: Tensor, f: Callable) -> Tensor:
        try:
            return f(x)
        except TypeError:
            return x * 0

    fast = saker.compile(fn)
    for f in [lambda t: t + 1, lambda t, u: t + u, lambda t, u=2: t + u, lambda t, u: t + u, lambda: X] * 2:
        same(fast(X, f), fn(X, f))


def test_hooks_that_are_passed_in():
    """A hook is registered as it is; it is another one in each call."""

    def fn(x: Tensor, hook: Callable) -> Tensor:
        y = x.sin()
        y.register_hook(hook)
        return (y * 2).sum()

    fast = saker.compile(fn)
    before = saker.stats()["replays"]
    for i in range(4):
        one, other = X.clone().requires_grad_(), X.clone().requires_grad_()
        fast(one, lambda g, i=i: g + i).backward()
        fn(other, lambda g, i=i: g + i).backward()
        same(one.grad, other.grad)
    assert saker.stats()["replays"] - before == 3


def test_methods_and_partials():
    class Scaler:
        def __init__(self, scale: float) -> None:
            self.scale = torch.tensor(scale)

        def __call__(self, t: Tensor) -> Tensor:
            return t * self.scale

    def add(t: Tensor, *, amount: Tensor) -> Tensor:
        return t + amount

    run(apply, [lambda i=i: (X, Scaler(float(i)).__call__) for i in range(4)], recordings=1)
    run(apply, [lambda i=i: (X, functools.partial(lambda t, u: t + u, X + i)) for i in range(4)], recordings=1)
    run(apply, [lambda i=i: (X, functools.partial(add, amount=X + i)) for i in range(4)], recordings=1)


def test_sizes_change_too():
    def fn(x: Tensor, f: Callable) -> Tensor:
        return f(x).sum(0) * x.shape[0]

    sizes = [2, 3, 5, 7, 11, 13]
    fast = saker.compile(fn)
    for n in sizes:
        w = torch.randn(3)
        same(fast(torch.ones(n, 3), lambda t: t * w), fn(torch.ones(n, 3), lambda t: t * w))
    assert len(saker.stats()) > 0


def test_functions_are_not_kept():
    import gc
    import weakref

    fast = saker.compile(apply)
    large = torch.zeros(8)
    for _ in range(3):
        made = lambda t: t + large  # noqa: E731
        fast(X[:1].expand(8), made)
        seen = weakref.ref(made)
        del made
        gc.collect()
        assert seen() is None


def test_decorators_inside():
    """functools.wraps reads the names and the dict of what it wraps."""

    def double(f: Callable) -> Callable:
        @functools.wraps(f)
        def wrapper(*args: Any) -> Any:
            return f(*args) * 2

        return wrapper

    def fn(x: Tensor, f: Callable) -> Any:
        made = double(f)
        return made(x), made.__name__, getattr(made, "mark", None)

    def call(i: int) -> tuple:
        made = lambda t: t + 1  # noqa: E731
        if i > 3:
            made.mark = i > 5
        return X + i, made

    run(fn, [lambda i=i: call(i) for i in range(9)], recordings=3)
