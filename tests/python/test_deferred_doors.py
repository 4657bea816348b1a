"""Every way by which memory changes hands inside of ``saker.deferred()``: each is exact, as without the block."""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import ctypes
import io
import multiprocessing
import os
import pickle
import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.dlpack
from torch.multiprocessing import reductions
from torch.utils.dlpack import to_dlpack

import saker


def at(address: int, count: int) -> list[float]:
    return list((ctypes.c_float * count).from_address(address))


def share_tensor(x, y):
    x.add_(1)
    x.share_memory_()
    y.share_memory_()
    return x.is_shared(), y.is_shared(), x * 2, y.add_(x)


def share_storage(x, y):
    x.add_(1)
    x.untyped_storage().share_memory_()
    x.mul_(2)
    return x.is_shared(), x + y


def share_typed_storage(x, y):
    x.add_(1)
    storage = x.storage()
    x.mul_(2)
    storage.share_memory_()
    return x.is_shared(), x + y


def share_module(x, y):
    module = torch.nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        module.weight.copy_(x[:, None] * y)
        module.share_memory()
        module.weight.add_(1)
    return module(x).detach(), module.weight.detach(), module.weight.is_shared()


def share_then_view(x, y):
    view = x[1:]
    view.mul_(3)
    x.share_memory_()
    view.add_(1)
    return x, view + 1


def share_fd(x, y):
    x.add_(1)
    storage = x.untyped_storage()
    y.add_(x)
    storage._share_fd_cpu_()
    return x + y


def share_filename(x, y):
    y.add_(x)
    y.untyped_storage()._share_filename_cpu_()
    return x + y


def storage_copy(x, y):
    storage = x.untyped_storage()
    y.add_(1)
    x.mul_(2)
    before = x * 1
    storage.copy_(y.untyped_storage())
    return x + 1, before


def storage_fill(x, y):
    storage = x.untyped_storage()
    x.add_(1)
    before = x + y
    storage.fill_(0)
    return x + 1, before


def storage_items(x, y):
    storage = x.untyped_storage()
    x.add_(1)
    first = storage[3]
    storage[3] = 65
    return x * 2, first, storage.tolist()


def storage_resize(x, y):
    storage = y.untyped_storage()
    y.add_(1)
    z = y * 2
    storage.resize_(0)
    empty = storage.nbytes()
    storage.resize_(16)
    y.fill_(3)
    return z, empty, storage.size()


def storage_clone(x, y):
    storage = x.untyped_storage()
    x.add_(1)
    kept = storage.clone()
    x.add_(1)
    return torch.empty(0).set_(kept), copy.deepcopy(storage).tolist(), copy.copy(storage).tolist()


def storage_byteswap(x, y):
    storage = x.untyped_storage()
    x.add_(1)
    storage.byteswap(torch.float32)
    return x.view(torch.uint8)


def storage_file(x, y):
    storage = x.untyped_storage()
    x.add_(1)
    with open(os.devnull, "wb") as file:
        storage._write_file(file, False, True, 1)
    return x


def pickled(x, y):
    x.add_(1)
    kept = pickle.dumps(x)
    x.add_(1)
    return pickle.loads(kept), pickle.loads(pickle.dumps(x.untyped_storage())).tolist()


def deep_copied(x, y):
    x.add_(1)
    kept = copy.deepcopy(x)
    other = copy.copy(x)
    x.add_(1)
    return kept, other


def saved(x, y):
    x.add_(1)
    file = io.BytesIO()
    torch.save({"x": x, "y": y * 2}, file)
    x.add_(1)
    file.seek(0)
    return torch.load(file)


def reduced(x, y):
    x.add_(1)
    make, args = reductions.reduce_tensor(x)
    x.add_(1)
    return make(*args) + 1, x


def reduced_storage(x, y):
    storage = x.untyped_storage()
    x.add_(1)
    make, args = reductions.reduce_storage(storage)
    x.add_(1)
    return make(*args).tolist(), x


def numpy_inside(x, y):
    x.add_(1)
    array = x.numpy()
    x.add_(1)
    seen = array.tolist()
    z = x * 2
    array[0] = 50
    return seen, z, x + 1, y + x


def numpy_of_view(x, y):
    array = x[1:3].numpy()
    x.mul_(3)
    seen = array.copy()
    z = x - 1
    array += 1
    return seen, z, x * 1


def asarray(x, y):
    array = np.asarray(x)
    x.add_(1)
    return array.copy(), np.from_dlpack(x).copy()


def from_numpy(x, y):
    array = np.arange(4, dtype=np.float32)
    tensor = torch.from_numpy(array)
    z = tensor * 2
    array[:] = 9
    tensor.add_(1)
    return z, array.copy(), tensor + 1, torch.from_numpy(array) * 2


def frombuffer(x, y):
    buffer = bytearray(16)
    tensor = torch.frombuffer(buffer, dtype=torch.float32)
    tensor.add_(1)
    first = bytes(buffer)
    z = tensor + x
    buffer[:] = bytes(16)
    return first, z, tensor + 1


def dlpack(x, y):
    other = torch.from_dlpack(x)
    x.add_(1)
    seen = other.tolist()
    z = x * 2
    other.mul_(3)
    return seen, z, x + 1, other.sum().item()


def dlpack_capsule(x, y):
    x.add_(1)
    other = torch.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    third = torch.utils.dlpack.from_dlpack(to_dlpack(x))
    x.add_(1)
    z = third * 2
    other.add_(5)
    return z, x * 1, third * 1


def numpy_from_dlpack(x, y):
    array = np.from_dlpack(x)
    x.add_(1)
    return array.copy(), x * 2


