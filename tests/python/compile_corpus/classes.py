"""User classes: attributes, properties, descriptors, metaclasses, operators, dataclasses, enums, named tuples."""

import abc
import functools
import typing

from .world import vec, world


def instance_attribute():
    class Box:
        pass

    box = Box()
    box.k = 2
    return world(lambda x: x * box.k, vec(), changes=[lambda: setattr(box, "k", 3), lambda: setattr(box, "k", 2.5)])


def class_attribute():
    class Box:
        k = 2

    box = Box()
    changes = [lambda: setattr(Box, "k", 3), lambda: setattr(box, "k", 4), lambda: delattr(box, "k")]
    return world(lambda x: x * box.k, vec(), changes=changes)


def class_attribute_of_a_base():
    class Base:
        k = 2

    class Box(Base):
        pass

    box = Box()
    return world(lambda x: x * box.k, vec(), changes=[lambda: setattr(Base, "k", 3), lambda: setattr(Box, "k", 4)])


def class_attribute_is_a_list():
    class Box:
        items = [1, 2]  # noqa: RUF012

    return world(lambda x: x * sum(Box().items), vec(), changes=[lambda: Box.items.append(3)])


def class_attribute_is_written():
    class Box:
        count = 0

    def fn(x):
        Box.count += 1
        return x * Box.count

    return world(fn, vec(), state=lambda: Box.count)


def class_is_changed():
    class A:
        def f(self, x):
            return x + 1

    class B:
        def f(self, x):
            return x - 1

    thing = A()
    return world(lambda x: thing.f(x), vec(), changes=[lambda: setattr(thing, "__class__", B)])


def class_of_a_default_is_changed():
    class A:
        k = 1

    class B:
        k = 5

    thing = A()

    def fn(x, t=thing):
        return x * t.k

    return world(fn, vec(), changes=[lambda: setattr(thing, "__class__", B)])


def bases_are_changed():
    class A:
        k = 1

    class B:
        k = 5

    class C(A):
        pass

    return world(lambda x: x * C().k, vec(), changes=[lambda: setattr(C, "__bases__", (B,))])


def method_is_replaced():
    class Box:
        def f(self, x):
            return x + 1

    box = Box()
    changes = [lambda: setattr(Box, "f", lambda self, x: x + 2), lambda: setattr(box, "f", lambda x: x + 3)]
    return world(lambda x: box.f(x), vec(), changes=changes)


def property_is_read():
    class Box:
        base = 2

        @property
        def k(self):
            return self.base * 2

    box = Box()
    return world(lambda x: x * box.k, vec(), changes=[lambda: setattr(box, "base", 5)])


def property_is_replaced():
    class Box:
        k = property(lambda self: 2)

    box = Box()
    return world(lambda x: x * box.k, vec(), changes=[lambda: setattr(Box, "k", property(lambda self: 7))])


def property_is_set():
    class Box:
        _k = 1

        @property
        def k(self):
            return self._k

        @k.setter
        def k(self, value):
            self._k = value + 1

    box = Box()

    def fn(x):
        box.k = x.shape[0]
        return x * box.k

    return world(fn, vec(), state=box)


def property_without_setter():
    class Box:
        k = property(lambda self: 2)

    box = Box()

    def fn(x):
        try:
            box.k = 3
        except AttributeError:
            return x * box.k

    return world(fn, vec(), state=box)


def cached_property():
    class Box:
        base = 3

        @functools.cached_property
        def k(self):
            return self.base * 2

    box = Box()
    return world(
        lambda x: x * box.k, vec(), state=box, changes=[lambda: box.__dict__.pop("k"), lambda: setattr(box, "base", 9)]
    )


def cached_property_with_a_tensor():
    class Box:
        def __init__(self):
            self.w = vec(seed=8)

        @functools.cached_property
        def k(self):
            return self.w * 2

    box = Box()
    return world(lambda x: x * box.k, vec(), state=box, changes=[lambda: setattr(box, "w", vec(seed=9))])


def static_and_class_methods():
    class Box:
        k = 2

        @staticmethod
        def s(x):
            return x + 1

        @classmethod
        def c(cls, x):
            return x * cls.k

    class Child(Box):
        k = 3

    return world(lambda x: (Child.c(x), Box().c(x), Child.s(x)), vec(), changes=[lambda: setattr(Child, "k", 9)])


