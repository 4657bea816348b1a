"""The standard library's C code: sorted lists, heaps, paths, bytes, weak references; results with names made anew."""

import base64
import bisect
import heapq
import os.path
import struct
import weakref
import zlib

import torch
from torch.utils import _pytree

from .world import vec, world


def bisect_in_a_list():
    bounds = [1, 3, 5]
    return world(lambda x: x * bisect.bisect(bounds, 3), vec(), changes=[lambda: bounds.insert(0, 0)])


def bisect_with_a_key():
    scale = [1]
    return world(
        lambda x: x * bisect.bisect_left([1, 2, 3], 4, key=lambda v: v * scale[0]),
        vec(),
        changes=[lambda: scale.__setitem__(0, 2)],
    )


def sorted_list_from_outside():
    seen = [1, 5]

    def fn(x):
        bisect.insort(seen, 3)
        return x * len(seen) + seen.pop(1)

    return world(fn, vec(), state=lambda: list(seen))


def heap_of_the_call():
    def fn(x):
        heap = [3, 1, 2]
        heapq.heapify(heap)
        heapq.heappush(heap, 0)
        return x * heapq.heappop(heap) + heapq.nlargest(2, heap)[0] * heapq.heapreplace(heap, 7)

    return world(fn, vec())


def heap_from_outside():
    heap = [2, 4, 3]

    def fn(x):
        heapq.heappush(heap, 1)
        return x * heapq.heappop(heap) + heapq.heapreplace(heap, 2)

    return world(fn, vec(), state=lambda: list(heap))


def heap_of_objects():
    class Task:
        def __init__(self, rank):
            self.rank = rank

        def __lt__(self, other):
            return self.rank < other.rank

    tasks = [Task(2), Task(1)]

    def fn(x):
        heap = []
        for task in tasks:
            heapq.heappush(heap, task)
        return x * heap[0].rank

    return world(fn, vec(), changes=[lambda: setattr(tasks[0], "rank", 0), lambda: setattr(tasks[1], "rank", 9)])


def paths():
    names = ["a", "b.txt"]
    return world(
        lambda x: x * len(os.path.join(*names)) + len(os.path.splitext(os.path.basename(names[1]))[0]),
        vec(),
        changes=[lambda: names.__setitem__(1, "long.txt")],
    )


def bytes_of_numbers():
    code = ["<hh"]

    def fn(x):
        packed = struct.pack(code[0], 2, 3)
        return x * struct.unpack(code[0], packed)[1] + len(base64.b64encode(packed)) + zlib.crc32(packed) % 7

    return world(fn, vec(), changes=[lambda: code.__setitem__(0, "<qq")])


def weak_reference_of_the_call():
    class Box:
        k = 3

    box = Box()

    def fn(x):
        held = weakref.ref(box)
        mine = weakref.ref(x)
        return mine() * held().k

    return world(fn, vec(), changes=[lambda: setattr(box, "k", 4)])


def weak_reference_that_ends():
    class Box:
        pass

    def fn(x):
        box = Box()
        held = weakref.ref(box)
        alive = held() is not None
        del box
        return x * (2 if alive else 3) * (5 if held() is None else 7)

    return world(fn, vec())


def weak_reference_that_leaves():
    def fn(x):
        y = x + 1
        return y, weakref.ref(y)

    return world(lambda x: fn(x)[1]() is None, vec())


def weak_reference_kept():
    class Box:
        pass

    box, kept = Box(), []

    def fn(x):
        kept[:] = [weakref.ref(box)]
        return x + len(kept)

    return world(fn, vec(), state=lambda: [ref() is box for ref in kept])


def results_with_names():
    def fn(x):
        made = torch.return_types.max((x, x + 1))
        return made, made.indices * 2

    return world(fn, vec())


def results_with_names_mapped():
    def fn(x):
        return _pytree.tree_map(lambda t: t * 2, torch.max(x.reshape(1, -1), 1))

    return world(fn, vec())


def weak_reference_with_a_callback():
    class Box:
        pass

    told = []

    def fn(x):
        box = Box()
        ref = weakref.ref(box, lambda _: told.append(1))
        del box
        return x * (2 if ref() is None else 3)

    return world(fn, vec(), state=lambda: len(told))


def weak_reference_to_a_result():
    def fn(x):
        y = x * 2
        return y, [weakref.ref(y)]

    return world(lambda x: (lambda y, refs: (y, refs[0]() is y))(*fn(x)), vec())


def weak_references_compared():
    class Box:
        pass

    a, b = Box(), Box()
    pair = [a, a]
    return world(
        lambda x: x * (2 if weakref.ref(pair[0]) == weakref.ref(pair[1]) else 3),
        vec(),
        changes=[lambda: pair.__setitem__(1, b)],
    )


def weak_keys():
    class Box:
        pass

    box = Box()
    seen = weakref.WeakKeyDictionary()

    def fn(x):
        seen[box] = 2
        return x * seen[box]

    return world(fn, vec(), state=lambda: list(seen.values()))


def weak_values():
    class Box:
        k = 2

    box = Box()
    cache = weakref.WeakValueDictionary(a=box)
    return world(lambda x: x * cache["a"].k, vec(), changes=[lambda: setattr(box, "k", 5)])
