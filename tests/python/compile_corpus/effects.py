"""Side effects on lists, dicts, sets, deques, attributes; collections."""

import collections
import warnings

import torch

from .world import changed, vec, world


def list_append():
    items = []

    def fn(x):
        items.append(x + 1)
        return items[-1] * 2

    return world(fn, vec(), state=items)


def list_methods():
    items = [5, 3, 4]

    def fn(x):
        items.sort()
        items.reverse()
        items.insert(1, 9)
        last = items.pop()
        items.remove(9)
        items.extend([last])
        return x * items[0] + items.index(last) + items.count(4)

    return world(fn, vec(), state=items)


def list_extend_by_a_list_that_changes():
    items = []

    def fn(x):
        more = [x, 1]
        items.extend(more)
        more.append(2)
        return len(items)

    return world(fn, vec(), state=items)


def list_extend_by_a_generator():
    items = []

    def fn(x):
        items.extend(x + i for i in range(2))
        return x

    return world(fn, vec(), state=items)


def list_extend_by_a_map():
    items = []

    def fn(x):
        items.extend(map(lambda i: x * i, [1, 2]))
        return x

    return world(fn, vec(), state=items)


def list_extend_by_an_outside_list():
    items, more = [], [1, 2]

    def fn(x):
        items.extend(more)
        return x * len(more)

    return world(fn, vec(), state=lambda: (items, more), changes=[lambda: more.append(7)])


def list_slice_is_written():
    items = [1, 2, 3]

    def fn(x):
        items[1:2] = [x, x + 1]
        return x * len(items)

    return world(fn, vec(), state=items, changes=[lambda: items.__delitem__(slice(3, None))])


def list_slice_of_a_new_list():
    outside = [7, 8]

    def fn(x):
        made = [1, 2, 3]
        made[0:1] = outside
        return x * sum(made)

    return world(fn, vec(), changes=[lambda: outside.append(9), lambda: outside.__setitem__(0, 1)])


def list_item_is_written():
    items = [1, 2]

    def fn(x):
        items[0] = x + 1
        return items[0] * items[1]

    return world(fn, vec(), state=items, changes=[lambda: items.__setitem__(1, 5)])


def list_item_is_deleted():
    items = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]

    def fn(x):
        del items[0]
        return x * items[0]

    return world(fn, vec(), state=items)


def list_inplace_operator():
    items = [1]

    def fn(x):
        local = items
        local += [2]
        return x * len(items)

    return world(fn, vec(), state=items)


def list_pop_and_push():
    stack = [1, 2, 3]

    def fn(x):
        top = stack.pop()
        stack.append(top)
        return x * top

    return world(fn, vec(), state=stack, changes=[lambda: stack.append(8)])


def list_clear_and_refill():
    items = [1]

    def fn(x):
        items.clear()
        items.append(x)
        items.append(x + 1)
        return x

    return world(fn, vec(), state=items)


def list_in_list():
    outer = [[1], [2]]

    def fn(x):
        outer[0].append(x)
        outer.append(outer[0])
        return x * len(outer)

    return world(fn, vec(), state=outer)


def new_list_stored_and_changed():
    holder = {}

    def fn(x):
        made = []
        holder["made"] = made
        made.append(x + 1)
        return x

    return world(fn, vec(), state=holder)


def dict_write():
    table = {}

    def fn(x):
        table["a"] = x + 1
        table["n"] = x.shape[0]
        return table["a"] * table["n"]

    return world(fn, vec(), state=table)


def dict_write_with_other_key_objects():
    table = {}

    def fn(x):
        table[1000 + x.shape[0]] = x + 1
        return table[int("1003")] * 2

    w = world(fn, vec(), state=table)
    return changed(w, [lambda: setattr(w, "args", (vec(seed=7),))])


def dict_write_with_computed_strings():
    table = {}

    def fn(x):
        table["ke" + str(x.shape[0])] = x + 1
        return table["k" + "e3"] * 2

    w = world(fn, vec(), state=table)
    return changed(w, [lambda: setattr(w, "args", (vec(seed=7),))])


def dict_update_then_read():
    table = {"k": 0}

    def fn(x):
        table.update(k=x + 1)
        return table["k"] * 2

    w = world(fn, vec(), state=table)
    return changed(w, [lambda: setattr(w, "args", (vec(seed=7),))])


def dict_methods():
    table = {"a": 1, "b": 2}

    def fn(x):
        first = table.setdefault("a", 9)
        last = table.pop("b", 0)
        table.update({"b": last}, c=x)
        return x * first + last + len(table)

    return world(fn, vec(), state=table, changes=[lambda: table.update(a=5), lambda: table.pop("a")])


