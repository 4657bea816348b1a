"""Generators, comprehensions, iterators, itertools."""

import collections
import functools
import itertools
import operator

import torch

from .world import vec, world


def _squares(x, n):
    for i in range(n):
        yield x * i


def generator_is_summed():
    return world(lambda x: sum(_squares(x, 4)), vec())


def generator_in_a_list():
    return world(lambda x: list(_squares(x, 3)), vec())


def generator_with_return():
    def inner(x):
        yield x
        return 5

    def outer(x):
        value = yield from inner(x)
        yield x * value

    return world(lambda x: list(outer(x)), vec())


def generator_with_send():
    def gen(x):
        got = yield x
        while got is not None:
            got = yield x * got

    def fn(x):
        g = gen(x)
        return next(g), g.send(3), g.send(4)

    return world(fn, vec())


def generator_with_throw():
    def gen(x):
        try:
            yield x
        except ValueError:
            yield x * 7

    def fn(x):
        g = gen(x)
        next(g)
        return g.throw(ValueError("no"))

    return world(fn, vec())


def generator_is_closed():
    seen = []

    def gen(x):
        try:
            yield x
            yield x + 1
        finally:
            seen.append("closed")

    def fn(x):
        g = gen(x)
        value = next(g)
        g.close()
        return value * 2

    return world(fn, vec(), state=lambda: seen)


def generator_is_left_unfinished():
    def fn(x):
        g = _squares(x, 5)
        next(g)
        return next(g)

    return world(fn, vec())


def generator_from_outside():
    gen = (i for i in itertools.count())
    return world(lambda x: x * next(gen), vec())


def generator_is_returned():
    return world(lambda x: _squares(x, 3), vec())


def generator_expression():
    return world(lambda x: sum(x * i for i in range(4) if i % 2), vec())


def generator_changes_an_outside_list():
    seen = []

    def gen(x):
        for i in range(3):
            seen.append(i)
            yield x * i

    return world(lambda x: sum(gen(x)), vec(), state=lambda: seen)


def nested_generators():
    def outer(x):
        for g in (_squares(x, n) for n in range(3)):
            yield from g

    return world(lambda x: [v.sum() for v in outer(x)], vec())


def stop_iteration_value():
    def gen():
        yield 1
        return "done"

    def fn(x):
        g = gen()
        next(g)
        try:
            next(g)
        except StopIteration as stop:
            return x * len(stop.value)

    return world(fn, vec())


def list_comprehension():
    return world(lambda x: [x * i for i in range(3) if i != 1], vec())


def nested_comprehension():
    return world(lambda x: [[x * i + j for j in range(i)] for i in range(3)], vec())


def dict_comprehension():
    return world(lambda x: {k: x * i for i, k in enumerate("abc")}, vec())


def set_comprehension():
    return world(lambda x: (x * len({i % 3 for i in range(10)}), {i for i in (3, 1, 3)}), vec())


def comprehension_over_an_outside_list():
    items = [1, 2, 3]
    return world(
        lambda x: [x * i for i in items],
        vec(),
        changes=[lambda: items.append(4), lambda: items.__setitem__(0, 9), items.reverse, items.clear],
    )


def comprehension_over_an_outside_dict():
    items = {"a": 1, "b": 2}

    def reorder():
        items["a"] = items.pop("a")

    return world(
        lambda x: [(k, x * v) for k, v in items.items()],
        vec(),
        changes=[reorder, lambda: items.update(c=3), lambda: items.update(a=9), lambda: items.pop("b")],
    )


def set_of_outside_objects():
    class Thing:
        pass

    one = Thing()
    things = [one, Thing()]
    return world(lambda x: x * len({t for t in things}), vec(), changes=[lambda: things.__setitem__(1, one)])


def dict_of_outside_objects():
    class Thing:
        pass

    one = Thing()
    things = [one, Thing()]
    return world(lambda x: x * len({t: 1 for t in things}), vec(), changes=[lambda: things.__setitem__(1, one)])


def display_of_outside_objects():
    class Thing:
        pass

    one = Thing()
    box = {"a": one, "b": Thing()}
    return world(lambda x: x * len({box["a"], box["b"]}), vec(), changes=[lambda: box.update(b=one)])


