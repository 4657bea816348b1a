"""``saker.compile``: a function that is recorded when it is first called, and run without Python from then on."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, overload

import torch

from saker import _C
from saker._carry import compiled_again, settings_of
from saker._names import checks_keywords
from saker._options import (
    backend_of,
    check_flags,
    check_mode,
    check_options,
    checked_limit,
    limit_of,
    wants_all_bits,
)
from saker._stats import count
from saker.errors import BackendError

_Module = TypeVar("_Module", bound=torch.nn.Module)
_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Compiler(Protocol):
    """What ``saker.compile`` gives without a model: a decorator that leaves types as they are."""

    @overload
    def __call__(self, model: _Module, /) -> _Module: ...
    @overload
    def __call__(self, model: Callable[_P, _R], /) -> Callable[_P, _R]: ...


def set_recompile_limit(limit: int) -> int:
    """How often a function is recorded before it runs eagerly (or raises, with ``fullgraph=True``) for what is new.

    It holds for functions that were compiled without a ``recompile_limit`` of their own. Gives the limit from before.

    >>> before = saker.set_recompile_limit(16)
    """
    return _C.set_recompile_limit(checked_limit(limit))


def limit_from_environment() -> None:
    """``SAKER_RECOMPILE_LIMIT`` in the environment is the limit of the process at its start."""
    text = os.environ.get("SAKER_RECOMPILE_LIMIT")
    if not text:
        return
    try:
        set_recompile_limit(int(text))
    except ValueError:
        warnings.warn(f"SAKER_RECOMPILE_LIMIT must be a number above 0, not {text!r}", stacklevel=2)


def allow(fn: Callable) -> Callable:
    """Declares that compiled functions may call ``fn`` again instead of recording what it does; gives ``fn``.

    For functions that Saker cannot look into: C code, file access, a lookup in a table. The promise is that ``fn``
    changes nothing (no argument, no other object, no file that the program reads) and that what it gives depends on its
    arguments alone; it may be called more often than in the program, and earlier. With tensors among its arguments, it
    must give new tensors, floats, or tuples and lists of these, and is an operator of the graph that calls it in each
    replay. Without, it must give numbers, strings, None or tuples of these, and is called before each replay: where it
    gives something else than recorded, the call is recorded again. What does not fit runs eagerly, with the reason.

    >>> @saker.allow
    ... def temperature(name):
    ...     return table.lookup(name)
    """
    if not callable(fn):
        raise TypeError(f"saker.allow takes a function, not a {type(fn).__name__}")
    _C.allow(fn)
    return fn


def _is_boxed(compiled: Callable) -> bool:
    """Whether it takes its arguments as one list. What PyTorch's aot_module_simplified gives says so and does not: its
    own signature tells, or that of what it wraps."""
    if not getattr(compiled, "_boxed_call", False):
        return False
    many = inspect.Parameter.VAR_POSITIONAL
    try:
        own = [each.kind for each in inspect.signature(compiled, follow_wrapped=False).parameters.values()]
        if own == [many]:
            return False
        wrapped = [each.kind for each in inspect.signature(compiled).parameters.values()]
    except (TypeError, ValueError):
        return True
    return many not in wrapped


def _foreign(backend: Callable, keywords: dict[str, Any]) -> Callable:
    """What turns a recorded program into a callable by a back end of the user's."""

    def make(program: _C.Program, examples: list[torch.Tensor]) -> Callable:
        from saker._fx import hooks_in_front, to_fx

        try:
            module = to_fx(program)
            hooks = hooks_in_front(module)
        except Exception as error:  # ours: the back end has not been asked yet
            count("fallbacks")
            warnings.warn(
                f"saker: an internal failure in making a torch.fx graph ({error}); the recorded operators run without "
                "the back end, with the same results. Please report this.",
                RuntimeWarning,
                stacklevel=2,
            )
            return lambda inputs: list(program.run(list(inputs)))
        compiled = backend(module, examples, **keywords)
        if not callable(compiled):
            raise BackendError(f"the backend must give something to call, not a {type(compiled).__name__}")

        boxed = _is_boxed(compiled)

        def run(inputs: list[torch.Tensor]) -> Any:
            for call, number in hooks:
                torch.ops.saker.hook(call, [inputs[number]])
            return compiled(list(inputs)) if boxed else compiled(*inputs)

        return run

    return make


@functools.cache
def _seen_as(cls: type, also: type | None) -> type:
    """What isinstance sees: a class that is `cls`, and what torch.compile would have made of it."""
    if also is None or issubclass(cls, also):
        return cls
    try:
        return type(cls.__name__, (cls, also), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})
    except TypeError:  # a metaclass or layout that allows no second base
        return cls


# Of the tables that nn.Module makes: those that a call reads. A hook on the compiled module is one on its module.
_CALL_TABLES = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_is_full_backward_hook",
)