def getattr_fallback():
    class Box:
        def __init__(self):
            self.table = {"k": 2}

        def __getattr__(self, name):
            try:
                return self.table[name]
            except KeyError:
                raise AttributeError(name) from None

    box = Box()
    changes = [lambda: box.table.update(k=5), lambda: setattr(box, "k", 9), lambda: delattr(box, "k"), box.table.clear]
    return world(lambda x: x * box.k, vec(), changes=changes)


def getattribute_override():
    class Box:
        k = 2

        def __getattribute__(self, name):
            value = object.__getattribute__(self, name)
            return value * 2 if name == "k" else value

    box = Box()
    return world(lambda x: x * box.k, vec(), changes=[lambda: setattr(box, "k", 5)])


def setattr_override():
    class Box:
        def __setattr__(self, name, value):
            object.__setattr__(self, name, (value, 1))

    box = Box()

    def fn(x):
        box.k = x + 1
        return box.k[0] * 2

    return world(fn, vec(), state=box)


def delattr_of_an_outside_object():
    class Box:
        pass

    box = Box()
    box.k = 1

    def fn(x):
        box.k = x.shape[0]
        y = x * box.k
        del box.k
        return y, hasattr(box, "k")

    return world(fn, vec(), state=box)


def hasattr_and_getattr():
    class Box:
        pass

    box = Box()

    def fn(x):
        return x * getattr(box, "k", 2) + (3 if hasattr(box, "m") else 0)

    changes = [lambda: setattr(box, "k", 5), lambda: setattr(box, "m", 1), lambda: setattr(Box, "m", 1)]
    return world(fn, vec(), changes=changes)


def setattr_by_name():
    class Box:
        pass

    box = Box()

    def fn(x):
        for i, name in enumerate(["a", "b"]):
            setattr(box, name, x + i)
        return box.a * box.b

    return world(fn, vec(), state=box)


def instance_dict():
    class Box:
        pass

    box = Box()
    box.a, box.b = 1, 2

    def fn(x):
        return x * sum(box.__dict__.values()), list(box.__dict__)

    return world(
        fn, vec(), changes=[lambda: setattr(box, "c", 3), lambda: delattr(box, "a"), lambda: setattr(box, "b", 9)]
    )


def instance_dict_is_written():
    class Box:
        pass

    box = Box()

    def fn(x):
        box.__dict__["k"] = x + 1
        return box.k * 2

    return world(fn, vec(), state=box)


def instance_dict_is_updated():
    class Box:
        pass

    box = Box()

    def fn(x):
        box.__dict__.update(k=x + 1)
        return box.k * 2

    return world(fn, vec(), state=box)


def instance_dict_after_a_write():
    class Box:
        pass

    box = Box()
    box.a = 1

    def fn(x):
        box.t = x + 1
        return [v * 2 for v in box.__dict__.values()], len(box.__dict__)

    return world(fn, vec(), state=box)


def instance_dict_is_replaced():
    class Box:
        pass

    box = Box()
    box.k = 2
    return world(lambda x: x * box.k, vec(), changes=[lambda: setattr(box, "__dict__", {"k": 7})])


def class_dict_is_read():
    class Box:
        k = 2

    return world(lambda x: x * Box.__dict__["k"], vec(), changes=[lambda: setattr(Box, "k", 3)])


def class_name_is_read():
    class Box:
        pass

    return world(
        lambda x: (Box().__class__.__name__, x + 1), vec(), changes=[lambda: setattr(Box, "__name__", "Renamed")]
    )


def slots():
    class Box:
        __slots__ = ("a", "b")

        def __init__(self):
            self.a, self.b = 1, [2]

    box = Box()
    changes = [lambda: setattr(box, "a", 4), lambda: box.b.append(5), lambda: delattr(box, "a")]
    return world(lambda x: x * box.a + len(box.b), vec(), changes=changes)


def slots_are_written():
    class Box:
        __slots__ = ("a",)

    box = Box()

    def fn(x):
        box.a = x + 1
        return box.a * 2

    return world(fn, vec(), state=box)


def slotted_instance_is_returned():
    class Box:
        __slots__ = ("a", "b")

    def fn(x):
        made = Box()
        made.a = x + 1
        return made

    return world(fn, vec())


