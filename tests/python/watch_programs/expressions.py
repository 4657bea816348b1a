"""Expressions, displays, simple statements."""

# The programs are odd on purpose.
# ruff: noqa

from watch_programs.objects import Point
from watch_programs.registry import program


counter = 0


@program
def arithmetic():
    a, b = 7, 3
    out = [a + b, a - b, a * b, a / b, a // b, a % b, a**b, a << b, a >> b, a & b, a | b, a ^ b, -a, +a, ~a, not a]
    x = 5
    x += 1
    x -= 2
    x *= 3
    x /= 2
    x //= 2
    x %= 3
    x **= 2
    y = 6
    y <<= 2
    y >>= 1
    y &= 14
    y |= 1
    y ^= 3
    return out, x, y, 1 < a < 10, a == b, a != b, a is b, a is not b, a in [7], a not in [7]


class Matrix:
    def __matmul__(self, other):
        return "matmul"

    def __imatmul__(self, other):
        return "imatmul"

    def __radd__(self, other):
        return ("radd", other)


@program
def operators_in_python():
    m = Matrix()
    out = [m @ 1, 1 + m]
    m @= 2
    return out, m


@program
def operator_errors():
    out = []
    for f in (
        lambda: 1 + "a",
        lambda: [] < 3,
        lambda: -"a",
        lambda: 3 in 4,
        lambda: 1 / 0,
        lambda: out[None],
        lambda: (1).x,
    ):
        try:
            f()
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return out


@program
def strings():
    x, name = 3.14159, "né"
    return f"{x:.2f} {name!r} {name!a} {name!s:>6} {x!r:{'>'}{12}} {'plain'} {{}}" + f"{x}" + f"{name}"


@program
def displays():
    a, b = [1, 2], {"k": 1}
    return (
        [*a, 3],
        (*a, *a),
        {*a, 9},
        {**b, "z": 2},
        {"a": 1, "b": 2},
        [x for x in a],
        {x: x for x in a},
        {x for x in a},
    )


@program
def display_errors():
    out = []

    def f(**k):
        return k

    class Keys:
        def keys(self):
            return ["a"]

        def __getitem__(self, key):
            raise KeyError("inside", key)

    for g in (
        lambda: [*3],
        lambda: {*3},
        lambda: {**3},
        lambda: {[]: 1},
        lambda: {[]},
        lambda: f(**3),
        lambda: f(**{"a": 1}, **{"a": 2}),
        lambda: f(*3),
        lambda: f(a=1, **{"a": 1}),
        lambda: f(**{1: 2}),
        lambda: f(**Keys()),
        lambda: f(1),
        lambda: counter(),
        lambda: max(*(x for x in [1, 0, 2] if 1 / x)),
    ):
        try:
            out.append(g())
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return out


@program
def slices():
    a = list(range(10))
    a[2:4] = "xyz"
    del a[0]
    del a[1:3]
    b = a[1:], a[:2], a[::2], a[-1], a[1:5:2]
    a[0] = "first"

    class S:
        def __getitem__(self, key):
            return key

        def __setitem__(self, key, value):
            print("set", key, value)

        def __delitem__(self, key):
            print("del", key)

    s = S()
    s[1:2] = 3
    s[1:2, ...] = 4
    del s[::2]
    return a, b, s[1:2], s[:, None]


@program
def unpacking():
    a, b = 1, 2
    a, b = b, a
    c, *d, e = range(6)
    (f, g), h = "xy", [1]
    [i, *j] = {1: 2}
    out = [a, b, c, d, e, f, g, h, i, j]

    def fail(text):
        try:
            exec(text, {"gen": (x for x in range(3)), "bad": (1 / x for x in (1, 0))})
        except Exception as error:
            out.append((type(error).__name__, str(error)))

    for text in (
        "a, b = 1",
        "a, b = 1, 2, 3",
        "a, b = (1,)",
        "a, *b, c = [1]",
        "a, b = gen",
        "a, b = bad",
        "a, *b = bad",
    ):
        fail(text)
    return out


@program
def conditions():
    class Truth:
        def __init__(self, value):
            self.value = value

        def __bool__(self):
            print("asked", self.value)
            return self.value

    class Bad:
        def __bool__(self):
            raise ValueError("no truth")

    out = []
    for v in (Truth(True), Truth(False), [], [0], None, 0, 1.5):
        out.append(1 if v else 2)
        out.append(bool(v or "or"))
        out.append(bool(v and "and"))
        out.append(not v)
        if v is None:
            out.append("none")
        if v is not None and v:
            out.append("yes")
        assert v or True
    try:
        if Bad():
            pass
    except ValueError as error:
        out.append(str(error))
    i = 0
    while i < 5:
        i += 1
        if i == 2:
            continue
        if i == 4:
            break
    else:
        out.append("else")
    i = None
    while i is None:
        i = 1
    while (n := i) < 3:
        i += 1
    return out, n


@program
def assertion():
    out = []
    try:
        assert 1 == 2, "text"
    except AssertionError as error:
        out.append(str(error))
    return out


@program
def deletes():
    a = [1, 2, 3]
    b = {"x": 1}
    c = Point(1, 2)
    del a[0], b["x"], c.x
    x = 1
    del x
    out = [a, b, hasattr(c, "x")]
    for f in (lambda: a.__delitem__(9), lambda: b.pop("q"), lambda: delattr(c, "x")):
        try:
            f()
        except Exception as error:
            out.append(type(error).__name__)
    return out


@program
def wrong_iterators():
    class Bad:
        def __iter__(self):
            return 3

    class Stops:
        def __getitem__(self, i):
            raise StopIteration

    class Raises:
        def __iter__(self):
            return self

        def __next__(self):
            raise KeyError("in next")

    out = []
    for f in (lambda: [x for x in Bad()], lambda: list(Stops()), lambda: [x for x in Raises()], lambda: [x for x in 3]):
        try:
            out.append(f())
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return out


def make_long_function():
    """One whose operands need more than a byte: locals, constants, names, jumps."""
    lines = ["def f():", " t = 0", " for i in range(2):", "  if i == 1: continue", "  try:"]
    lines += [f"   v{i} = {i + 1000}" for i in range(300)]
    lines += [f"   w{i} = t.__class__ if v{i} is None else v{i}" for i in range(0, 300, 50)]
    lines += ["   t += v299 + v0"]
    lines += ["   if False: (" + ", ".join(f"name{i}" for i in range(300)) + ")"]
    lines += ["   t += len(str(v298)) + int(x=1) if t < 0 else len(str(v298)) + int('7', base=8)"]
    lines += ["   t.no_such_attribute"]
    lines += ["  except AttributeError as error:", "   t += len(str(error))"]
    lines += [" return t, v299"]
    space = {}
    exec("\n".join(lines), space)
    return space["f"]


long_function = make_long_function()


@program
def many_locals_and_constants():
    return long_function()


@program
def walrus_and_nested_comprehensions():
    if (n := len([1, 2, 3])) > 2:
        out = [y := n, y**2]
    grid = [[(i, j) for j in range(2)] for i in range(2)]
    flat = [x for row in grid for x in row if (s := sum(x)) < 2]
    return out, grid, flat, s, {k: [v for v in range(k)] for k in range(3)}


@program
def printing():
    print("a", "b", sep="-", end="!\n")
    print({1: [2, (3,)]})
    return None


@program
def display_hook():
    exec(compile("1 + 1\nNone\n'x'", "<in>", "single"), {})
    return 0
