"""with, match, chained comparisons, f-strings, slicing, what is told apart."""

import contextlib
import dataclasses

import torch

from .world import changed, vec, world


class Tracked:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append(kind.__name__ if kind else "out")
        return self.swallow


def with_statement():
    log = []

    def fn(x):
        with Tracked(log):
            return x + 1

    return world(fn, vec(), state=lambda: log)


def with_two_managers():
    def fn(x):
        log = []
        with Tracked(log) as a, Tracked(log):
            x = x * len(a.log)
        return x, log

    return world(fn, vec())


def with_swallows():
    def fn(x):
        log = []
        with Tracked(log, swallow=True):
            x = x + 1
            raise ValueError("inside")
        return x * 2, log

    return world(fn, vec())


def with_does_not_swallow():
    def fn(x):
        log = []
        try:
            with Tracked(log):
                raise KeyError("k")
        except KeyError:
            return x, log

    return world(fn, vec())


def with_manager_from_outside():
    manager = Tracked([], swallow=True)

    def fn(x):
        with manager:
            x = x + 1
            raise ValueError
        return x * 3

    return world(fn, vec(), state=manager, changes=[lambda: setattr(manager, "swallow", False)])


def generator_manager():
    @contextlib.contextmanager
    def scaled(k):
        yield k * 2

    def fn(x):
        with scaled(3) as k:
            return x * k

    return world(fn, vec())


def generator_manager_with_finally():
    log = []

    @contextlib.contextmanager
    def managed():
        log.append("in")
        try:
            yield
        finally:
            log.append("out")

    def fn(x):
        with managed():
            x = x * 2
        return x

    return world(fn, vec(), state=lambda: log)


def generator_manager_swallows():
    @contextlib.contextmanager
    def ignoring():
        try:
            yield
        except ValueError:
            pass

    def fn(x):
        with ignoring():
            raise ValueError("a")
        return x * 5

    return world(fn, vec())


def manager_as_a_decorator():
    @contextlib.contextmanager
    def quiet():
        yield

    @quiet()
    def callee(x):
        return x + 4

    return world(lambda x: callee(x), vec())


def exit_stack():
    def fn(x):
        log = []
        with contextlib.ExitStack() as stack:
            stack.enter_context(Tracked(log))
            stack.callback(log.append, "called")
            x = x + 1
        return x, log

    return world(fn, vec())