def instance_is_returned():
    class Box:
        def __init__(self, x):
            self.x, self.twin = x, self

    return world(lambda x: Box(x + 1), vec())


def descriptor():
    class Scaled:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, owner, cls):
            return getattr(owner, self.name, 1) * 2

        def __set__(self, owner, value):
            setattr(owner, self.name, value)

    class Box:
        k = Scaled()

    box = Box()

    def fn(x):
        y = x * box.k
        box.k = 4
        return y

    return world(fn, vec(), state=box, changes=[lambda: setattr(box, "k", 8)])


def non_data_descriptor():
    class Two:
        value = 2

        def __get__(self, owner, cls):
            return self.value

    two = Two()

    class Box:
        k = two

    box = Box()
    return world(lambda x: x * box.k, vec(), changes=[lambda: setattr(two, "value", 6), lambda: setattr(box, "k", 9)])


def metaclass():
    class Meta(type):
        @property
        def k(cls):
            return len(cls.__name__)

        def __call__(cls, *args):
            made = super().__call__(*args)
            made.extra = 5
            return made

    class Box(metaclass=Meta):
        pass

    return world(lambda x: x * Box.k + Box().extra, vec())


def metaclass_getattr():
    class Meta(type):
        def __getattr__(cls, name):
            return len(name)

    class Box(metaclass=Meta):
        pass

    return world(lambda x: x * Box.abcd, vec(), changes=[lambda: setattr(Box, "abcd", 9)])


def super_chain():
    class A:
        def f(self, x):
            return x + 1

    class B(A):
        def f(self, x):
            return super().f(x) * 2

    class C(B):
        def f(self, x):
            return super().f(x) - super(B, self).f(x)

    return world(lambda x: C().f(x), vec(), changes=[lambda: setattr(A, "f", lambda self, x: x * 10)])


def multiple_inheritance():
    class A:
        def f(self, x):
            return x + 1

    class B(A):
        def f(self, x):
            return super().f(x) * 2

    class C(A):
        def f(self, x):
            return super().f(x) + 3

    class D(B, C):
        pass

    return world(lambda x: D().f(x), vec(), changes=[lambda: delattr(C, "f")])


def abstract_class():
    class Base(abc.ABC):
        @abc.abstractmethod
        def f(self, x): ...

    class Child(Base):
        def f(self, x):
            return x + 1

    def fn(x):
        try:
            Base()
        except TypeError:
            return Child().f(x), isinstance(Child(), Base)

    return world(fn, vec())


def registered_class():
    class Base(abc.ABC):  # noqa: B024
        pass

    class Other:
        pass

    other = Other()
    return world(lambda x: x + 1 if isinstance(other, Base) else x - 1, vec(), changes=[lambda: Base.register(Other)])


def instance_check_override():
    class Meta(type):
        accept = True

        def __instancecheck__(cls, thing):
            return cls.accept

    class Box(metaclass=Meta):
        pass

    return world(lambda x: x + isinstance(3, Box), vec(), changes=[lambda: setattr(Meta, "accept", False)])


def isinstance_and_friends():
    box = [3]

    def fn(x):
        return x * isinstance(box[0], (int, str)) + issubclass(type(box[0]), float) + callable(box[0])

    return world(fn, vec(), changes=[lambda v=v: box.__setitem__(0, v) for v in ("s", 2.0, print, True, None)])


def new_and_init():
    class Box:
        def __new__(cls, *args):
            made = object.__new__(cls)
            made.tag = 7
            return made

        def __init__(self, x):
            self.x = x

    return world(lambda x: Box(x + 1), vec())


def singleton_by_new():
    class Box:
        made = None

        def __new__(cls):
            if cls.made is None:
                cls.made = object.__new__(cls)
            return cls.made

    return world(lambda x: x * (Box() is Box()), vec())


def init_subclass():
    class Base:
        def __init_subclass__(cls, k=1):
            cls.k = k

    class Child(Base, k=4):
        pass

    return world(lambda x: x * Child.k, vec(), changes=[lambda: setattr(Child, "k", 6)])


def class_getitem():
    class Box:
        def __class_getitem__(cls, n):
            return n * 2

    return world(lambda x: x * Box[3], vec())


def generic_class():
    kind = typing.TypeVar("kind")

    class Box(typing.Generic[kind]):
        def __init__(self, v):
            self.v = v

    return world(lambda x: Box(x + 1).v * 2, vec())


