"""numpy on traced tensors, and arrays as arguments."""

from __future__ import annotations

import numpy as np
import torch

from .world import changed, vec, world


def mean_of_an_array():
    return world(lambda x: torch.from_numpy(np.asarray(np.sum(np.mean(x.numpy(), 1)))), vec(2, 3))


def operators():
    def fn(x):
        a = x.numpy()
        return a + a, a - 1, -a, a > 0, 2 * a, a @ a.T, abs(a)

    w = world(fn, vec(2, 3))
    return changed(w, [lambda: setattr(w, "args", (vec(2, 3, seed=4),)), lambda: setattr(w, "args", (vec(4, 3),))])


def geometry():
    def fn(x):
        a = x.numpy()
        return a.shape, a.strides, a.ndim, a.size, a.dtype.name, a.itemsize, a.T, len(a), np.shape(a)

    return world(fn, vec(2, 3))


def parts_of_numbers():
    return world(lambda x: (x.numpy().real, x.numpy().imag.copy()), vec(2, 3))


def methods():
    def fn(x):
        a = x.numpy()
        return a.max(axis=0), a.sum(), a.reshape([1, a.size]), a.astype("int32"), a.copy(), a.clip(0, 1).all(axis=0)

    return world(fn, vec(2, 3))


def writes_through_an_array():
    def fn(x):
        y = x + 0
        a = y.numpy()
        a *= 2
        a[0] = 1
        return y.sum(), a

    return world(fn, vec(2, 3))


def writes_to_an_argument():
    def fn(a, at, value):
        a[at] = value
        return a

    array = np.zeros(4)
    w = world(fn, array, slice(1, 3), np.ones(2), state=array)
    return changed(w, [lambda: setattr(w, "args", (array, slice(0, 4), np.full(4, 3.0)))])


def arrays_as_arguments():
    a = np.arange(3.0)
    w = world(lambda x, a: (x * 2, torch.from_numpy(a) * 3, np.concatenate([a, a])), vec(), a)
    return changed(
        w,
        [
            lambda: a.__setitem__(0, 9.0),
            lambda: setattr(w, "args", (vec(), np.arange(3))),
            lambda: setattr(w, "args", (vec(), np.arange(6.0)[::2])),
        ],
    )


def an_array_from_outside():
    box = {"a": np.arange(3.0)}
    return world(
        lambda x: x + torch.as_tensor(box["a"]),
        vec(),
        changes=[lambda: box["a"].fill(2.0), lambda: box.update(a=np.ones(1)), lambda: box.update(a=3)],
    )


def a_scalar_from_outside():
    box = [np.float32(2.5)]
    return world(
        lambda x: x * box[0],
        vec(),
        changes=[lambda: box.__setitem__(0, np.float32(-1)), lambda: box.__setitem__(0, np.float64(2.5))],
    )


def a_dtype_from_outside():
    box = [np.float64]
    return world(
        lambda x: np.zeros_like(x, dtype=box[0]),
        vec(),
        changes=[lambda: box.__setitem__(0, np.int32), lambda: box.__setitem__(0, np.dtype("float32"))],
    )


def limits():
    return world(lambda x: (x + np.finfo(np.float32).eps, x + np.iinfo(np.int16).max), vec())


def random_numbers():
    state = np.random.RandomState(3)
    return world(lambda x: x + torch.from_numpy(state.rand(3)), vec(), state=lambda: int(state.get_state()[2]))


def made_of_constants():
    def fn(x):
        a = np.zeros(3)
        a[1] = 2
        return x + torch.from_numpy(a), np.linspace(0, 1, 3)

    return world(fn, vec())


def lists_of_arrays():
    return world(lambda x: np.stack([x.numpy(), x.numpy() * 2], axis=1), vec())


def several_results():
    def fn(x, y):
        a, b = np.meshgrid(x.numpy(), y.numpy())
        return torch.from_numpy(a) + 1, b

    return world(fn, vec(), vec(2))


def gradients_beside_an_array():
    def fn(x):
        scale = np.sin(x.detach().numpy())
        return x * torch.from_numpy(scale)

    return world(fn, vec(grad=True))


