"""Closures, cells, nonlocal and global names, imports in functions."""

import torch

from .world import source, vec, world


def closure_number():
    k = 2

    def fn(x):
        return x * k

    def change():
        nonlocal k
        k = 5

    return world(fn, vec(), changes=[change])


def closure_tensor():
    w = vec(seed=4)

    def fn(x):
        return x * w

    def change():
        nonlocal w
        w = vec(seed=9)

    def other_type():
        nonlocal w
        w = w.double()

    return world(fn, vec(), changes=[change, other_type])


def nonlocal_counter():
    count = 0

    def fn(x):
        nonlocal count
        count += 1
        return x * count

    return world(fn, vec(), state=lambda: count)


def nonlocal_tensor():
    total = torch.zeros(3)

    def fn(x):
        nonlocal total
        total = total + x
        return total * 2

    return world(fn, vec(), state=lambda: total)


def nonlocal_is_read_after_writing():
    last = None

    def fn(x):
        nonlocal last
        last = x * 2
        return last + 1, last is None

    return world(fn, vec(), state=lambda: last)


def cell_shared_by_two_functions():
    k = 1

    def setter(v):
        nonlocal k
        k = v

    def getter():
        return k

    def fn(x):
        setter(x.shape[0])
        return x * getter()

    return world(fn, vec(), state=lambda: k, changes=[lambda: setter(9)])


def empty_cell():
    def fn(x):
        try:
            return x + late
        except NameError:
            return x - 1

    def fill():
        nonlocal late
        late = 4

    if False:
        late = None
    return world(fn, vec(), changes=[fill])


def deleted_cell():
    k = 3

    def fn(x):
        nonlocal k
        value = k
        del k
        k = value
        return x * k

    return world(fn, vec(), state=lambda: k)


def inner_cells():
    def fn(x):
        total = x

        def add(v):
            nonlocal total
            total = total + v

        for i in range(3):
            add(i)
        return total

    return world(fn, vec())


def closures_of_a_loop():
    def fn(x):
        made = [lambda v: v * i for i in range(3)]
        return sum(f(x) for f in made)

    return world(fn, vec())


def closure_is_returned():
    def fn(x):
        scale = x.sum()

        def inner(v):
            return v * scale

        return inner

    return world(fn, vec())


def closures_share_a_returned_cell():
    def fn(x):
        count = 0

        def up():
            nonlocal count
            count += 1
            return count

        return up, lambda: count + 1, x + 1

    return world(fn, vec())


def class_cell():
    class Base:
        def f(self, x):
            return x + 1

    class Derived(Base):
        def f(self, x):
            return super().f(x) * 2

    return world(lambda x: Derived().f(x), vec(), changes=[lambda: setattr(Base, "f", lambda self, x: x + 3)])


def global_number():
    scope = source("global_number", "k = 2\ndef fn(x): return x * k")
    return world(scope["fn"], vec(), changes=[lambda: scope.update(k=3), lambda: scope.update(k=3.5)])


def global_is_deleted():
    scope = source("global_deleted", "k = 2\ndef fn(x): return x * k")
    return world(scope["fn"], vec(), changes=[lambda: scope.pop("k"), lambda: scope.update(k=4)])


def global_counter():
    scope = source("global_counter", "n = 0\ndef fn(x):\n    global n\n    n += 1\n    return x * n")
    return world(scope["fn"], vec(), state=lambda: scope["n"])


def global_is_written():
    scope = source("global_written", "last = None\ndef fn(x):\n    global last\n    last = x + 1\n    return last * 2")
    return world(scope["fn"], vec(), state=lambda: scope["last"])


def global_is_made():
    scope = source(
        "global_made", "def fn(x):\n    global made\n    made = [x + 1]\n    made.append(2)\n    return made"
    )
    return world(scope["fn"], vec(), state=lambda: scope.get("made"))


def global_is_made_and_deleted():
    text = "def fn(x):\n    global tmp\n    tmp = x + 1\n    y = tmp * 2\n    del tmp\n    return y"
    scope = source("global_temporary", text)
    return world(scope["fn"], vec(), state=lambda: "tmp" in scope)


def global_list():
    scope = source("global_list", "items = [1, 2]\ndef fn(x): return x * sum(items)")
    changes = [lambda: scope["items"].append(3), lambda: scope.update(items=[7]), lambda: scope["items"].clear()]
    return world(scope["fn"], vec(), changes=changes)


def global_function_is_replaced():
    scope = source("global_function", "def g(x): return x + 1\ndef fn(x): return g(x) * 2")
    return world(
        scope["fn"], vec(), changes=[lambda: scope.update(g=lambda x: x - 1), lambda: scope.update(g=torch.sin)]
    )


