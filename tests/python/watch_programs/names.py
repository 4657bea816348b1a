"""Names, scopes, arguments, imports."""

# The programs are odd on purpose.
# ruff: noqa

import collections
import functools

from watch_programs.registry import program


counter = 0


@program
def unbound_names():
    out = []

    def local():
        print(x)
        x = 1

    def deleted():
        x = 1
        del x
        del x

    def free():
        def inner():
            return y

        inner()
        y = 1

    def missing():
        return no_such_name

    def delete_global():
        global no_such_global
        del no_such_global

    def delete_cell():
        def inner():
            nonlocal z
            del z
            del z

        z = 1
        inner()

    for f in (local, deleted, free, missing, delete_global, delete_cell):
        try:
            f()
        except NameError as error:
            out.append((type(error).__name__, str(error), error.name))
    return out


@program
def name_error_in_exec():
    out = []
    for text in ("x", "del x", "x = 1\nprint(x)\ndel x", "class A:\n  y = nope", "a: int = 3\nprint(__annotations__)"):
        space = {}
        try:
            exec(text, space)
        except NameError as error:
            out.append((str(error), error.name))
        out.append(sorted(k for k in space if k != "__builtins__"))
    return out


class Loud(dict):
    def __getitem__(self, key):
        print("get", key)
        return dict.__getitem__(self, key)

    def __setitem__(self, key, value):
        print("set", key)
        dict.__setitem__(self, key, value)


@program
def exec_with_mappings():
    space = Loud()
    exec("a = 1\nb = a + 1\ndef f(): return b\nprint(a)", {}, space)
    try:
        exec("import sys as s\nq", {"__builtins__": {"__import__": __import__}})
    except NameError as error:
        print(error)
    try:
        exec("import sys", {"__builtins__": {}})
    except ImportError as error:
        print(error)
    try:
        exec("class A: pass", {"__builtins__": {}})
    except NameError as error:
        print(error)
    return sorted(space)


@program
def globals_written():
    global counter
    counter = 0

    def bump():
        global counter
        counter += 1

    for _ in range(3):
        bump()
    global another
    another = 1
    del another
    return counter, "another" in globals()


@program
def closures():
    def make():
        total = 0

        def add(x):
            nonlocal total
            total += x
            return total

        return add, lambda: total

    add, get = make()
    add(1)
    add(2)
    fs = [lambda i=i: i for i in range(3)]
    gs = [lambda: j for j in range(3)]
    return get(), [f() for f in fs], [g() for g in gs]


@program
def arguments():
    def f(a, /, b, *args, c, d=4, **kwargs):
        return a, b, args, c, d, kwargs

    def g(*args, **kwargs):
        return f(*args, **kwargs)

    t = (1, 2, 3)
    d = {"c": 3, "z": 5}
    out = [f(1, 2, c=3), f(1, b=2, c=3), f(*t, **d), f(0, *t, c=1, **{"q": 1}), g(*t, **d), f(*[1, 2], c=1)]
    out.append(f(*iter(t), **collections.OrderedDict(d)))
    out.append(functools.partial(f, 1)(2, c=3))
    for call in (lambda: f(1), lambda: f(a=1, b=2, c=3), lambda: f(1, 2, c=3, b=4)):
        try:
            call()
        except TypeError as error:
            out.append(str(error))
    return out


@program
def imports():
    import os.path as p
    import xml.dom
    from collections import OrderedDict, deque as d

    out = [p.join("a", "b"), xml.dom.__name__, OrderedDict.__name__, d.__name__]
    space = {}
    exec("from math import *\nfrom os import path\nimport math as m", space)
    out.append(("sqrt" in space, "path" in space, space["m"].__name__))
    for text in (
        "import no_such_module",
        "from math import nothing",
        "from os import nothing_either",
        "from . import x",
    ):
        try:
            exec(text, {"__name__": "m", "__package__": ""})
        except ImportError as error:
            out.append((type(error).__name__, str(error), error.name, error.path is None))
    return out


@program
def decorators_and_defaults():
    def deco(*args, **kwargs):
        def wrap(f):
            @functools.wraps(f)
            def inner(*a, **k):
                return args, kwargs, f(*a, **k)

            return inner

        return wrap

    @deco(1, x=2)
    def f(a: int, b: "str" = "d", *, c=[]) -> list:
        c.append(a)
        return a, b, c

    @functools.lru_cache(None)
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return f(1), f(2, c=[]), f.__wrapped__.__annotations__, f.__name__, fib(10)