def _vector():
    class Vector:
        def __init__(self, *parts):
            self.parts = list(parts)

        def __add__(self, other):
            return Vector(*[a + b for a, b in zip(self.parts, other.parts, strict=True)])

        def __radd__(self, other):
            return Vector(*[other + a for a in self.parts])

        def __iadd__(self, other):
            self.parts = [a + other for a in self.parts]
            return self

        def __mul__(self, k):
            return Vector(*[a * k for a in self.parts])

        def __neg__(self):
            return Vector(*[-a for a in self.parts])

        def __eq__(self, other):
            return len(self.parts) == len(other.parts)

        def __hash__(self):
            return len(self.parts)

        def __lt__(self, other):
            return len(self.parts) < len(other.parts)

        def __len__(self):
            return len(self.parts)

        def __bool__(self):
            return bool(self.parts)

        def __getitem__(self, i):
            return self.parts[i]

        def __setitem__(self, i, value):
            self.parts[i] = value

        def __delitem__(self, i):
            del self.parts[i]

        def __contains__(self, value):
            return len(self.parts) > value

        def __call__(self, x):
            return self.parts[0] * x

        def __matmul__(self, other):
            return sum(a * b for a, b in zip(self.parts, other.parts, strict=True))

        def __index__(self):
            return len(self.parts)

    return Vector


def operator_overloading():
    cls = _vector()
    return world(lambda x: (cls(x, x) + cls(x, 1)) * 3, vec())


def reflected_operators():
    cls = _vector()
    return world(lambda x: (2 + cls(x)).parts, vec())


def inplace_operators():
    cls = _vector()
    outside = cls(vec(seed=1))

    def fn(x):
        nonlocal outside
        outside += x
        return outside[0]

    return world(fn, vec(), state=lambda: outside)


def comparison_operators():
    cls = _vector()
    a, b = cls(1, 2), cls(1)
    return world(
        lambda x: (x * (1 + (a == b)) + (a < b) + (b < a), a == a),
        vec(),
        changes=[lambda: b.parts.append(1), lambda: b.parts.append(2)],
    )


def container_protocol():
    cls = _vector()
    v = cls(1, 2, 3)

    def fn(x):
        v[0] = 5
        return x * v[1] + len(v) + (2 in v) + (1 if v else 0)

    return world(fn, vec(), state=v, changes=[lambda: v.parts.append(4), lambda: v.parts.__setitem__(1, 9)])


def user_keys_in_dicts():
    cls = _vector()
    key = cls(1)
    table = {key: 2, cls(1, 2): 3}
    return world(
        lambda x: x * table[cls(7)], vec(), changes=[lambda: table.__setitem__(key, 9), lambda: key.parts.append(1)]
    )


def index_protocol():
    cls = _vector()
    items = [1, 2, 3]
    k = cls(1, 2)
    return world(lambda x: x * items[k], vec(), changes=[lambda: items.__setitem__(2, 8), k.parts.pop])


def int_subclass():
    class Count(int):
        pass

    box = [Count(2)]
    return world(
        lambda x: x * box[0], vec(), changes=[lambda: box.__setitem__(0, Count(5)), lambda: box.__setitem__(0, 5)]
    )


def float_subclass():
    class Rate(float):
        unit = "s"

    box = [Rate(0.5)]
    return world(lambda x: (x * box[0], box[0].unit), vec(), changes=[lambda: box.__setitem__(0, Rate(0.25))])


def str_subclass():
    class Name(str):
        pass

    box = [Name("ab")]
    return world(
        lambda x: x * len(box[0]) + (box[0] == "abc"), vec(), changes=[lambda: box.__setitem__(0, Name("abc"))]
    )


def list_subclass():
    class Stack(list):
        def push(self, v):
            self.append(v)

    stack = Stack([1])

    def fn(x):
        stack.push(x.shape[0])
        return x * len(stack), Stack([x])

    return world(fn, vec(), state=stack)


def dict_subclass():
    class Table(dict):
        def __missing__(self, key):
            return len(key)

    table = Table(a=5)
    return world(
        lambda x: x * table["abc"] + table["a"],
        vec(),
        changes=[lambda: table.update(abc=9), lambda: table.update(a=1), lambda: table.pop("abc")],
    )
