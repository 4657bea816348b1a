"""Doors to data: Python calls that read or change a tensor's memory without an operator.

While a trace is on, what a tensor holds may not be there yet. PyTorch's operators reach the trace by themselves; these
calls do not, so each of them is wrapped while a trace is on, and asks for the data first. Some of them give the address
away: whoever has it may read and write there at any time, so operators on that memory run at once from then on. Nothing
is wrapped when no trace is on.
"""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing.connection
import multiprocessing.process
import multiprocessing.queues
import queue
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from saker import _C

# Methods and properties of torch.Tensor.
_TENSOR = (
    "numpy",
    "__array__",
    "tolist",
    "data_ptr",
    "__dlpack__",
    "storage",
    "untyped_storage",
    "_typed_storage",
    "__deepcopy__",
    "__reduce_ex__",
    "__format__",
    "share_memory_",
    "is_shared",
    "new",
    "new_tensor",
    "apply_",
    "map_",
    "map2_",
    "__cuda_array_interface__",
)
# Those of them that give the address away.
_EXPOSING = ("numpy", "__array__", "data_ptr", "__dlpack__", "__cuda_array_interface__")

# Functions that read tensors inside of Python data.
_MAKERS = ("tensor", "as_tensor", "asarray")

# A storage that was handed out shares memory with tensors that may have writes pending. What its methods do to memory
# is done at once, also where PyTorch uses operators for it: a storage may have other memory afterwards.
_STORAGE = (
    "__copy__",
    "__deepcopy__",
    "__getitem__",
    "__len__",
    "__reduce__",
    "__setitem__",
    "_byteswap",
    "_set_from_file",
    "_share_cuda_",
    "_share_fd_cpu_",
    "_share_filename_cpu_",
    "_shared_decref",
    "_shared_incref",
    "_write_file",
    "byteswap",
    "clone",
    "copy_",
    "cpu",
    "cuda",
    "data_ptr",
    "fill_",
    "is_pinned",
    "is_shared",
    "nbytes",
    "pin_memory",
    "resizable",
    "resize_",
    "share_memory_",
    "size",
    "tolist",
    "type",
)

# Functions of PyTorch's that read a tensor, whatever module has them under that name.
_EXPORTS = ("to_dlpack",)

# State around operators that decides what they compute: what is pending runs under the state it was recorded in.
_STATE = (
    "_set_default_dtype",
    "_set_deterministic_algorithms",
    "_set_deterministic_fill_uninitialized_memory",
    "_set_float32_matmul_precision",
    "_set_fp32_precision_setter",
    "_set_mkldnn_enabled",
    "_set_cudnn_enabled",
    "_set_cudnn_benchmark",
    "_set_cudnn_deterministic",
    "_set_cudnn_allow_tf32",
    "_set_cublas_allow_tf32",
    "_set_cublas_allow_fp16_reduced_precision_reduction",
    "_set_cublas_allow_bf16_reduced_precision_reduction",
    "_set_sdp_use_flash",
    "_set_sdp_use_mem_efficient",
    "_set_sdp_use_math",
    "_set_sdp_use_cudnn",
    "_set_sdp_use_fa4",
    "_set_nnpack_enabled",
)
# Seeding by chance, which a graph cannot repeat.
_GENERATOR = ("seed",)
_TORCH_STATE = ("set_num_threads", "set_flush_denormal")

# Where another thread or process comes to see what this one has done, or the other way round.
_HANDOVERS = (
    (threading.Thread, ("start", "join")),
    (threading.Condition, ("notify", "notify_all", "wait", "wait_for")),
    (threading.Event, ("set", "wait")),
    (threading.Semaphore, ("acquire", "release")),
    (threading.Barrier, ("wait",)),
    (queue.Queue, ("put", "get")),
    (concurrent.futures.ThreadPoolExecutor, ("submit",)),
    (concurrent.futures.ProcessPoolExecutor, ("submit",)),
    (concurrent.futures.Future, ("result", "set_result")),
    (multiprocessing.process.BaseProcess, ("start", "join")),
    (multiprocessing.queues.Queue, ("put", "get")),
    (multiprocessing.queues.SimpleQueue, ("put", "get")),
    (multiprocessing.connection.Connection, ("send", "send_bytes", "recv", "recv_bytes")),
)