class CompiledModule(torch.nn.Module):
    """A module whose call is compiled. Everything else is the module's own."""

    @property
    def __class__(self) -> type:
        """Programs that look for compiled modules look for torch.compile's; if it is loaded, this looks like one."""
        loaded = sys.modules.get("torch._dynamo.eval_frame")
        return _seen_as(type(self._orig_mod), getattr(loaded, "OptimizedModule", None))

    def __init__(self, module: torch.nn.Module, compiled: Callable) -> None:
        super().__init__()
        self._modules["_orig_mod"] = module
        self.__dict__["_compiled"] = compiled
        for name in ("training", *_CALL_TABLES):
            self.__dict__.pop(name, None)  # found on the module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        return getattr(self.__dict__["_modules"]["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_modules"]["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def train(self, mode: bool = True) -> CompiledModule:
        self._orig_mod.train(mode)
        return self

    def register_buffer(self, *args: Any, **kwargs: Any) -> None:
        self._orig_mod.register_buffer(*args, **kwargs)

    def register_parameter(self, *args: Any, **kwargs: Any) -> None:
        self._orig_mod.register_parameter(*args, **kwargs)

    def add_module(self, *args: Any, **kwargs: Any) -> None:
        self._orig_mod.add_module(*args, **kwargs)

    def apply(self, fn: Callable[[torch.nn.Module], None]) -> CompiledModule:
        self._orig_mod.apply(fn)  # once for each module: an initialisation draws as often as without compiling
        return self

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __getitem__(self, key: Any) -> Any:
        return self._orig_mod[key]

    def __iter__(self) -> Any:
        return iter(self._orig_mod)

    def __contains__(self, item: Any) -> bool:
        return item in self._orig_mod

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) | set(dir(self._orig_mod)))

    def __reduce__(self) -> Any:
        return (compiled_again, (self._orig_mod, settings_of(self)))


@overload
def compile(
    model: _Module,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
) -> _Module: ...


@overload
def compile(
    model: Callable[_P, _R],
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
) -> Callable[_P, _R]: ...


@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
) -> _Compiler: ...


@checks_keywords()
def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable = "aten",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
) -> Any:
    """``model`` (a function or a module), recorded on its first call and replayed afterwards.

    >>> fast = saker.compile(model)
    >>> @saker.compile(fullgraph=True)
    ... def step(x: torch.Tensor) -> torch.Tensor: ...

    The arguments mean what those of ``torch.compile`` mean. ``backend`` is "aten" (Saker's own executor, through
    ahead-of-time autograd, with PyTorch's operators), "native" (the same, and operators that belong together become
    kernels of machine code for the CPU), "eager" (the recorded operators, one by one), "aot_eager", a callable
    ``(graph_module, example_inputs) -> callable``, or the name of one that is registered with PyTorch. With "native",
    ``options={"precision": "eager"}`` makes kernels only of what has eager mode's bits: functions such as exp and
    sums of floats are calls. With ``fullgraph=True`` a function that cannot be recorded whole, or more often than
    ``recompile_limit`` says, raises ``saker.CaptureError`` with the reason and the line; otherwise it runs as without
    compiling.

    With ``SAKER_VERIFY=1`` in the environment, the first replay of each version is compared with eager mode on copies
    of the arguments, and ``saker.VerifyError`` says where they differ.
    """
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
            recompile_limit=recompile_limit,
        )
    if not callable(model):
        raise TypeError(f"saker.compile takes a function or a module, not a {type(model).__name__}")
    check_flags(dynamic, fullgraph=fullgraph, disable=disable)
    check_mode(mode, options)
    runs = backend_of(backend)
    check_options(options, runs)
    limit = limit_of(recompile_limit)
    if disable:
        return model
    foreign = None
    if runs.compiler is not None:
        given = {"mode": mode if mode != "default" else None, "options": options}
        foreign = _foreign(runs.compiler, {name: value for name, value in given.items() if value})
    if isinstance(model, (_C.Compiled, CompiledModule)):
        return model
    verify = os.environ.get("SAKER_VERIFY", "0") not in ("", "0")
    to_the_bit = wants_all_bits(options) and runs.native
    compiled = _C.compile(model, fullgraph, runs.ahead, foreign, limit, dynamic, verify, runs.native, to_the_bit)
    settings = {
        "fullgraph": fullgraph,
        "dynamic": dynamic,
        "backend": backend,
        "mode": mode,
        "options": options,
        "recompile_limit": recompile_limit,
    }
    if isinstance(model, torch.nn.Module):
        module = CompiledModule(model, compiled)
        module.__dict__["_settings"] = settings
        return module
    look_like(compiled, model)
    compiled._settings = settings
    return compiled


# What inspect asks of a function: its name, and whether it is a generator or coroutine function (by its code).
_OF_FUNCTIONS = (*functools.WRAPPER_ASSIGNMENTS, "__code__", "__defaults__", "__kwdefaults__", "_is_coroutine")


def look_like(compiled: Any, function: Callable) -> None:
    """Gives a compiled function the attributes by which Python programs ask what a function is."""
    for name in _OF_FUNCTIONS:
        if hasattr(function, name):
            setattr(compiled, name, getattr(function, name))
    compiled.__wrapped__ = function