def zip_and_enumerate():
    def fn(x):
        total = x
        for i, (a, b) in enumerate(zip([1, 2, 3], (4, 5, 6), strict=True), start=1):
            total = total + i * a * b
        return total

    return world(fn, vec())


def zip_strict_fails():
    def fn(x):
        return [a for a, _ in zip([1, 2], [x], strict=True)]

    return world(fn, vec())


def zip_of_outside_lists():
    a, b = [1, 2], [3, 4]
    return world(
        lambda x: [x * p + q for p, q in zip(a, b)],  # noqa: B905
        vec(),
        changes=[lambda: a.append(7), lambda: b.append(8), lambda: b.__setitem__(0, 1)],
    )


def map_and_filter():
    return world(lambda x: list(map(lambda i: x * i, filter(lambda i: i > 1, range(4)))), vec())


def map_over_outside():
    items = [1, 2]
    return world(lambda x: list(map(x.mul, items)), vec(), changes=[lambda: items.append(3)])


def reversed_and_sorted():
    items = [3, 1, 2]
    return world(
        lambda x: [x * i for i in [*reversed(items), *sorted(items)]],
        vec(),
        changes=[lambda: items.append(0), items.sort],
    )


def sorted_with_a_key():
    items = [("a", 3), ("b", 1)]
    return world(
        lambda x: [x * v for _, v in sorted(items, key=lambda p: p[1])],
        vec(),
        changes=[lambda: items.append(("c", 2)), lambda: items.__setitem__(0, ("a", 0))],
    )


def any_and_all():
    flags = [True, False]
    return world(
        lambda x: x * any(flags) + all(flags),
        vec(),
        changes=[lambda: flags.__setitem__(1, True), flags.clear, lambda: flags.append(False)],
    )


def min_and_max():
    items = [3, 1, 2]
    return world(
        lambda x: x * max(items) - min(items, key=lambda v: -v),
        vec(),
        changes=[lambda: items.append(9), lambda: items.append(-2)],
    )


def sum_with_start():
    return world(lambda x: sum([x, x * 2], start=torch.ones(3)), vec())


def iter_with_sentinel():
    def fn(x):
        values = iter([1, 2, 0, 3])
        return [x * v for v in iter(lambda: next(values), 0)]

    return world(fn, vec())


def next_with_default():
    return world(lambda x: x * next(iter([]), 4), vec())


def iterator_is_returned():
    return world(lambda x: iter([x, x + 1]), vec())


def half_used_iterator_is_returned():
    def fn(x):
        it = iter([x, x + 1, x + 2])
        next(it)
        return it, enumerate([x]), zip([1], [x])  # noqa: B905

    return world(fn, vec())


def iterator_from_outside():
    it = iter([1, 2, 3, 4, 5, 6, 7, 8])
    return world(lambda x: x * next(it, 0), vec())


def iterator_over_an_outside_list_is_returned():
    items = [1, 2]
    return world(lambda x: (x + 1, iter(items)), vec(), changes=[lambda: items.append(3)])


def user_iterator():
    class Count:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    return world(lambda x: [x * i for i in Count(3)], vec())


def user_iterator_from_outside():
    class Count:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            self.n -= 1
            if self.n < 0:
                raise StopIteration
            return self.n

    count = Count(4)

    def refill():
        count.n = 2

    return world(lambda x: [x * i for i in count], vec(), changes=[refill], state=count)


def old_style_iteration():
    class Sequence:
        data = [1, 2, 3]  # noqa: RUF012

        def __getitem__(self, i):
            return self.data[i]

    s = Sequence()
    return world(lambda x: sum(x * i for i in s), vec(), changes=[lambda: s.data.append(5)])


def iteration_over_a_tensor():
    return world(lambda x: [row * i for i, row in enumerate(x)], vec(2, 3))


def unpacking_a_tensor():
    def fn(x):
        a, b = x
        return a * b

    return world(fn, vec(2, 3))


def chain_and_repeat():
    def fn(x):
        parts = itertools.chain([1, 2], itertools.repeat(3, 2), itertools.chain.from_iterable([[4], [5]]))
        return [x * p for p in parts]

    return world(fn, vec())


def islice_and_count():
    return world(lambda x: [x * i for i in itertools.islice(itertools.count(2, 3), 3)], vec())


