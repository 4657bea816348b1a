"""Dataclasses, named tuples, enums, namespaces; copies and what results share; weak references."""

import collections
import copy
import dataclasses
import enum
import types
import typing

import torch

from .world import vec, world


def dataclass_argument():
    @dataclasses.dataclass
    class Config:
        k: int = 2
        names: list = dataclasses.field(default_factory=list)

    config = Config()
    changes = [lambda: setattr(config, "k", 4), lambda: config.names.append("a")]
    return world(lambda x, c: x * c.k + len(c.names), vec(), config, changes=changes)


def dataclass_is_made():
    @dataclasses.dataclass
    class Out:
        a: torch.Tensor
        b: int = 2

        def __post_init__(self):
            self.c = self.b + 1

    return world(lambda x: Out(x + 1), vec())


def frozen_dataclass():
    @dataclasses.dataclass(frozen=True)
    class Config:
        k: int = 2

    box = [Config()]

    def fn(x):
        return x * box[0].k, dataclasses.replace(box[0], k=3)

    return world(fn, vec(), changes=[lambda: box.__setitem__(0, Config(7))])


def frozen_dataclass_refuses():
    @dataclasses.dataclass(frozen=True)
    class Config:
        k: int = 2

    config = Config()

    def fn(x):
        try:
            config.k = 3
        except dataclasses.FrozenInstanceError:
            return x * config.k

    return world(fn, vec())


def dataclass_equality():
    @dataclasses.dataclass
    class Config:
        k: int
        items: list

    a, b = Config(1, [2]), Config(1, [2])
    return world(lambda x: x * (2 + (a == b)), vec(), changes=[lambda: b.items.append(1), lambda: a.items.append(1)])


def dataclass_as_dict():
    @dataclasses.dataclass
    class Config:
        k: int
        items: list

    config = Config(1, [2])
    return world(lambda x: (x + 1, dataclasses.asdict(config)), vec(), changes=[lambda: config.items.append(7)])


def dataclass_with_slots():
    @dataclasses.dataclass(slots=True)
    class Config:
        k: int = 3

    config = Config()
    return world(lambda x: (x * config.k, Config(5)), vec(), changes=[lambda: setattr(config, "k", 6)])


def named_tuple():
    pair = collections.namedtuple("pair", "a b")
    box = [pair(1, 2)]
    return world(
        lambda x: (x * box[0].a + box[0][1], pair(x, b=box[0].b), box[0]._replace(a=x)),
        vec(),
        changes=[lambda: box.__setitem__(0, pair(4, 2))],
    )


def typed_named_tuple():
    class Pair(typing.NamedTuple):
        a: int
        b: int = 5

        def total(self):
            return self.a + self.b

    return world(lambda x: (x * Pair(1).total(), Pair(x)), vec())


def enums():
    class Mode(enum.Enum):
        UP = 1
        DOWN = 2

    box = [Mode.UP]

    def fn(x):
        if box[0] is Mode.UP:
            return x + box[0].value, box[0].name
        return x - Mode(2).value, Mode["DOWN"]

    return world(fn, vec(), changes=[lambda: box.__setitem__(0, Mode.DOWN)])


def int_enums_and_flags():
    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 5

    class Bits(enum.Flag):
        A = 1
        B = 2

    box = [Level.LOW, Bits.A | Bits.B]
    return world(
        lambda x: x * box[0] + (3 if box[1] & Bits.B else 0) + len(list(Level)),
        vec(),
        changes=[lambda: box.__setitem__(0, Level.HIGH), lambda: box.__setitem__(1, Bits.A)],
    )


def simple_namespace():
    space = types.SimpleNamespace(k=2)
    return world(lambda x: (x * space.k, types.SimpleNamespace(y=x)), vec(), changes=[lambda: setattr(space, "k", 5)])


def mapping_proxy():
    table = {"k": 2}
    proxy = types.MappingProxyType(table)
    return world(lambda x: x * proxy["k"], vec(), changes=[lambda: table.update(k=5)])


def shallow_copy():
    class Box:
        pass

    box = Box()
    box.items, box.k = [1], 2

    def fn(x):
        other = copy.copy(box)
        other.k = 9
        return x * box.k + other.k, other.items is box.items, copy.copy([x])

    return world(fn, vec(), state=box, changes=[lambda: setattr(box, "k", 5)])


def deep_copy():
    config = {"a": [1, 2], "b": {"c": 3}}

    def fn(x):
        mine = copy.deepcopy(config)
        mine["a"].append(5)
        return x * len(mine["a"]), mine

    return world(fn, vec(), state=config, changes=[lambda: config["a"].append(8)])


def recursive_structure():
    def fn(x):
        items = [x]
        items.append(items)
        table = {"self": None}
        table["self"] = table
        return items, table

    return world(fn, vec())


def identity_in_results():
    def fn(x):
        y = x + 1
        inner = [y]
        return y, inner, {"a": inner, "b": (inner, y)}

    return world(fn, vec())


def text_of_an_object():
    class Shown:
        def __init__(self):
            self.k = 1

        def __repr__(self):
            return f"<{self.k}>"

    shown = Shown()
    return world(lambda x: (str(shown), repr([shown]), x + 1), vec(), changes=[lambda: setattr(shown, "k", 2)])


def hash_of_objects():
    class Thing:
        def __hash__(self):
            return self.h

        def __eq__(self, other):
            return True

    a, b = Thing(), Thing()
    a.h, b.h = 1, 2
    return world(lambda x: x * len({a, b}), vec(), changes=[lambda: setattr(b, "h", 1)])


def weak_reference():
    import weakref

    class Box:
        k = 3

    box = Box()
    ref = weakref.ref(box)
    return world(lambda x: x * ref().k, vec(), changes=[lambda: setattr(box, "k", 4)])


def bool_of_objects():
    class Truthy:
        flag = True

        def __bool__(self):
            return self.flag

    t = Truthy()
    return world(lambda x: x + 1 if t else x - 1, vec(), changes=[lambda: setattr(t, "flag", False)])


def tuple_subclass():
    class Pair(tuple):
        def total(self):
            return self[0] + self[1]

    box = [Pair((1, 2))]
    return world(
        lambda x: (x * box[0].total(), Pair((x, 1))), vec(), changes=[lambda: box.__setitem__(0, Pair((4, 2)))]
    )
