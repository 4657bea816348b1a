"""Calls and their arguments, defaults, recursion, wrappers, returned objects."""

import functools

import torch

from .world import changed, vec, world


def positional():
    return world(lambda x, y: x + 2 * y, vec(), vec(seed=1))


def keywords():
    def fn(x, *, scale, shift=1):
        return x * scale + shift

    return world(fn, vec(), scale=3)


def keyword_defaults_change():
    def fn(x, *, scale=2):
        return x * scale

    return world(fn, vec(), changes=[lambda: fn.__kwdefaults__.update(scale=5)])


def defaults_are_replaced():
    def fn(x, scale=2):
        return x * scale

    return world(fn, vec(), changes=[lambda: setattr(fn, "__defaults__", (7,))])


def defaults_of_callee_are_replaced():
    def callee(x, scale=2):
        return x * scale

    def fn(x):
        return callee(x) + 1

    return world(fn, vec(), changes=[lambda: setattr(callee, "__defaults__", (7,))])


def mutable_default_grows():
    def fn(x, seen=[]):  # noqa: B006
        seen.append(1)
        return x * len(seen)

    return world(fn, vec(), state=lambda: fn.__defaults__)


def mutable_default_is_changed():
    def fn(x, table={"k": 2}):  # noqa: B006
        return x * table["k"]

    return world(fn, vec(), changes=[lambda: fn.__defaults__[0].update(k=9), lambda: fn.__defaults__[0].update(k=2)])


def code_is_replaced():
    def fn(x):
        return callee(x)

    def callee(x):
        return x + 1

    def other(x):
        return x - 1

    return world(fn, vec(), changes=[lambda: setattr(callee, "__code__", other.__code__)])


def star_args():
    def callee(*args, **kwargs):
        return sum(args) * kwargs["k"]

    def fn(x, y):
        parts = [x, y]
        more = {"k": 2}
        return callee(*parts, x, **more)

    return world(fn, vec(), vec(seed=1))


def star_args_of_an_outside_list():
    parts = [1, 2]

    def callee(x, a, b=0, c=0):
        return x * a + b + c

    return world(lambda x: callee(x, *parts), vec(), changes=[lambda: parts.append(5), lambda: parts.pop(0)])


def star_kwargs_of_an_outside_dict():
    options = {"a": 1}

    def callee(x, a=0, b=0):
        return x * 3 + a * 10 + b

    return world(lambda x: callee(x, **options), vec(), changes=[lambda: options.update(b=4), lambda: options.pop("a")])


def wrong_arguments():
    def callee(x):
        return x

    return world(lambda x: callee(x, 1), vec())


def missing_argument_is_caught():
    def callee(x, y):
        return x

    def fn(x):
        try:
            return callee(x)
        except TypeError as error:
            return x + len(str(error))

    return world(fn, vec())


def recursion():
    def power(x, n):
        return x if n == 0 else x * power(x, n - 1)

    return world(lambda x: power(x, 3), vec())


def mutual_recursion():
    def even(x, n):
        return x if n == 0 else odd(x + 1, n - 1)

    def odd(x, n):
        return x if n == 0 else even(x * 2, n - 1)

    return world(lambda x: even(x, 5), vec())


def lambdas():
    return world(lambda x: (lambda a, b=2: a * b)(x), vec())


def positional_only():
    def callee(x, /, y, *, z):
        return x + y * z

    return world(lambda x: callee(x, 2, z=3), vec())


def partial_inside():
    def callee(x, k):
        return x * k

    return world(lambda x: functools.partial(callee, k=3)(x), vec())


def partial_outside():
    def callee(x, k, m=1):
        return x * k + m

    box = [functools.partial(callee, k=3)]
    return world(lambda x: box[0](x), vec(), changes=[lambda: box.__setitem__(0, functools.partial(callee, k=4, m=2))])


def partial_with_changed_keywords():
    def callee(x, k):
        return x * k

    part = functools.partial(callee, k=3)
    return world(lambda x: part(x), vec(), changes=[lambda: part.keywords.update(k=8)])


def partial_of_an_operator():
    box = {"f": functools.partial(torch.sum, dim=[0])}
    change = lambda: box.update(f=functools.partial(torch.sum, dim=[1]))  # noqa: E731
    return world(lambda x: box["f"](x), vec(2, 3), changes=[change])


def partial_is_returned():
    def callee(x, k):
        return x * k

    return world(lambda x: functools.partial(callee, x + 1), vec())