def _tensors(data: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(data, torch.Tensor):
        yield data
    elif isinstance(data, (list, tuple)) and depth < 8:
        for item in data:
            if not isinstance(item, (int, float)):
                yield from _tensors(item, depth + 1)


def _method(name: str, original: Callable) -> Callable:
    door = f"Tensor.{name}"
    exposes = name in _EXPOSING

    @functools.wraps(original)
    def call(self, *args, **kwargs):
        _C.open_door(self, door, exposes)
        for other in args:
            if isinstance(other, torch.Tensor):
                _C.open_door(other, door)
        return original(self, *args, **kwargs)

    return call


def _storage_method(name: str, original: Callable) -> Callable:
    exposes = name == "data_ptr"

    @functools.wraps(original)
    def call(self, *args, **kwargs):
        _C.open_storage(self, exposes)
        for other in args:
            _C.open_storage(other)
        if _C.trace_mode() == "deferred":
            return _C.call_unrecorded(original, self, *args, **kwargs)
        return original(self, *args, **kwargs)

    return call


def _export(name: str, original: Callable) -> Callable:
    @functools.wraps(original)
    def call(tensor, *args, **kwargs):
        if isinstance(tensor, torch.Tensor):
            _C.open_door(tensor, f"torch.{name}", True)
        return original(tensor, *args, **kwargs)

    return call


def _repr(original: Callable) -> Callable:
    @functools.wraps(original)
    def call(self, *args, **kwargs):
        # PyTorch puts tensors into the texts of its errors; that is no reason to read them.
        if _C.trace_mode() == "capture" and sys._getframe(1).f_globals.get("__name__", "").startswith("torch."):
            return f"<saker stand-in: {self.dtype}, {tuple(self.shape)}>"
        _C.open_door(self, "Tensor.__repr__")
        return original(self, *args, **kwargs)

    return call


def _maker(name: str, original: Callable) -> Callable:
    @functools.wraps(original)
    def call(data, *args, **kwargs):
        for tensor in _tensors(data):
            _C.open_door(tensor, f"torch.{name}")
        return original(data, *args, **kwargs)

    return call


def _flushing(original: Callable) -> Callable:
    @functools.wraps(original)
    def call(*args, **kwargs):
        _C.settle()
        return original(*args, **kwargs)

    return call


def _generator(original: Callable) -> Callable:
    @functools.wraps(original)
    def call(*args, **kwargs):
        _C.note_generator_set()
        return original(*args, **kwargs)

    return call


def _get_rng_state(original: Callable) -> Callable:
    @functools.wraps(original)
    def call():
        return torch.ops.saker.rng_state() if _C.trace_mode() == "capture" else original()

    return call


def _set_rng_state(original: Callable) -> Callable:
    @functools.wraps(original)
    def call(new_state):
        if _C.trace_mode() == "capture":
            return torch.ops.saker.set_rng_state(new_state)
        return original(new_state)

    return call


def _manual_seed(original: Callable) -> Callable:
    @functools.wraps(original)
    def call(seed):
        if _C.trace_mode() != "capture":
            return original(seed)
        torch.ops.saker.manual_seed(int(seed))
        return torch.default_generator

    return call


# In a capture the state of the generator is part of the graph, so that random operators see it when it runs.
_GENERATOR_STATE = {"get_rng_state": _get_rng_state, "set_rng_state": _set_rng_state, "manual_seed": _manual_seed}


def _grad() -> property:
    """``.grad``, which a capture puts back, and whose new value is one of its graph."""
    original = torch._C.TensorBase.grad

    def get(self):
        _C.note_grad_read(self)
        return original.__get__(self)

    def set_to(self, value):
        _C.note_grad_set(self)
        original.__set__(self, value)

    def delete(self):
        _C.note_grad_set(self)
        original.__delete__(self)

    return property(get, set_to, delete)


def _zero_grad(original: Callable, parameters: Callable[[Any], Iterator[torch.Tensor]]) -> Callable:
    """Sets ``.grad`` to None whatever it is; the original asks first."""

    @functools.wraps(original)
    def call(self, set_to_none=True):
        if set_to_none and _C.trace_mode() == "capture":
            for parameter in parameters(self):
                _C.note_grad_set(parameter)
        return original(self, set_to_none)

    return call


def _optimized(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _data() -> property:
    """``.data``, an alias that a graph makes of the tensor: the capture meets that first."""
    original = torch._C.TensorBase.data

    def get(self):
        _C.note_data_read(self)
        return original.__get__(self)

    return property(get, original.__set__)


# Of this thread: has a Function been applied? What it says of tangents is in no graph.
applied = threading.local()


def _begins(self: BackwardCFunction) -> None:
    """A Function is applied: C code makes the node that stands for the call. Names of ``apply`` that programs keep lead
    to that C code too; from torch 2.14 on they lead nowhere else."""
    applied.any = True
    _C.note_applied()


class _Doors:
    """Wraps and unwraps; counts the traces that are on, in all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._undo: list[Callable[[], None]] = []

    def _put(self, owner: Any, name: str, made: Any) -> None:
        own = vars(owner).get(name)
        if own is None:
            self._undo.append(functools.partial(delattr, owner, name))
        else:
            self._undo.append(functools.partial(setattr, owner, name, own))
        setattr(owner, name, made)

    def _install(self) -> None:
        for name in _TENSOR:
            original = getattr(torch.Tensor, name, None)
            if isinstance(original, property):
                self._put(torch.Tensor, name, property(_method(name, original.fget)))
            elif original is not None:
                self._put(torch.Tensor, name, _method(name, original))
        self._put(torch.Tensor, "__repr__", _repr(torch.Tensor.__repr__))
        self._put(BackwardCFunction, "__init__", _begins)
        self._put(torch.Tensor, "grad", _grad())
        for owner, parameters in ((torch.nn.Module, torch.nn.Module.parameters), (torch.optim.Optimizer, _optimized)):
            self._put(owner, "zero_grad", _zero_grad(owner.zero_grad, parameters))
        self._put(torch.Tensor, "data", _data())
        for name in _MAKERS:
            self._put(torch, name, _maker(name, getattr(torch, name)))
        for name in _GENERATOR:
            noted = _generator(getattr(torch, name))
            self._put(torch, name, noted)
            self._put(torch.random, name, noted)
        for name, wrap in _GENERATOR_STATE.items():
            wrapped = wrap(getattr(torch, name))
            self._put(torch, name, wrapped)
            self._put(torch.random, name, wrapped)
        for name in _STORAGE:
            original = getattr(torch.UntypedStorage, name, None)
            if original is not None:
                self._put(torch.UntypedStorage, name, _storage_method(name, original))
        self._wrap_exports()
        for owner, names in ((torch._C, _STATE), (torch, _TORCH_STATE), *_HANDOVERS):
            for name in names:
                original = vars(owner).get(name) or getattr(owner, name, None)
                if original is not None:
                    self._put(owner, name, _flushing(original))

    def _wrap_exports(self) -> None:
        """Modules that have imported such a function by its name get the wrapped one too."""
        made = {name: _export(name, getattr(torch._C, f"_{name}")) for name in _EXPORTS}
        originals = {name: getattr(torch._C, f"_{name}") for name in _EXPORTS}
        for module in list(sys.modules.values()):
            names = getattr(module, "__dict__", {}) if isinstance(module, types.ModuleType) else {}
            for name, original in originals.items():
                if names.get(name) is original:
                    self._put(module, name, made[name])
        for name in ("_to_dlpack", "_to_dlpack_versioned"):
            if hasattr(torch._C, name):
                self._put(torch._C, name, _export(name.lstrip("_"), getattr(torch._C, name)))

    def __enter__(self) -> None:
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._install()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._open -= 1
            if self._open == 0:
                while self._undo:
                    self._undo.pop()()


doors = _Doors()
