"""Ahead-of-time autograd: a function's forward and backward as two graphs, run inside of PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from saker import _C
from saker._capture import as_capture_error
from saker._compiling import compiling
from saker._doors import doors
from saker._stats import count
from saker.errors import CaptureError, Refusal

# A back end: a graph module and example inputs to a callable.
Compiler = Callable[[torch.fx.GraphModule, list[Any]], Callable]


class _LateExecutable:
    """What a back end makes of a graph, when the graph is first run: the inputs of that run are its examples."""

    def __init__(self, compiler: Compiler, program: _C.Program) -> None:
        self.compiler = compiler
        self.program = program
        self.compiled: Callable | None = None

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor | None]:
        from saker._fx import to_fx

        if self.compiled is None:
            self.compiled = self.compiler(to_fx(self.program), list(inputs))
        if getattr(self.compiled, "_boxed_call", False):
            return list(self.compiled(list(inputs)))
        returned = self.compiled(*inputs)
        return [returned] if isinstance(returned, torch.Tensor) else list(returned)


class _Compiled:
    """A function compiled for the structure of its first arguments."""

    def __init__(self, fn: Callable, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]) -> None:
        leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        constants = list(leaves)
        made: dict[str, Any] = {}

        def flat(*tensors: torch.Tensor) -> list[torch.Tensor]:
            given = list(constants)
            for place, tensor in zip(self.places, tensors, strict=True):
                given[place] = tensor
            call_args, call_kwargs = pytree.tree_unflatten(given, self.spec)
            results, made["spec"] = pytree.tree_flatten(fn(*call_args, **call_kwargs))
            made["constants"] = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in results]
            made["tensors"] = [i for i, leaf in enumerate(results) if isinstance(leaf, torch.Tensor)]
            return [leaf for leaf in results if isinstance(leaf, torch.Tensor)]

        tensors = [leaves[i] for i in self.places]
        generator = torch.default_generator.get_state()
        try:
            with doors, compiling():
                self.native, self.reason = _C.aot_compile(
                    flat, tensors, options["min_cut"], options["budget"], _sizes(tensors) if options["dynamic"] else []
                )
        except CaptureError:
            raise
        except Refusal as error:
            raise as_capture_error(error) from error
        finally:
            torch.default_generator.set_state(generator)
        self.made = made
        self.single = False
        if self.native is not None:
            self.single = made["spec"].is_leaf() and made["tensors"] == [0]
            count("graphs")
            count("operators", len(self.native.forward))
            self._use_compilers(options)

    def _use_compilers(self, options: dict[str, Any]) -> None:
        forward = options["fw_compiler"] if self.native.training else options["inference_compiler"]
        backward = options["bw_compiler"] if self.native.training else None
        self.native.set_executables(
            _LateExecutable(forward, self.native.forward_program()) if forward else None,
            _LateExecutable(backward, self.native.backward_program()) if backward else None,
            (lambda program: _LateExecutable(backward, program)) if backward else None,
        )

    def results(self, returned: list[torch.Tensor | None]) -> Any:
        """The function's results, of the tensors that come out of the graph."""
        results = list(self.made["constants"])
        for place, tensor in zip(self.made["tensors"], returned, strict=True):
            results[place] = tensor
        return pytree.tree_unflatten(results, self.made["spec"])


def _sizes(tensors: list[torch.Tensor]) -> list[tuple[int, int, str]]:
    """Every size of every tensor."""
    return [(i, dim, "") for i, tensor in enumerate(tensors) for dim in range(tensor.dim())]


def _callable(fn: Callable, options: dict[str, Any]) -> Callable:
    """Calls what was compiled for a call; compiles where nothing was yet, or autograd is in another state."""
    return _C.AotCallable(
        fn,
        lambda args, kwargs: _Compiled(fn, args, kwargs, options),
        lambda args, kwargs: pytree.tree_flatten((args, kwargs)),
        lambda: count("fallbacks"),
    )


def _options(  # noqa: PLR0917
    fw_compiler: Compiler | None,
    bw_compiler: Compiler | None,
    partition_fn: Callable | str,
    inference_compiler: Compiler | None,
    memory_budget: float,
    dynamic: bool = False,
) -> dict[str, Any]:
    name = partition_fn if isinstance(partition_fn, str) else getattr(partition_fn, "__name__", "")
    return {
        "fw_compiler": fw_compiler,
        "bw_compiler": bw_compiler or fw_compiler,
        "inference_compiler": inference_compiler or fw_compiler,
        "min_cut": "min_cut" in name,
        "budget": memory_budget,
        "dynamic": dynamic,
    }


def aot_function(  # noqa: PLR0917 (the order of PyTorch's)
    fn: Callable,
    fw_compiler: Compiler | None = None,
    bw_compiler: Compiler | None = None,
    partition_fn: Callable | str = "min_cut",
    decompositions: dict | None = None,
    num_params_buffers: int = 0,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Compiler | None = None,
    *,
    dynamic: bool = False,
    memory_budget: float = 1.0,
    **ignored: Any,
) -> Callable:
    """``fn``, compiled on its first call; later calls run what was compiled then.

    Arguments of other sizes, strides or dtypes raise ``saker.RunError``; with ``dynamic`` sizes may differ. It is
    compiled again where autograd is in another state (grad mode, what requires grad or shares memory) or a constant
    differs.

    Forward and backward are captured together and cut in two. A compiler is called with a ``torch.fx.GraphModule`` and
    example inputs and gives a callable; without one, Saker's own executor runs. ``partition_fn`` is "min_cut" or
    "default" (a function of PyTorch's with such a name counts as that).
    """
    options = _options(fw_compiler, bw_compiler, partition_fn, inference_compiler, memory_budget, dynamic)
    return _callable(fn, options)


def aot_module(mod: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    """``mod`` with its forward compiled by ``aot_function``; parameters and buffers are inputs of the graphs."""

    def functional(named: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        return torch.func.functional_call(mod, named, args, kwargs)

    compiled = aot_function(functional, *args, **kwargs)

    class AotModule(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.orig_module = mod

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            named = {**dict(mod.named_parameters()), **dict(mod.named_buffers())}
            return compiled(named, *args, **kwargs)

    return AotModule()


def aot_module_simplified(  # noqa: PLR0917 (the order of PyTorch's)
    mod: torch.nn.Module,
    args: tuple | list,
    fw_compiler: Compiler | None = None,
    bw_compiler: Compiler | None = None,
    partition_fn: Callable | str = "min_cut",
    decompositions: dict | None = None,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Compiler | None = None,
    *,
    memory_budget: float = 1.0,
    **ignored: Any,
) -> Callable:
    """``mod`` compiled at once for ``args``: a plain callable of the same arguments."""
    named = {
        **dict(mod.named_parameters(remove_duplicate=False)),
        **dict(mod.named_buffers(remove_duplicate=False)),
    }

    def functional(named: dict[str, torch.Tensor], *args: Any) -> Any:
        return torch.func.functional_call(mod, named, args)

    options = _options(fw_compiler, bw_compiler, partition_fn, inference_compiler, memory_budget)
    compiled = _callable(functional, options)
    compiled.prepare(named, *args)

    def forward(*runtime_args: Any) -> Any:
        return compiled(named, *runtime_args)

    forward.zero_grad = mod.zero_grad
    forward.named_parameters = mod.named_parameters
    forward.named_buffers = mod.named_buffers
    return forward