def decorated():
    def twice(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            return f(f(*args, **kwargs))

        return inner

    @twice
    def callee(x):
        return x * 2 + 1

    return world(lambda x: callee(x), vec())


def wrapper_made_inside():
    def fn(x):
        def twice(f):
            return lambda v: f(f(v))

        return twice(lambda v: v * 3)(x)

    return world(fn, vec())


def function_in_a_list_is_replaced():
    table = [torch.sin, torch.cos]
    return world(lambda x: table[0](x), vec(), changes=[table.reverse, lambda: table.insert(0, torch.tanh)])


def function_in_a_dict_is_replaced():
    table = {"act": lambda v: v + 1}
    return world(lambda x: table["act"](x), vec(), changes=[lambda: table.update(act=lambda v: v - 1)])


def function_with_attributes():
    def fn(x):
        fn.calls += 1
        return x + 1

    fn.calls = 0
    return world(fn, vec(), state=lambda: fn.calls)


def function_attribute_is_read():
    def callee(x):
        return x * callee.scale

    callee.scale = 2
    return world(lambda x: callee(x), vec(), changes=[lambda: setattr(callee, "scale", 4)])


def function_name_is_read():
    def callee(x):
        return x

    return world(lambda x: (callee.__name__, x + 1), vec(), changes=[lambda: setattr(callee, "__name__", "other")])


def function_defaults_are_read():
    def callee(x, k=2):
        return x

    return world(lambda x: x * callee.__defaults__[0], vec(), changes=[lambda: setattr(callee, "__defaults__", (6,))])


def callable_object():
    class Scale:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k

    scale = Scale(2)
    return world(lambda x: scale(x), vec(), changes=[lambda: setattr(scale, "k", 3)])


def callable_object_is_the_function():
    class Scale:
        k = 2

        def __call__(self, x):
            return x * self.k

    scale = Scale()
    return world(scale, vec(), changes=[lambda: setattr(scale, "k", 3), lambda: delattr(scale, "k")], state=scale)


def bound_method_is_the_function():
    class Model:
        def __init__(self):
            self.k = 2

        def step(self, x):
            self.last = x * self.k
            return self.last

    model = Model()
    return world(model.step, vec(), changes=[lambda: setattr(model, "k", 3)], state=model)


def bound_method_is_replaced():
    class Model:
        def f(self, x):
            return x + 1

        def g(self, x):
            return x + 2

    model = Model()
    model.call = model.f
    return world(lambda x: model.call(x), vec(), changes=[lambda: setattr(model, "call", model.g)])


def bound_method_of_another_object():
    class Model:
        def __init__(self, k):
            self.k = k

        def f(self, x):
            return x * self.k

    box = [Model(2).f]
    return world(lambda x: box[0](x), vec(), changes=[lambda: box.__setitem__(0, Model(3).f)])


def bound_builtin_method_from_outside():
    seen = []
    push = seen.append

    def fn(x):
        push(x.shape[0])
        return x + 1

    return world(fn, vec(), state=lambda: seen)


def bound_builtin_lookup_from_outside():
    table = {"k": 2}
    get = table.get
    return world(lambda x: x * get("k", 1), vec(), changes=[lambda: table.update(k=5), table.clear])


def bound_builtin_method_is_returned():
    def fn(x):
        made = [x + 1]
        return made, made.append

    def wrapped(x):
        made, push = fn(x)
        push(3)
        return made

    return world(wrapped, vec())


def a_method_of_an_inside_list_escapes():
    holder = {}

    def fn(x):
        made = [x + 1]
        holder["push"] = made.append
        holder["made"] = made
        return x

    def state():
        if "push" in holder:
            holder["push"](1)
        return holder.get("made")

    return world(fn, vec(), state=state)


def none_is_returned():
    return world(lambda x: None, vec())


def an_argument_is_returned():
    return world(lambda x, y: (y, x, [x]), vec(), vec(seed=1))


def the_same_argument_twice():
    x = vec()
    return world(lambda a, b: (a + 1, a is b, b), x, x)


def arguments_become_the_same():
    x, y = vec(), vec(seed=1)
    w = world(lambda a, b: (a is b, a + b), x, y)
    w.changes = [lambda: setattr(w, "args", (x, x)), lambda: setattr(w, "args", (x, y))]
    return w


def lists_become_the_same():
    a, b = [1], [1]

    def fn(x, p, q):
        p.append(2)
        return x * len(q)

    w = world(fn, vec(), a, b)
    w.changes = [lambda: setattr(w, "args", (vec(), a, a)), lambda: setattr(w, "args", (vec(), a, b))]
    return w


def objects_become_the_same():
    class Box:
        k = 1

    a, b = Box(), Box()

    def fn(x, p, q):
        p.k = 5
        return x * q.k

    w = world(fn, vec(), a, b)

    def fresh():
        one = Box()
        w.args = (vec(), one, one)

    return changed(w, [fresh])


def number_of_arguments_changes():
    w = world(lambda *args: sum(args), vec(), 1)
    return changed(w, [lambda: setattr(w, "args", (vec(), 1, 2)), lambda: setattr(w, "args", (vec(),))])


def keyword_order_changes():
    def fn(x, **kwargs):
        return x, list(kwargs)

    w = world(fn, vec(), a=1, b=2)
    return changed(w, [lambda: setattr(w, "kwargs", {"b": 2, "a": 1})])


def types_of_an_argument_change():
    w = world(lambda x, k: x * k, vec(), 2)
    kinds = [2.0, True, 2, vec(seed=3), 2.5, -0.0, 0.0, float("nan")]
    return changed(w, [functools.partial(setattr, w, "args", (vec(), k)) for k in kinds])


def zeros_of_both_signs():
    w = world(lambda x, k: (x / x.new_tensor(k), repr(k)), vec(), 0.0)
    return changed(w, [lambda: setattr(w, "args", (vec(), -0.0)), lambda: setattr(w, "args", (vec(), 0))])


def dtype_and_shape_change():
    w = world(lambda x: (x + 1, x.dtype, x.shape, x.is_contiguous()), vec(2, 3))
    new = [vec(3, 2), vec(3, 2).t(), vec(2, 3).double(), vec(2, 3).int(), vec(1, 2, 3), vec(2, 3, grad=True)]
    return changed(w, [functools.partial(setattr, w, "args", (t,)) for t in new])


def strings_change():
    w = world(lambda x, mode: x + 1 if mode == "up" else x - 1, vec(), "up")
    return changed(w, [lambda: setattr(w, "args", (vec(), "down")), lambda: setattr(w, "args", (vec(), "u" + "p"))])


def none_or_tensor():
    w = world(lambda x, mask=None: x if mask is None else x * mask, vec())
    return changed(w, [lambda: w.kwargs.update(mask=vec(seed=2)), lambda: w.kwargs.update(mask=None)])


def nested_containers_as_arguments():
    def fn(x, tree):
        return x * tree["a"][0] + tree["b"][1]["c"]

    tree = {"a": [2], "b": (1, {"c": 3})}
    changes = [lambda: tree["a"].__setitem__(0, 5), lambda: tree["b"][1].update(c=7), lambda: tree.update(a=[1, 2])]
    return world(fn, vec(), tree, changes=changes)


def cached_function():
    @functools.lru_cache(maxsize=None)
    def scale(n):
        return n * 2

    return world(lambda x: x * scale(x.shape[0]), vec())


def cached_function_with_effects():
    seen = []

    @functools.lru_cache(maxsize=None)
    def scale(n):
        seen.append(n)
        return n * 2

    return world(lambda x: x * scale(3), vec(), state=lambda: seen)


def wrapped_more_than_once():
    import torch._refs

    return world(lambda x: torch._refs.mul(torch.tensor([2, 3, 4]), x), vec())


def single_dispatch():
    @functools.singledispatch
    def shown(v):
        return 1

    @shown.register
    def _(v: str):
        return 2

    return world(lambda x: x * shown("a") + shown(3), vec())


def builtins_replaced_by_globals():
    from .world import source

    scope = source("builtins_replaced", "def fn(x): return x * len([1, 2])")
    return world(scope["fn"], vec(), changes=[lambda: scope.update(len=lambda v: 9), lambda: scope.pop("len")])


def compiled_within_the_call():
    import saker

    scale = [2]

    def fn(x):
        inner = saker.compile(lambda v: v * scale[0], dynamic=True)
        layer = saker.compile(torch.nn.ReLU())
        return layer(inner(x)) + saker.compile(torch.sin)(x)

    return world(fn, vec(), changes=[lambda: scale.__setitem__(0, 5)])


def compiled_within_the_call_and_given():
    import saker

    def fn(x):
        return x + 1, saker.compile(lambda v: v * 2)

    return world(lambda x: (lambda y, made: made(y))(*fn(x)), vec())
