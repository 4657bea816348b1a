"""In-place operators and views, random operators, autograd through the result, context managers, overrides."""

import functools

import torch

from .world import changed, vec, world


def inplace_on_an_argument():
    def fn(x):
        x.add_(1).mul_(2)
        return x * 3

    return world(fn, vec())


def inplace_on_a_view_of_an_argument():
    def fn(x):
        x[0] = 7
        x[1:].neg_()
        x.t().mul_(2)
        return x.sum()

    return world(fn, vec(2, 2))


def inplace_on_a_new_tensor():
    def fn(x):
        y = x.clone()
        y[:, 0] = 1
        y.view(-1)[1] = 5
        y.unsqueeze(0).add_(1)
        return y

    return world(fn, vec(2, 3, grad=True))


def views_are_returned():
    return world(lambda x: (x.view(-1), x[0], x.t(), x), vec(2, 3))


def views_of_results_are_returned():
    def fn(x):
        y = x + 1
        return y, y[0], y.view(-1)[1:]

    return world(fn, vec(2, 3, grad=True))


def arguments_share_memory():
    base = vec(4)
    w = world(lambda a, b: (a.add_(1), b * 2), base[:2], base[2:])
    return changed(
        w, [lambda: setattr(w, "args", (base[:2], base[:2])), lambda: setattr(w, "args", (base[:2], vec(2)))]
    )


def argument_and_its_view():
    def fn(a, b):
        a.mul_(2)
        return b + 1

    base = vec(4)
    w = world(fn, base, base.view(2, 2))
    return changed(w, [lambda: setattr(w, "args", (base, vec(2, 2)))])


def inplace_on_a_closed_over_tensor():
    total = torch.zeros(3)

    def fn(x):
        total.add_(x)
        return total + 0

    return world(fn, vec(), state=lambda: total, changes=[lambda: total.fill_(5)])


def setitem_with_masks():
    def fn(x):
        y = x.clone()
        y[y > 0] = 0
        return y

    return world(fn, vec(5))


def advanced_indexing():
    index = torch.tensor([0, 2])
    return world(lambda x: (x[index], x[:, index], x[[1, 0]], x[index, index]), vec(3, 3))


def index_list_from_outside():
    rows = [0, 1]
    return world(lambda x: x[rows], vec(3, 2), changes=[lambda: rows.append(2), lambda: rows.__setitem__(0, 2)])


def out_arguments():
    out = torch.empty(3)

    def fn(x):
        torch.add(x, 1, out=out)
        return out * 2

    return world(fn, vec(), state=lambda: out)


def detach_and_data():
    return world(lambda x: (x.detach() * 2, x.data + 1, x.clone().detach()), vec(grad=True))


def write_through_data():
    def fn(x):
        x.data.add_(1)
        return x * 2

    return world(fn, vec())


def requires_grad_of_an_argument():
    def fn(x):
        x.requires_grad_(True)
        return x * 2

    return world(fn, vec())


def requires_grad_of_a_new_tensor():
    def fn(x):
        y = x.detach().clone().requires_grad_(True)
        return y * 2, y.requires_grad

    return world(fn, vec())


def grad_is_read():
    p = vec(seed=2, grad=True)

    def back():
        (p * 2).sum().backward()

    def clear():
        p.grad = None

    return world(lambda x: x if p.grad is None else x + p.grad, vec(), changes=[back, back, clear])


def grad_is_set():
    p = vec(seed=2, grad=True)

    def fn(x):
        p.grad = x + 1
        return x

    return world(fn, vec(), state=lambda: p.grad)


def backward_inside():
    p = vec(seed=2, grad=True)

    def fn(x):
        loss = (p * x).sum()
        loss.backward()
        return loss.detach()

    return world(fn, vec(), state=lambda: p.grad)


def grad_inside():
    def fn(x):
        y = (x * x).sum()
        (g,) = torch.autograd.grad(y, x)
        return g

    return world(fn, vec(grad=True))