def global_tensor():
    scope = source("global_tensor", "w = torch.ones(3)\ndef fn(x): return x * w")
    changes = [
        lambda: scope["w"].mul_(3),
        lambda: scope.update(w=torch.arange(3)),
        lambda: scope.update(w=torch.ones(3, requires_grad=True)),
        lambda: scope.update(w=2),
    ]
    return world(scope["fn"], vec(), changes=changes)


def names_of_a_module():
    scope = source("names_of_a_module", "import types\nm = types.ModuleType('m')\nm.k = 2\ndef fn(x): return x * m.k")

    def remove():
        del scope["m"].k

    return world(scope["fn"], vec(), changes=[lambda: setattr(scope["m"], "k", 3), remove])


def module_attribute_is_written():
    text = "import types\nm = types.ModuleType('m')\nm.k = 2\ndef fn(x):\n    m.k = x + 1\n    return m.k * 2"
    scope = source("module_attribute", text)
    return world(scope["fn"], vec(), state=lambda: scope["m"].k)


def module_dict_is_read():
    text = "import types\nm = types.ModuleType('m')\nm.k = 2\ndef fn(x): return x * m.__dict__['k']"
    scope = source("module_dict", text)
    return world(scope["fn"], vec(), changes=[lambda: setattr(scope["m"], "k", 3)])


def module_getattr():
    text = """
        import types
        m = types.ModuleType('m')
        m.__getattr__ = lambda name: len(name)
        def fn(x): return x * m.abc
    """
    scope = source("module_getattr", text)
    return world(scope["fn"], vec(), changes=[lambda: setattr(scope["m"], "abc", 10)])


def import_in_function():
    def fn(x):
        import math

        return x * math.pi

    return world(fn, vec())


def from_import_in_function():
    def fn(x):
        from math import floor
        from math import sqrt as root

        return x * root(4) + floor(2.5)

    return world(fn, vec())


def import_of_torch_parts():
    def fn(x):
        from torch import relu
        from torch.nn import functional

        return functional.gelu(relu(x))

    return world(fn, vec())


def failing_import():
    def fn(x):
        try:
            import a_module_that_is_not_there  # noqa: F401
        except ImportError as error:
            return x + len(error.name)

    return world(fn, vec())


def star_names():
    def fn(x):
        first, *rest = [x, x + 1, x + 2]
        (a, b), c = rest, first
        return a * b - c

    return world(fn, vec())


def unbound_local():
    def fn(x):
        try:
            return value
        except UnboundLocalError as error:
            value = len(str(error)) > 0
        return x * value

    return world(fn, vec())


def unbound_local_escapes():
    def fn(x):
        y = x + 1
        return y + z
        z = 1

    return world(fn, vec())


def locals_are_asked_for():
    def fn(x):
        a, b = 1, 2
        return x * len(locals()) + locals()["b"] + a + b

    return world(fn, vec())


def globals_are_asked_for():
    scope = source("globals_asked", "k = 2\ndef fn(x): return x * globals()['k']")
    return world(scope["fn"], vec(), changes=[lambda: scope.update(k=3)])


def walrus():
    def fn(x):
        if (n := x.shape[0]) > 2:
            return x * n
        return x

    return world(fn, vec())


def walrus_in_a_comprehension():
    def fn(x):
        made = [y := x + i for i in range(3)]
        return made, y

    return world(fn, vec())


def names_are_shadowed():
    def fn(x):
        torch = 2
        return [torch * i for i in range(2)], x * torch

    return world(fn, vec())


def environment_variable():
    import os

    os.environ.setdefault("SAKER_CORPUS_TEST", "a")
    name = "SAKER_CORPUS_TEST"

    def fn(x):
        return x * len(os.environ.get(name, ""))

    return world(fn, vec(), changes=[lambda: os.environ.update({name: "abc"}), lambda: os.environ.update({name: "a"})])


def class_body_inside():
    def fn(x):
        class Made:
            k = x.shape[0]
            t = x + 1

            def f(self):
                return self.t * self.k

        return Made().f()

    return world(fn, vec())


def class_made_inside_escapes():
    def fn(x):
        class Made:
            t = x + 1

        return Made, Made.t

    def read(x):
        made, t = fn(x)
        return made

    w = world(read, vec())
    calls = iter(range(100))

    def fn_with_class(x):
        return read(x).t

    w.fn = fn_with_class
    w.changes = [lambda: setattr(w, "args", (vec(seed=next(calls)),))]
    return w


def instance_of_a_class_made_inside():
    def fn(x):
        class Made:
            t = x + 1

        return Made()

    w = world(fn, vec())
    holder = {}

    def keep(x):
        holder["made"] = fn(x)
        return x

    w.fn, w.state = keep, lambda: holder["made"].t if holder else None
    w.changes = [lambda: setattr(w, "args", (vec(seed=5),))]
    return w