def address(x, y):
    x.add_(1)
    pointer = x.data_ptr()
    first = at(pointer, 4)
    x.mul_(2)
    second = at(pointer, 4)
    z = x + y
    ctypes.memset(pointer, 0, 8)
    return first, second, z, x * 1


def address_of_storage(x, y):
    pointer = x.untyped_storage().data_ptr()
    x.mul_(2)
    first = at(pointer, 4)
    z = x + y
    ctypes.memset(pointer, 0, 8)
    return first, z, x * 1


def address_of_a_result(x, y):
    z = x * y
    pointer = z.data_ptr()
    z.add_(1)
    return at(pointer, 4), z


def swapped(x, y):
    x.add_(1)
    y.mul_(2)
    torch.utils.swap_tensors(x, y)
    x.add_(y)
    return x * 1, y * 1


def data_set(x, y):
    x.add_(1)
    x.data = y * 2
    y.add_(1)
    return x + 1, y


def applied(x, y):
    x.add_(1)
    x.apply_(lambda value: value * 2)
    y.mul_(2)
    x.map_(y, lambda a, b: a + b)
    x.add_(1)
    x.map2_(y, y * 3, lambda a, b, c: a + b + c)
    return x, y


def pinned(x, y):
    x.add_(1)
    return x.is_pinned(), x.untyped_storage().is_pinned()


def typed(x, y):
    storage = x.storage()
    x.add_(1)
    first = storage[0]
    storage[1] = 7.0
    storage.fill_(3.0)
    return first, x * 2, list(storage), storage.tolist()


def listed(x, y):
    x.add_(1)
    return x.tolist(), list(x[0].reshape(1)), torch.tensor([x[0], y[1]]), np.array([x[0], y[0]])


def set_storage(x, y):
    x.add_(1)
    z = torch.empty(0).set_(x.untyped_storage(), 1, (2,))
    x.add_(1)
    z.mul_(2)
    return x * 1, z


def through_a_queue(x, y):
    handed, back = queue.Queue(), queue.Queue()

    def work() -> None:
        back.put(handed.get() * 2)

    thread = threading.Thread(target=work)
    thread.start()
    x.add_(1)
    handed.put(x)
    result = back.get()
    thread.join()
    return result


def through_a_pool(x, y):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # the thread is there, and waits
        x.add_(1)
        first = pool.submit(lambda: x.clone()).result()
        x.add_(1)
        return first, pool.submit(lambda: x.mul_(2)).result() + 1


def through_an_event(x, y):
    ready, done = threading.Event(), threading.Event()
    seen = []

    def work() -> None:
        ready.wait()
        seen.append(x.clone())
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    x.add_(1)
    ready.set()
    done.wait()
    thread.join()
    return seen


def through_a_pipe(x, y):
    here, there = multiprocessing.Pipe()
    x.add_(1)
    here.send_bytes(pickle.dumps(x))
    return pickle.loads(there.recv_bytes())


def forked(x, y):
    x.add_(1)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, b"".join(int(v).to_bytes(1, "little") for v in x.tolist()))
        os._exit(0)
    os.waitpid(child, 0)
    found = os.read(read, 16)
    os.close(read)
    os.close(write)
    return found


PROGRAMS = [
    *(share_tensor, share_storage, share_typed_storage, share_module, share_then_view, share_fd, share_filename),
    *(storage_copy, storage_fill, storage_items, storage_resize, storage_clone, storage_byteswap, storage_file),
    *(pickled, deep_copied, saved, reduced, reduced_storage),
    *(numpy_inside, numpy_of_view, asarray, from_numpy, frombuffer, dlpack, dlpack_capsule, numpy_from_dlpack),
    *(address, address_of_storage, address_of_a_result, swapped, data_set, applied, pinned, typed, listed),
    *(set_storage, through_a_queue, through_a_pool, through_an_event, through_a_pipe, forked),
]


def plain(found: Any) -> Any:
    if isinstance(found, torch.Tensor):
        return ("tensor", str(found.dtype), tuple(found.shape), found.tolist())
    if isinstance(found, np.ndarray):
        return ("array", found.tolist())
    if isinstance(found, dict):
        return {key: plain(value) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [plain(each) for each in found]
    return found


def outcome(program: Callable, block: Any, pending: bool) -> Any:
    torch.manual_seed(0)
    x, y = torch.arange(1.0, 5), torch.arange(4.0) + 0.5
    with block:
        if pending:  # what is handed over is a result that is not there yet
            x, y = x * 1, y * 1
        try:
            result = program(x, y)
        except Exception as error:  # the same one without the block
            result = (type(error), str(error))
    return plain(result), plain(x), plain(y), x._version, y._version


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pending", [False, True], ids=["arguments", "results"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_door(program: Callable, pending: bool) -> None:
    expected = outcome(program, contextlib.nullcontext(), pending)
    assert outcome(program, saker.deferred(), pending) == expected
    with saker.deferred():  # and in an inner block
        assert outcome(program, saker.deferred(), pending) == expected


def test_arrays_from_before_the_block() -> None:
    x = torch.ones(4)
    array = x.numpy()
    with saker.deferred():
        x.add_(1)
        assert array.tolist() == [2.0] * 4
        y = x * 2
        array[:] = 7
        z = x + 1
    assert torch.equal(y, torch.full((4,), 4.0))
    assert torch.equal(z, torch.full((4,), 8.0))


def test_what_nobody_outside_sees_still_waits() -> None:
    x, seen = torch.ones(4), torch.ones(4)
    with saker.deferred() as block:
        seen.data_ptr()
        seen.add_(1)
        assert block.pending == 0
        y = x * 2 + 1
        assert block.pending == 2
    assert torch.equal(y, torch.full((4,), 3.0))