def training_step():
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def fn(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return world(fn, vec(4, 3), vec(4, 1), state=lambda: list(model.parameters()))


def results_take_gradients():
    return world(lambda x, y: (x * y).sin().sum(), vec(grad=True), vec(seed=1, grad=True))


def some_inputs_take_gradients():
    w = world(lambda x, y: (x * y, x.detach() + 1), vec(grad=True), vec(seed=1))
    return changed(
        w, [lambda: setattr(w, "args", (vec(), vec(grad=True))), lambda: setattr(w, "args", (vec(), vec(seed=1)))]
    )


def non_leaf_argument():
    w = world(lambda x: x * 2, vec(grad=True) * 3)
    return changed(w, [lambda: setattr(w, "args", (vec(grad=True),))])


def retained_hook():
    log = []

    def fn(x):
        y = x * 2
        y.register_hook(lambda g: log.append(1))
        return y

    return world(fn, vec(grad=True), state=lambda: log)


def hook_on_an_argument():
    x, log = vec(grad=True), []
    x.register_hook(lambda g: log.append(1) or g * 2)
    return world(lambda x: x * 3, x, state=lambda: log)


def random_operators():
    return world(lambda x: x + torch.rand(3) + torch.randn_like(x) + torch.randint(0, 5, (3,)), vec())


def random_in_place():
    def fn(x):
        y = torch.empty_like(x).uniform_()
        y.normal_(0, 2)
        return torch.bernoulli(torch.full((3,), 0.5)) + y

    return world(fn, vec())


def dropout_function():
    return world(lambda x: torch.nn.functional.dropout(x, 0.5, training=True), vec(6, grad=True))


def permutation_and_multinomial():
    return world(lambda x: (torch.randperm(4), torch.multinomial(torch.ones(4), 2)), vec())


def generator_argument():
    generator = torch.Generator().manual_seed(3)
    return world(lambda x: x + torch.rand(3, generator=generator), vec(), state=generator.get_state)


def seeding_inside():
    def fn(x):
        torch.manual_seed(7)
        return x + torch.rand(3)

    return world(fn, vec())


def python_random():
    import random

    return world(lambda x: x * random.random(), vec())


def no_grad():
    def fn(x):
        with torch.no_grad():
            y = x * 2
        return y, x * 3

    return world(fn, vec(grad=True))


def no_grad_outside():
    def fn(x):
        return x * 2, torch.is_grad_enabled()

    w = world(fn, vec(grad=True))
    inner = w.fn

    def quiet(x):
        with torch.no_grad():
            return inner(x)

    return changed(w, [lambda: setattr(w, "args", (vec(),))]) if quiet is None else w


def enable_grad():
    def fn(x):
        with torch.no_grad():
            with torch.enable_grad():
                y = x * 2
            return y, x * 3

    return world(fn, vec(grad=True))


def no_grad_as_a_decorator():
    @torch.no_grad()
    def callee(x):
        return x * 2

    return world(lambda x: callee(x) + x, vec(grad=True))


def set_grad_enabled():
    flag = [False]

    def fn(x):
        with torch.set_grad_enabled(flag[0]):
            return x * 2

    return world(fn, vec(grad=True), changes=[lambda: flag.__setitem__(0, True)])


def grad_mode_is_left_changed():
    def fn(x):
        torch.set_grad_enabled(not torch.is_grad_enabled())
        return x * 2

    return world(fn, vec(grad=True), changes=[lambda: torch.set_grad_enabled(True)])


def inference_mode():
    def fn(x):
        with torch.inference_mode():
            y = x * 2
        return y.is_inference(), x + 1

    return world(fn, vec())


def autocast():
    def fn(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
        return y, x @ x

    return world(fn, vec(3, 3, grad=True))


def autocast_around_the_call():
    state = {"on": False}

    def inner(x):
        return x @ x

    def fn(x):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=state["on"]):
            return inner(x)

    return world(fn, vec(3, 3), changes=[lambda: state.update(on=True), lambda: state.update(on=False)])


def default_dtype_changes():
    def fn(x):
        return x + torch.ones(3), torch.get_default_dtype()

    return world(
        fn,
        vec(),
        changes=[lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)],
    )


def dtype_from_outside():
    box = [torch.float64]
    return world(
        lambda x: x.to(box[0]),
        vec(),
        changes=[lambda: box.__setitem__(0, torch.int32), lambda: box.__setitem__(0, torch.float32)],
    )


def device_object():
    device = torch.device("cpu")
    return world(lambda x: torch.zeros(3, device=device) + x.to(device), vec())


def torch_function_subclass():
    class Tagged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    t = vec(seed=1).as_subclass(Tagged)
    return world(lambda x: (x + t).sum(), vec())