def dict_get_with_default():
    table = {}
    return world(
        lambda x: x * table.get("k", 3), vec(), changes=[lambda: table.update(k=5), lambda: table.update(k=None)]
    )


def dict_views():
    table = {"a": 1, "b": 2}

    def fn(x):
        return x * sum(table.values()), list(table.keys()), ("a", 1) in table.items(), "c" in table.keys()

    return world(fn, vec(), changes=[lambda: table.update(c=1), lambda: table.update(a=3)])


def dict_view_from_outside():
    table = {"a": 1}
    view = table.values()
    return world(lambda x: x * sum(view), vec(), changes=[lambda: table.update(b=4)])


def dict_order():
    table = {"a": 1, "b": 2}

    def reorder():
        table["a"] = table.pop("a")

    return world(lambda x: (list(table), x + next(iter(table.values()))), vec(), changes=[reorder])


def dict_popitem():
    table = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7}

    def fn(x):
        key, value = table.popitem()
        return x * value, key

    return world(fn, vec(), state=table)


def dict_delete():
    table = {"a": 1}

    def fn(x):
        table["t"] = x
        del table["t"]
        return x * len(table)

    return world(fn, vec(), state=table)


def dict_merge():
    a, b = {"k": 1}, {"k": 2, "m": 3}
    return world(lambda x: (x + 1, a | b, {**b, **a}), vec(), changes=[lambda: a.update(z=1), lambda: b.pop("k")])


def dict_with_tensor_keys():
    t = vec(seed=1)
    table = {t: 2}
    return world(lambda x: x * table[t], vec(), changes=[lambda: table.update({t: 5})])


def dict_with_tuple_keys():
    table = {(1, "a"): 2}
    return world(
        lambda x: x * table.get((x.shape[0] - 2, "a"), 7),
        vec(),
        changes=[lambda: table.update({(1, "a"): 4}), table.clear],
    )


def key_absent_then_present():
    cache = {}

    def fn(x):
        if "w" not in cache:
            cache["w"] = x * 2
        return x + cache["w"]

    return world(fn, vec(), state=cache, changes=[cache.clear])


def set_methods():
    seen = {1, 2}

    def fn(x):
        seen.add(x.shape[0])
        seen.discard(1)
        return x * len(seen)

    return world(fn, vec(), state=seen, changes=[lambda: seen.add(8)])


def set_operations():
    a, b = {1, 2, 3}, {2, 3, 4}
    return world(
        lambda x: x * len(a & b) + len(a | b) - len(a ^ b) + len(a - b) + (a <= b) + a.isdisjoint(b),
        vec(),
        changes=[lambda: a.add(4), lambda: b.update({1, 9})],
    )


def set_of_strings_is_iterated():
    names = {"a", "bb"}
    return world(lambda x: x * sum(len(n) for n in names), vec(), changes=[lambda: names.add("ccc"), names.clear])


def frozen_set():
    box = [frozenset({1, 2})]
    return world(
        lambda x: (x * len(box[0]), frozenset([3])), vec(), changes=[lambda: box.__setitem__(0, frozenset({5}))]
    )


def deque_methods():
    queue = collections.deque([1, 2, 3])

    def fn(x):
        queue.append(queue.popleft())
        queue.rotate(1)
        return x * queue[0] + queue[-1]

    return world(fn, vec(), state=queue, changes=[lambda: queue.appendleft(7)])


def deque_with_a_limit():
    queue = collections.deque([1], maxlen=2)

    def fn(x):
        queue.append(x + 1)
        return x * len(queue)

    return world(fn, vec(), state=lambda: list(queue))


def limited_deque_is_returned():
    return world(lambda x: collections.deque([x, x + 1, x + 2], maxlen=2), vec())


def ordered_dict():
    table = collections.OrderedDict(a=1, b=2)
    return world(
        lambda x: (list(table), x * next(iter(table.values()))),
        vec(),
        changes=[lambda: table.move_to_end("a"), lambda: table.update(c=3), lambda: table.move_to_end("c", last=False)],
    )


def ordered_dict_is_changed():
    table = collections.OrderedDict(a=1, b=2)

    def fn(x):
        table.move_to_end("a")
        table["c"] = x
        return list(table)

    return world(fn, vec(), state=table)


def ordered_dict_is_returned():
    def fn(x):
        made = collections.OrderedDict(a=x, b=1)
        made.move_to_end("a")
        return made

    return world(fn, vec())


def default_dict():
    table = collections.defaultdict(list)

    def fn(x):
        table["k"].append(x + 1)
        return x * len(table["k"])

    return world(fn, vec(), state=table)


def default_dict_inside():
    def fn(x):
        made = collections.defaultdict(int)
        for c in "aab":
            made[c] += 1
        return x * made["a"], made

    return world(fn, vec())