def product_and_combinations():
    def fn(x):
        total = x
        for a, b in itertools.product([1, 2], [3, 4]):
            total = total + a * b
        for a, b in itertools.combinations(range(3), 2):
            total = total - a * b
        return total

    return world(fn, vec())


def accumulate():
    return world(lambda x: list(itertools.accumulate([x, x, x], operator.add)), vec())


def groupby():
    def fn(x):
        return [(k, x * len(list(g))) for k, g in itertools.groupby("aabbb")]

    return world(fn, vec())


def pairwise_and_zip_longest():
    def fn(x):
        a = [x * (q - p) for p, q in itertools.pairwise([1, 4, 9])]
        return a, list(itertools.zip_longest([1, 2], [x], fillvalue=0))

    return world(fn, vec())


def starmap_and_takewhile():
    def fn(x):
        made = list(itertools.starmap(lambda a, b: x * a + b, [(1, 2), (3, 4)]))
        return (
            made,
            list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])),
            list(itertools.dropwhile(bool, [1, 0, 2])),
        )

    return world(fn, vec())


def cycle_and_tee():
    def fn(x):
        a, b = itertools.tee([1, 2, 3])
        loop = itertools.cycle([x, x + 1])
        return sum(a) + sum(b), [next(loop) for _ in range(3)]

    return world(fn, vec())


def reduce():
    return world(lambda x: functools.reduce(lambda a, b: a * b + 1, [x, x + 1, x + 2]), vec())


def operator_functions():
    items = {"k": [1, 2]}
    return world(
        lambda x: operator.mul(x, operator.itemgetter("k")(items)[0]) + operator.getitem(items["k"], 1),
        vec(),
        changes=[lambda: items.update(k=[5, 6]), lambda: items["k"].__setitem__(1, 9)],
    )


def itemgetter_from_outside():
    box = [operator.itemgetter(0)]
    return world(lambda x: x * box[0]([2, 3]), vec(), changes=[lambda: box.__setitem__(0, operator.itemgetter(1))])


def attrgetter_from_outside():
    class Thing:
        a, b = 2, 3

    box, thing = [operator.attrgetter("a")], Thing()
    return world(
        lambda x: x * box[0](thing),
        vec(),
        changes=[lambda: setattr(thing, "a", 7), lambda: box.__setitem__(0, operator.attrgetter("b"))],
    )


def while_loop():
    def fn(x):
        i = 0
        while i < 10:
            i += 1
            if i % 2:
                continue
            if i > 6:
                break
            x = x + i
        else:
            x = x * 100
        return x

    return world(fn, vec())


def for_else():
    items = [1, 2, 3]

    def fn(x):
        for i in items:
            if i == 5:
                break
            x = x + i
        else:
            x = x * 2
        return x

    return world(fn, vec(), changes=[lambda: items.append(5)])


def list_changes_while_it_is_iterated():
    def fn(x):
        items = [1, 2, 3]
        for i in items:
            if i < 4:
                items.append(i + 3)
            x = x + i
        return x, items

    return world(fn, vec())


def outside_list_changes_while_it_is_iterated():
    items = [1, 2]

    def fn(x):
        for i in items:
            if len(items) < 5:
                items.append(i * 2)
            x = x + i
        return x

    return world(fn, vec(), state=items)


def dict_changes_while_it_is_iterated():
    def fn(x):
        d = {"a": 1}
        for k in d:
            d[k + "b"] = x
        return x

    return world(fn, vec())


def range_arguments():
    steps = [3]
    return world(lambda x: sum(x * i for i in range(0, 9, steps[0])), vec(), changes=[lambda: steps.__setitem__(0, 2)])


def range_object_from_outside():
    box = [range(0, 3, 2)]
    return world(
        lambda x: (x * sum(box[0]), box[0].stop),
        vec(),
        changes=[lambda: box.__setitem__(0, range(0, 4, 2)), lambda: box.__setitem__(0, range(5))],
    )


def deque_as_a_queue():
    def fn(x):
        queue = collections.deque([x], maxlen=None)
        out = []
        while queue and len(out) < 4:
            value = queue.popleft()
            out.append(value)
            queue.append(value + 1)
            queue.appendleft(value * 2)
        return out

    return world(fn, vec())
