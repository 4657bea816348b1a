"""Classes, attributes, patterns, lifetimes."""

# The programs are odd on purpose.
# ruff: noqa

import collections
import functools
import sys
import weakref

from watch_programs.registry import program


counter = 0


class Meta(type):
    @classmethod
    def __prepare__(mcs, name, bases, **kw):
        print("prepare", name, sorted(kw))
        return collections.OrderedDict()

    def __new__(mcs, name, bases, space, **kw):
        return super().__new__(mcs, name, bases, dict(space))

    def __init__(cls, name, bases, space, **kw):
        super().__init__(name, bases, space)

    def __call__(cls, *args):
        print("call", cls.__name__)
        return super().__call__(*args)


@program
def classes():
    def decorate(cls):
        cls.decorated = True
        return cls

    x = "outer"

    @decorate
    class A(metaclass=Meta, option=1):
        y: int = 1
        z = [i for i in range(3)]
        w = x

        def __init__(self, v=0):
            self.v = v

        @property
        def p(self):
            return self.v

        @p.setter
        def p(self, value):
            self.v = value * 2

        @p.deleter
        def p(self):
            print("deleted")

        @classmethod
        def c(cls):
            return cls.__name__

        @staticmethod
        def s():
            return "static"

        def __getattr__(self, name):
            if name == "magic":
                return "found"
            raise AttributeError(name)

    class B(A):
        def __init__(self):
            super().__init__(5)

        @property
        def p(self):
            return super().p + 1

        def c2(self):
            return super(B, self).c(), __class__.__name__

        x = x

    a, b = A(), B()
    a.p = 4
    del a.p
    out = [a.p, b.p, A.c(), b.c2(), A.s(), a.magic, a.decorated, B.x, A.__annotations__, b.z]
    try:
        b.p = 1
    except AttributeError as error:
        out.append(str(error))
    try:
        a.nothing
    except AttributeError as error:
        out.append(str(error))
    a.new = 1
    del a.new
    return out


@program
def slots_and_descriptors():
    class D:
        def __get__(self, obj, cls=None):
            print("get")
            return lambda *a: ("called", a)

        def __set_name__(self, owner, name):
            print("name", name)

    class A:
        __slots__ = ("a", "__weakref__")
        d = D()

        def __call__(self, x):
            return x + 1

    a = A()
    a.a = 1
    r = weakref.ref(a)
    return a.a, a.d(1), a(2), r() is a


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


@program
def matching():
    def f(v):
        match v:
            case 0 | None:
                return "zero"
            case int(n) if n > 5:
                return ("big", n)
            case int():
                return "int"
            case [1, 2, *rest]:
                return rest
            case [a, b]:
                return (b, a)
            case {"k": v, **rest}:
                return (v, rest)
            case {}:
                return "mapping"
            case Point(0, y=yy):
                return ("origin", yy)
            case Point(x, y) as p:
                return (x, y, type(p).__name__)
            case str() as s:
                return s
            case _:
                return "other"

    class BadArgs:
        __match_args__ = 3

    def bad(v):
        match v:
            case BadArgs(1):
                return 1

    def many(v):
        match v:
            case Point(1, 2, 3):
                return 1

    def twice(v):
        match v:
            case Point(1, x=1):
                return 1

    def same(v):
        a = "k"
        match v:
            case {"k": 1, Key.k: 2}:
                return 1

    class Key:
        k = "k"

    def notclass(v):
        c = 3
        match v:
            case counter.x():
                return 1
            case Key.k():
                return 2

    values = [0, None, 9, 2, [1, 2, 3], (4, 5), {"k": 1, "z": 2}, {"q": 1}, Point(0, 1), Point(1, 2), "s", 2.5, [1]]
    out = [f(v) for v in values]
    for g, v in ((bad, BadArgs()), (many, Point(1, 2)), (twice, Point(1, 2)), (same, {"k": 1}), (notclass, 1)):
        try:
            out.append(g(v))
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return out


class Tracked:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __del__(self):
        self.log.append(("del", self.name, sys._getframe(1).f_lineno))

    def __add__(self, other):
        return 1

    def __call__(self, *args, **kwargs):
        return 2


@program
def destructors():
    log = []
    x = Tracked("x", log)
    x = Tracked("y", log)
    Tracked("t", log)
    Tracked("l", log) + Tracked("r", log)
    Tracked("f", log)(Tracked("a", log), Tracked("b", log), k=Tracked("k", log))
    [Tracked("i", log), Tracked("j", log)][0]
    {Tracked("k1", log): Tracked("v1", log)}
    print(*[Tracked("s", log).name])
    del x
    for y in (Tracked(i, log) for i in range(2)):
        pass
    a, b = Tracked("p", log), Tracked("q", log)
    (lambda *z: None)(*(Tracked(c, log) for c in "uv"))

    def raising():
        z = Tracked("z", log)
        raise ValueError

    try:
        raising()
    except ValueError:
        log.append("caught")
    del a, b, y
    return [(kind if isinstance(kind, str) else kind[:2]) for kind in log]


@program
def references():
    x = object()

    def f(a, *rest, k=None):
        return sys.getrefcount(a), k and sys.getrefcount(k), [sys.getrefcount(r) for r in rest]

    spread = []
    if sys.version_info < (
        3,
        12,
    ):  # 3.12 lets go of the tuple and the dict before it enters the function; a hook cannot
        spread = [f(*[x, x]), f(**{"a": x})]
    return f(x), f(x, x, k=x), sys.getrefcount(x), spread, [sys.getrefcount(y) for y in [x]]


@program
def callbacks_from_c():
    class Key:
        def __init__(self, v):
            self.v = v

        def __lt__(self, other):
            return self.v < other.v

        def __eq__(self, other):
            return self.v == other.v

        def __hash__(self):
            return hash(self.v)

        def __repr__(self):
            return f"K{self.v}"

        def __iter__(self):
            yield self.v

        def __len__(self):
            return self.v

        def __contains__(self, x):
            return x == self.v

        def __getitem__(self, i):
            if i > 2:
                raise IndexError
            return i * self.v

    ks = [Key(v) for v in (3, 1, 2)]
    out = [sorted(ks), max(ks), sorted([3, 1], key=lambda x: -x), list(map(lambda k: k.v, ks)), {ks[0]: 1}[Key(3)]]
    out += [Key(1) in ks, 3 in ks[0], list(ks[0]), len(ks[1]), [*ks[0]], functools.reduce(lambda a, b: a + b, [1, 2])]
    return out, str(ks)