def suppress():
    def fn(x):
        with contextlib.suppress(ZeroDivisionError):
            x = x * (1 // 0)
        return x + 1

    return world(fn, vec())


def nullcontext():
    def fn(x):
        with contextlib.nullcontext(3) as k:
            return x * k

    return world(fn, vec())


def match_values():
    box = ["up"]

    def fn(x):
        match box[0]:
            case "up" | "higher":
                return x + 1
            case str() as other:
                return x * len(other)
            case 3:
                return x * 3
            case _:
                return x

    kinds = ["down", "higher", 3, 4.0, None]
    return world(fn, vec(), changes=[lambda k=k: box.__setitem__(0, k) for k in kinds])


def match_sequences():
    box = [[1, 2]]

    def fn(x):
        match box[0]:
            case []:
                return x
            case [a]:
                return x * a
            case [a, b]:
                return x * a + b
            case [a, *rest, z]:
                return x * a + len(rest) + z

    return world(
        fn, vec(), changes=[lambda v=v: box.__setitem__(0, v) for v in ([], [3], (4, 5, 6), [1, 2, 3, 4], "ab")]
    )


def match_mappings():
    table = {"kind": "a", "n": 2}

    def fn(x):
        match table:
            case {"kind": "a", "n": n, **rest}:
                return x * n + len(rest)
            case {"kind": kind}:
                return x * len(kind)
        return x

    changes = [lambda: table.update(m=1), lambda: table.update(n=7), lambda: table.update(kind="bcd"), table.clear]
    return world(fn, vec(), changes=changes)


def match_classes():
    @dataclasses.dataclass
    class Point:
        a: int
        b: int

    box = [Point(1, 2)]

    def fn(x):
        match box[0]:
            case Point(0, b):
                return x * b
            case Point(a=a, b=2):
                return x + a
            case Point():
                return x - 1
            case int(n):
                return x * n

    return world(fn, vec(), changes=[lambda p=p: box.__setitem__(0, p) for p in (Point(0, 5), Point(3, 3), 8, "s")])


def match_with_guards():
    box = [3]

    def fn(x):
        match box[0]:
            case n if n > 5:
                return x + n
            case n:
                return x - n

    return world(fn, vec(), changes=[lambda: box.__setitem__(0, 9)])


def chained_comparison():
    box = [2]
    return world(
        lambda x: x if 0 < box[0] <= 3 != box[0] else -x,
        vec(),
        changes=[lambda k=k: box.__setitem__(0, k) for k in (0, 3, 4)],
    )


def short_circuit():
    flags = {"a": 0, "b": [], "c": "text"}
    return world(
        lambda x: (flags["a"] or flags["b"] or flags["c"], x * len(flags["c"] and [1, 2])),
        vec(),
        changes=[lambda: flags.update(a=1), lambda: flags["b"].append(1), lambda: flags.update(c="")],
    )


def conditional_on_shape():
    w = world(lambda x: x + 1 if x.ndim > 1 and x.shape[-1] == 3 else x - 1, vec(2, 3))
    return changed(w, [lambda: setattr(w, "args", (vec(3),)), lambda: setattr(w, "args", (vec(3, 2),))])


def f_strings():
    k = [2.5]

    def fn(x):
        return f"{x.shape[0]:>4}|{k[0]:.2f}|{k[0]!r}|{'a'!s:^5}|{x.dtype}", x * k[0]

    return world(fn, vec(), changes=[lambda: k.__setitem__(0, 3)])


def f_string_of_a_container():
    items = [1, {"a": 2}]
    return world(
        lambda x: (f"{items}", x + 1), vec(), changes=[lambda: items.append("z"), lambda: items[1].update(b=1)]
    )


def f_string_of_an_object():
    class Shown:
        k = 1

        def __format__(self, spec):
            return spec * self.k

    shown = Shown()
    return world(lambda x: (f"{shown:ab}", x + 1), vec(), changes=[lambda: setattr(shown, "k", 2)])


def percent_and_format():
    table = {"a": 1}
    return world(
        lambda x: ("%d %s" % (table["a"], "b"), "{a:03}".format(**table), x + 1),
        vec(),
        changes=[lambda: table.update(a=5)],
    )


def string_methods():
    box = ["a,b,c"]

    def fn(x):
        parts = box[0].split(",")
        return "-".join(parts).upper().replace("A", "z"), x * len(parts)

    return world(fn, vec(), changes=[lambda: box.__setitem__(0, "q,r")])


def slices_of_tensors():
    return world(lambda x: (x[1:], x[..., None], x[:, ::2], x[-1], x[None, 0:1, 1]), vec(3, 4))


def slice_object_from_outside():
    box = [slice(1, 3)]
    return world(
        lambda x: x[box[0]] * 2,
        vec(5),
        changes=[lambda: box.__setitem__(0, slice(0, 2)), lambda: box.__setitem__(0, slice(None, None, 2))],
    )


def slices_of_lists():
    items = [1, 2, 3, 4]
    return world(
        lambda x: [x * i for i in items[1:-1]] + [x * items[-1]],
        vec(),
        changes=[lambda: items.append(5), lambda: items.__setitem__(1, 9)],
    )


def negative_index():
    items = [1, 2, 3]
    return world(
        lambda x: x * items[-1], vec(), changes=[lambda: items.append(7), items.pop, lambda: items.insert(0, 9)]
    )


def unpacking():
    pair = [1, [2, 3]]

    def fn(x):
        a, (b, *c) = pair
        return x * a + b + sum(c)

    return world(fn, vec(), changes=[lambda: pair[1].append(4), lambda: pair.__setitem__(0, 6), lambda: pair.append(0)])


def star_display():
    items = [1, 2]
    return world(
        lambda x: ([*items, x, *items], {**{"a": x}, "b": 1}, (*items,), {*items}),
        vec(),
        changes=[lambda: items.append(3)],
    )


def augmented_assignment():
    def fn(x):
        y = x.clone()
        y += 1
        y *= x
        n = 3
        n **= 2
        n //= 2
        items = [1]
        items += [n]
        return y, items

    return world(fn, vec())


def deletion():
    def fn(x):
        items, table = [x, x + 1, x + 2], {"a": x, "b": 1}
        del items[1], table["a"]
        y = items[1]
        del x
        return y, table, items

    return world(fn, vec())


def bool_of_a_tensor_of_constants():
    return world(lambda x: x + 1 if bool(torch.tensor(3) > 2) else x, vec())


def bool_of_constants_that_were_computed():
    def fn(x):
        sizes = torch.tensor([3, 4]) * torch.arange(2) + torch.ones(2, dtype=torch.long)
        return x + 1 if bool((sizes > 4).any()) else x

    return world(fn, vec())


def bool_of_constants_that_were_written():
    def fn(x):
        limit = torch.tensor([1.0, 2.0])
        part = limit[1:]
        part.add_(x[0].abs() * 0 + 5)
        return x + 1 if bool(limit.sum() > 7) else x

    return world(fn, vec())


def bool_of_constants_and_data():
    w = world(lambda x: x + 1 if bool((torch.tensor(0.0) + x.sum()) > 0) else x - 1, torch.ones(3))
    return changed(w, [lambda: setattr(w, "args", (-torch.ones(3),))])


def data_dependent_branch():
    w = world(lambda x: x + 1 if x.sum() > 0 else x - 1, torch.ones(3))
    return changed(w, [lambda: setattr(w, "args", (-torch.ones(3),))])


def printing():
    def fn(x):
        print("sizes", *x.shape, sep="|", end="!\n")
        return x + 1

    return world(fn, vec())


def printing_a_tensor():
    def fn(x):
        print(x.shape, x.sum())
        return x + 1

    return world(fn, vec())


def is_on_outside_objects():
    class Thing:
        pass

    one, two = Thing(), Thing()
    box = [one, two]
    return world(
        lambda x: x + 1 if box[0] is box[1] else x - 1,
        vec(),
        changes=[lambda: box.__setitem__(1, one), lambda: box.__setitem__(0, two)],
    )


def is_not_with_a_sentinel():
    sentinel = object()
    table = {"k": sentinel}
    return world(
        lambda x: x * 2 if table.get("k", sentinel) is not sentinel else x,
        vec(),
        changes=[lambda: table.update(k=object()), lambda: table.pop("k")],
    )


def tensors_told_apart():
    t = vec(seed=3)
    pair = [t, t]
    return world(
        lambda x: x * 2 if pair[0] is pair[1] else x, vec(), changes=[lambda: pair.__setitem__(1, vec(seed=3))]
    )


def equality_by_identity():
    class Thing:
        pass

    one = Thing()
    pair = [one, Thing()]
    return world(lambda x: x * (2 + (pair[0] == pair[1])), vec(), changes=[lambda: pair.__setitem__(1, one)])


def membership_by_identity():
    class Thing:
        pass

    one = Thing()
    items, box = [Thing(), Thing()], [one]
    return world(
        lambda x: x * (2 + (box[0] in items)),
        vec(),
        changes=[lambda: items.append(one), lambda: box.__setitem__(0, items[0])],
    )


def comparison_of_lists_of_objects():
    class Thing:
        pass

    one = Thing()
    a, b = [one], [Thing()]
    return world(lambda x: x * (2 + (a == b)), vec(), changes=[lambda: b.__setitem__(0, one)])