def counter():
    def fn(x):
        counts = collections.Counter("aabc")
        counts.update("c")
        return x * counts["c"], counts.most_common(1)

    return world(fn, vec())


def chain_map():
    a, b = {"k": 1}, {"k": 2, "m": 3}
    return world(
        lambda x: x * collections.ChainMap(a, b)["k"] + collections.ChainMap(a, b)["m"],
        vec(),
        changes=[lambda: a.pop("k"), lambda: b.update(m=9)],
    )


def attribute_counter():
    class Box:
        n = 0

    box = Box()

    def fn(x):
        box.n += 1
        return x

    return world(fn, vec(), state=box)


def attribute_with_a_tensor():
    class Box:
        last = None

    box = Box()

    def fn(x):
        previous = box.last
        box.last = x * 2
        return x if previous is None else x + previous

    return world(fn, vec(), state=box)


def attribute_of_a_tensor():
    t = vec(seed=1)
    t.note = 2
    return world(lambda x: x * t.note, vec(), changes=[lambda: setattr(t, "note", 5)])


def attribute_of_a_tensor_is_written():
    t = vec(seed=1)

    def fn(x):
        t.note = x + 1
        return t.note * 2

    return world(fn, vec(), state=lambda: t.note if hasattr(t, "note") else None)


def argument_list_is_changed():
    def fn(x, items):
        items.append(x)
        return len(items)

    return world(fn, vec(), [])


def argument_dict_is_changed():
    def fn(x, table):
        table["out"] = x + 1
        return table

    return world(fn, vec(), {})


def two_names_of_one_list():
    items = [1]
    other = items

    def fn(x):
        items.append(2)
        return x * len(other)

    return world(fn, vec(), state=items, changes=[items.clear])


def effects_keep_their_order():
    log = []

    def fn(x):
        log.append("a")
        log.extend(["b", "c"])
        log.insert(0, "z")
        log.append(log[1])
        return x

    return world(fn, vec(), state=log)


def read_write_read():
    table = {"k": 2}

    def fn(x):
        before = table["k"]
        table["k"] = before + 1
        after = table["k"]
        table["k"] = before
        return x * before * after

    return world(fn, vec(), state=table, changes=[lambda: table.update(k=7)])


def old_value_is_kept():
    table = {"k": vec(seed=5)}

    def fn(x):
        old = table["k"]
        table["k"] = x + 1
        return old * 2, old

    return world(fn, vec(), state=table)


def swap_of_two_entries():
    table = {"a": vec(seed=1), "b": vec(seed=2)}

    def fn(x):
        table["a"], table["b"] = table["b"], table["a"]
        return x + table["a"]

    return world(fn, vec(), state=table)


def tensors_in_outside_containers():
    parts = [vec(seed=1), vec(seed=2)]

    def fn(x):
        return x + torch.stack(parts).sum(0)

    changes = [lambda: parts.append(vec(seed=3)), lambda: parts.__setitem__(0, parts[1]), lambda: parts[0].zero_()]
    return world(fn, vec(), changes=changes)


def bytearrays_and_bytes():
    box = [b"abc"]
    return world(lambda x: x * box[0][1] + len(box[0]), vec(), changes=[lambda: box.__setitem__(0, b"zz")])


def bytearray_from_outside():
    box = bytearray(b"ab")
    return world(lambda x: x * len(box) + box[0], vec(), changes=[lambda: box.append(9), lambda: box.__setitem__(0, 1)])


def warnings_are_told_again():
    def fn(x):
        warnings.warn("first")  # noqa: B028  it is what is tested
        print("between")
        warnings.warn("second", RuntimeWarning)  # noqa: B028  it is what is tested
        return x + 1

    return world(fn, vec(), changes=[lambda: warnings.simplefilter("default"), lambda: warnings.simplefilter("ignore")])


def warnings_about_the_caller():
    def deeper():
        warnings.warn("about one", stacklevel=1)
        warnings.warn("about two", stacklevel=2)
        warnings.warn("about three", DeprecationWarning, stacklevel=3)

    def fn(x):
        deeper()
        return x + 1

    return world(fn, vec())


def a_warning_becomes_an_error():
    table = {}

    def fn(x):
        table["n"] = 1
        warnings.warn("refused")  # noqa: B028  it is what is tested
        table["n"] = 2
        return x + 1

    def strict():
        table.clear()
        warnings.simplefilter("error")

    return world(fn, vec(), changes=[strict, lambda: warnings.simplefilter("ignore")], state=table)


def filters_are_changed_inside():
    def fn(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("silent")  # noqa: B028  it is what is tested
        return x + 1

    return world(fn, vec())