def torch_function_subclass_with_a_count():
    class Counted(torch.Tensor):
        calls = 0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls += 1
            return super().__torch_function__(func, types, args, kwargs or {})

    t = vec(seed=1).as_subclass(Counted)
    return world(lambda x: (x + t).sum(), vec(), state=lambda: Counted.calls)


def torch_function_object():
    class Lazy:
        def __init__(self, t):
            self.t = t

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            plain = [a.t if isinstance(a, Lazy) else a for a in args]
            return func(*plain, **(kwargs or {}))

    lazy = Lazy(vec(seed=1))
    return world(lambda x: torch.add(x, lazy), vec(), changes=[lambda: setattr(lazy, "t", vec(seed=4))])


def torch_function_mode():
    from torch.overrides import TorchFunctionMode

    class Doubling(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return out * 2 if func is torch.sin else out

    def fn(x):
        with Doubling():
            y = torch.sin(x)
        return y, torch.sin(x)

    return world(fn, vec())


def torch_function_mode_around_the_call():
    from torch.overrides import TorchFunctionMode

    class Adding(TorchFunctionMode):
        k = 1

        def __torch_function__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return out + self.k if func is torch.sin else out

    mode, state = Adding(), {"on": False}

    def inner(x):
        return torch.sin(x)

    def fn(x):
        if state["on"]:
            with mode:
                return inner(x)
        return inner(x)

    return world(fn, vec(), changes=[lambda: state.update(on=True), lambda: setattr(mode, "k", 5)])


def parameter_argument():
    w = world(lambda x: (x * 2, type(x).__name__), torch.nn.Parameter(vec()))
    return changed(w, [lambda: setattr(w, "args", (vec(grad=True),))])


def tensor_constants():
    return world(lambda x: x + torch.tensor([1.0, 2.0, 3.0]) + torch.as_tensor(2), vec())


def tensor_from_outside_numbers():
    numbers = [1.0, 2.0, 3.0]
    return world(lambda x: x + torch.tensor(numbers), vec(), changes=[lambda: numbers.__setitem__(0, 9.0)])


def shapes_in_python():
    def fn(x):
        b, n = x.shape
        return x.view(n, b) * (x.numel() // b), x.size(), x.stride(), len(x)

    w = world(fn, vec(2, 3))
    return changed(w, [lambda: setattr(w, "args", (vec(4, 3),))])


def stack_cat_split():
    def fn(x):
        parts = x.split(1)
        return torch.cat([p * i for i, p in enumerate(parts)]), torch.stack(parts), torch.chunk(x, 2)

    return world(fn, vec(3, 2, grad=True))


def where_and_masks():
    return world(lambda x: torch.where(x > 0, x, -x).masked_fill(x > 1, 0), vec(5, grad=True))


def einsum_and_matmul():
    return world(lambda a, b: torch.einsum("ij,jk->ik", a, b) + a @ b, vec(2, 3, grad=True), vec(3, 2, grad=True))


def item_and_tolist():
    return world(lambda x: (x.sum().item(), x.tolist(), x + 1), vec())


def numpy_round_trip():
    return world(lambda x: torch.from_numpy(x.numpy() * 2), vec())


def nonzero_sizes():
    w = world(lambda x: x[x > 0] * 2, torch.tensor([1.0, -1.0, 2.0]))
    return changed(w, [lambda: setattr(w, "args", (torch.tensor([1.0, 1.0, 2.0]),))])


def complex_numbers():
    return world(lambda x: (x * 1j).abs() + torch.view_as_real(torch.complex(x, x)).sum(-1), vec())


def integer_division_and_types():
    return world(lambda x: (x // 2, x / 2, x % 2, x**2, x > 1, ~(x > 1)), torch.tensor([1, 2, 3]))


def operators_with_python_numbers():
    k = [2]
    return world(
        lambda x: (k[0] - x, k[0] / x, k[0] ** x, -x, abs(x)),
        vec(),
        changes=[lambda: k.__setitem__(0, 2.0), lambda: k.__setitem__(0, True), lambda: k.__setitem__(0, 3)],
    )


def vmap_inside():
    return world(lambda x: torch.vmap(lambda r: r * r.sum())(x), vec(2, 3))


def func_grad_inside():
    return world(lambda x: torch.func.grad(lambda v: (v * v).sum())(x), vec())


def scan_in_python():
    def fn(x):
        h = torch.zeros(2)
        out = []
        for t in range(x.shape[0]):
            h = torch.tanh(h + x[t])
            out.append(h)
        return torch.stack(out)

    w = world(fn, vec(3, 2, grad=True))
    return changed(w, [lambda: setattr(w, "args", (vec(5, 2, grad=True),))])


def tensor_swapped_in_a_closure():
    box = {"w": vec(3, 3, seed=1)}
    new = [
        vec(3, 3, seed=2),
        vec(3, 3).double(),
        vec(3, 3, grad=True),
        vec(3, 3).t(),
        vec(3),
        vec(6, 6)[::2, ::2],
        torch.zeros(3, 3, dtype=torch.bool),
        torch.nn.Parameter(vec(3, 3)),
    ]
    return world(lambda x: x * box["w"], vec(3, 3), changes=[functools.partial(box.update, w=t) for t in new])


def seeding_by_a_number_from_outside():
    def fn(x, seed):
        generator = torch.manual_seed(seed)
        return x + torch.rand(3), generator is torch.default_generator

    return world(fn, vec(), 11, state=torch.get_rng_state)


def generator_state_is_put_back():
    def fn(x):
        state = torch.get_rng_state()
        torch.manual_seed(3)
        first = torch.rand(3)
        torch.set_rng_state(state)
        return x + first, torch.rand(2), state

    return world(fn, vec(), state=torch.get_rng_state)


def bad_seed_is_caught():
    def fn(x):
        try:
            torch.manual_seed("seven")
        except ValueError:
            x = x + 1
        return x * 2

    return world(fn, vec())


def write_through_data_of_a_parameter():
    p = vec(seed=4, grad=True)

    def fn(x):
        y = (x * p).sum()
        p.data.mul_(0.5)
        p.data[0] = 3
        return y, p * 2

    return world(fn, vec(), state=lambda: (p, p._version))


def write_through_data_of_a_new_tensor():
    def fn(x):
        y = x * 2
        y.data.add_(1)
        return y

    return world(fn, vec(grad=True))


def two_ways_to_write():
    def fn(x):
        data = x.data
        x.add_(1)
        data.mul_(2)
        return x + data

    given = vec()
    return world(fn, given, state=lambda: given._version)


def requires_grad_is_taken_away():
    p = vec(seed=4, grad=True)

    def fn(x):
        p.requires_grad = False
        return x * p

    return world(fn, vec(grad=True), changes=[lambda: p.requires_grad_(True)], state=p)


def requires_grad_after_a_use():
    p = vec(seed=4)

    def fn(x):
        y = x * p
        p.requires_grad_()
        return y, x + p

    return world(fn, vec(), changes=[lambda: p.requires_grad_(False)], state=p)


def inference_mode_and_its_results():
    linear = torch.nn.Linear(3, 3)

    def fn(x):
        with torch.inference_mode():
            y = linear(x)
            y.add_(1)
            z = y[0]
        with torch.no_grad():
            u = x * 2
        return y, z, u, linear(x)

    torch.manual_seed(0)
    torch.nn.init.normal_(linear.weight)
    torch.nn.init.zeros_(linear.bias)
    return world(fn, vec(2, 3))


def inference_mode_as_a_decorator():
    return world(torch.inference_mode()(lambda x: (x * 2, x.sin().sum())), vec(grad=True))


def inference_mode_around_the_call():
    fn = torch.inference_mode()(lambda f, x: f(x))
    w = world(lambda x: (x * 2, torch.is_inference_mode_enabled()), vec())
    return changed(w, [lambda: setattr(w, "args", (fn(torch.neg, vec()),))])


def inference_mode_is_turned_off():
    def fn(x):
        with torch.inference_mode(), torch.inference_mode(False):
            return x * 2

    return world(fn, vec(grad=True))


def a_broadcast_size_that_is_asked_for():
    def fn(x):
        size = torch._C._infer_size(x.shape, torch.Size([2, 1, 3]))
        return x.expand(size) * size[0]

    w = world(fn, vec(2, 3))
    return changed(w, [lambda: setattr(w, "args", (vec(1, 3),)), lambda: setattr(w, "args", (vec(4, 3),))])