def an_array_is_kept():
    kept = {}

    def fn(x):
        kept["a"] = np.exp(x.numpy())
        return x + 1

    return world(fn, vec(), state=kept)


def a_number_of_an_array_decides():
    w = world(lambda x: x + 1 if x.numpy().sum() > 0 else x - 1, torch.ones(3))
    return changed(w, [lambda: setattr(w, "args", (-torch.ones(3),))])


def a_number_of_an_array_is_read():
    w = world(lambda x: x * float(x.numpy()[0]), torch.ones(3))
    return changed(w, [lambda: setattr(w, "args", (torch.full((3,), 2.0),))])


def a_size_that_is_data():
    w = world(lambda x: torch.from_numpy(np.flatnonzero(x.numpy())), torch.tensor([1.0, 0.0, 2.0]))
    return changed(w, [lambda: setattr(w, "args", (torch.tensor([0.0, 0.0, 2.0]),))])


def an_array_in_another_way():
    w = world(lambda x: sorted([x.numpy()[0], x.numpy()[1]]), torch.tensor([2.0, 1.0]))
    return changed(w, [lambda: setattr(w, "args", (torch.tensor([1.0, 2.0]),))])


def an_error_of_numpy_is_caught():
    def fn(x):
        try:
            return torch.from_numpy(np.linalg.inv(x.numpy()))
        except np.linalg.LinAlgError:
            return x

    w = world(fn, torch.zeros(2, 2))
    return changed(w, [lambda: setattr(w, "args", (torch.eye(2),))])


def a_tensor_and_an_array():
    return world(lambda x: x * x.numpy(), vec())


def _by_the_largest(fn):
    """The function is given the place of the largest element, as numpy tells it."""
    w = world(lambda x: fn(x, np.argmax(x.numpy())), torch.tensor([2.0, 1.0, 0.0]))
    given = [torch.tensor([0.0, 1.0, 0.0]), torch.tensor([0.0, 1.0, 3.0])]
    return changed(w, [lambda x=x: setattr(w, "args", (x,)) for x in given])


def an_index_that_is_data():
    return _by_the_largest(lambda x, i: x + [10, 20, 30][i] + range(5)[i])


def a_slice_that_is_data():
    return _by_the_largest(lambda x, i: x[:i])


def a_key_that_is_data():
    return _by_the_largest(lambda x, i: x + {0: 1, 1: 2, 2: 4}[i])


def an_element_that_is_data():
    return _by_the_largest(lambda x, i: (x, i in {1}, i in [2]))


def a_hash_that_is_data():
    return _by_the_largest(lambda x, i: x + hash(i))


def a_set_of_data():
    return _by_the_largest(lambda x, i: x + len({0, i}))


def a_place_that_is_data():
    def fn(x, i):
        made = [0, 0, 0]
        made[i] = 5
        return x + made[0]

    return _by_the_largest(fn)


def _scalars(fn, kind):
    w = world(fn, vec(), kind(1))
    return changed(w, [lambda n=n: setattr(w, "args", (vec(), kind(n))) for n in (3, 4)])


def a_scalar_as_argument():
    return _scalars(lambda x, n: {"a": x + 1, "b": n / 2, "c": n}, np.int64)


def a_scalar_and_a_tensor():
    return _scalars(lambda x, n: (x * n, x.int() * n, x - n), np.float64)


def a_scalar_that_decides():
    return _scalars(lambda x, n: x + 1 if n > 2 else x - 1, np.float32)


def numbers_made_of_constants():
    def fn(x):
        return x / np.sqrt(x.shape[-1]) + np.mean([1.0, 2.0, 4.0]) * np.float32(0.1)

    w = world(fn, vec(2, 3))
    return changed(w, [lambda: setattr(w, "args", (vec(2, 3, seed=4),)), lambda: setattr(w, "args", (vec(4, 5),))])


def numbers_in_place():
    def fn(x):
        y = x + 0
        y *= np.float32(2)
        y -= np.sqrt(3.0)
        y /= x.numpy().max()
        n = (x * 10).int()
        n += np.int64(3)
        n //= np.int32(2)
        return y, n

    w = world(fn, vec(2, 3))
    return changed(w, [lambda: setattr(w, "args", (vec(2, 3, seed=4),))])
