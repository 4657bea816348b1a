"""``saker.compile``: a function that is recorded when it is first called, and run without Python from then on."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

from saker import _C
from saker._stats import count

# Versions of one function before it runs eagerly for what is new.
_LIMIT = 8


def _foreign(backend: Callable, options: dict[str, Any] | None) -> Callable:
    """What turns a recorded program into a callable by a back end of the user's."""

    def make(program: _C.Program, examples: list[torch.Tensor]) -> Callable:
        from saker._fx import to_fx

        try:
            module = to_fx(program)
        except Exception as error:  # ours: the back end has not been asked yet
            count("fallbacks")
            warnings.warn(
                f"saker: an internal failure in making a torch.fx graph ({error}); the recorded operators run without "
                "the back end, with the same results. Please report this.",
                RuntimeWarning,
                stacklevel=2,
            )
            return lambda inputs: list(program.run(list(inputs)))
        keywords = {"options": options} if options else {}
        compiled = backend(module, examples, **keywords)

        def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
            if getattr(compiled, "_boxed_call", False):
                return list(compiled(list(inputs)))
            returned = compiled(*inputs)
            return [returned] if isinstance(returned, torch.Tensor) else list(returned)

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
        self.training = module.training

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        return getattr(self.__dict__["_modules"]["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training" and "training" not in self.__dict__:
            self.__dict__["training"] = value
            return
        setattr(self.__dict__["_modules"]["_orig_mod"], name, value)
        if name == "training":
            self.__dict__["training"] = value

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def train(self, mode: bool = True) -> CompiledModule:
        self._orig_mod.train(mode)
        self.__dict__["training"] = mode
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
        return (_unpickle, (self._orig_mod, self.__dict__.get("_settings", {})))


def _unpickle(module: torch.nn.Module, settings: dict[str, Any]) -> torch.nn.Module:
    return compile(module, **settings)


def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable = "native",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """``model`` (a function or a module), recorded on its first call and replayed afterwards.

    The arguments mean what those of ``torch.compile`` mean. ``backend`` is "native" (Saker's own executor, through
    ahead-of-time autograd), "eager" (the recorded operators, one by one), "aot_eager", or a callable
    ``(graph_module, example_inputs) -> callable``. With ``fullgraph=True`` a function that cannot be recorded whole
    raises ``saker.CaptureError`` with the reason and the line; otherwise it runs as without compiling.

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
        )
    if not callable(model):
        raise TypeError(f"saker.compile takes a function or a module, not a {type(model).__name__}")
    if disable:
        return model
    if isinstance(backend, str):
        known = {"native": True, "aot_eager": True, "inductor": True, "eager": False}
        if backend not in known:
            raise ValueError(f"unknown backend {backend!r}: one of {', '.join(map(repr, known))}, or a callable")
        ahead, foreign = known[backend], None
    else:
        ahead, foreign = False, _foreign(backend, options)
    if isinstance(model, (_C.Compiled, CompiledModule)):
        return model
    verify = os.environ.get("SAKER_VERIFY", "0") not in ("", "0")
    compiled = _C.compile(model, fullgraph, ahead, foreign, _LIMIT, dynamic, verify)
    if isinstance(model, torch.nn.Module):
        module = CompiledModule(model, compiled)
        module.__dict__["_settings"] = {"fullgraph": fullgraph, "backend": backend}
        return module
    for name in functools.WRAPPER_ASSIGNMENTS:
        if hasattr(model, name):
            setattr(compiled, name, getattr(model, name))
    compiled.__wrapped__ = model
    return compiled
