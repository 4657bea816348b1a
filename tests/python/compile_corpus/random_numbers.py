"""Python's random numbers: drawn again by a replay, in order, and the generators left as eager mode leaves them."""

from __future__ import annotations

import math
import random

from .world import changed, vec, world


def floats():
    return world(lambda x: (x + 1) * random.uniform(0, 2), vec(), state=random.getstate)


def every_way_to_use_a_float():
    def fn(x):
        a = random.random()
        return x - a, a * x, a / x, x / a, x + a * 2 + math.sqrt(a), -a, (x.int() * a, x[0] * a)

    return world(fn, vec(), state=random.getstate)


def a_float_is_returned():
    return world(lambda x: (x + 1, random.random(), [random.random() * 3]), vec(), state=random.getstate)


def a_float_decides():
    return world(lambda x: x + 1 if random.random() < 0.5 else x - 1, vec(), state=random.getstate)


def a_float_as_another_argument():
    return world(lambda x: x.clamp(max=random.random()), vec(), state=random.getstate)


def ints():
    return world(lambda x: x * random.randint(1, 2), vec(), state=random.getstate)


def ints_and_floats():
    return world(lambda x: x * random.random() + random.randrange(2) - random.random(), vec(), state=random.getstate)


def choices():
    return world(lambda x: x * random.choice([1.5, 2.5]), vec(), state=random.getstate)


def a_generator_of_ones_own():
    generator = random.Random(5)
    w = world(lambda x, g: x * g.random(), vec(), generator, state=generator.getstate)
    return changed(w, [lambda: generator.seed(7)])


def gradients():
    return world(lambda x: (x * random.random()).sum(), vec(grad=True), state=random.getstate)


def normal_numbers():
    return world(lambda x: x + random.gauss(0, 1), vec(), state=random.getstate)


def seeding():
    def fn(x):
        random.seed(3)
        return x * random.random()

    return world(fn, vec(), state=random.getstate)


def a_generator_made_inside():
    def fn(x):
        generator = random.Random(42)
        return x * generator.random() + generator.randint(1, 9), generator.uniform(1, 2)

    return world(fn, vec())


def a_generator_made_inside_leaves():
    def fn(x):
        generator = random.Random(7)
        return x * generator.random(), generator, [generator]

    return world(fn, vec(), state=random.getstate)


def a_new_generator_at_each_call():
    class Twice(random.Random):
        def random(self):
            return 2 * super().random()

    def fn(x, generator):
        return x + generator.random() + Twice(3).random(), generator

    return world(fn, vec(), random.Random(12))


def generators_are_seeded():
    first, second = random.Random(1), random.Random(2)

    def fn(x, a, b):
        a.seed(42)
        made = random.Random(9002)
        b.setstate(made.getstate())
        return x + a.random() + b.random() + b.randint(1, 10) + made.uniform(0, 1)

    return world(fn, vec(), first, second, state=lambda: (first.getstate(), second.getstate()))


def a_generator_that_was_overridden():
    generator = random.Random(1)
    original = generator.random
    generator.random = lambda: original() / 2

    def fn(x, given):
        other = random.Random()
        other.setstate(given.getstate())
        return x + given.random(), other.random()

    return world(fn, vec(), generator, state=random.Random.getstate.__get__(generator))


def the_state_is_put_back():
    def fn(x):
        state = random.getstate()
        random.seed(5)
        drawn = random.random()
        random.setstate(state)
        return x * drawn

    return world(fn, vec(), state=random.getstate)
