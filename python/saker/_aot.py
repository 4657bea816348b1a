"""Ahead-of-time autograd: a function's forward and backward as two graphs, run inside of PyTorch's autograd."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from saker import _C
from saker._awaited import Awaited
from saker._backends import Compiler, Executable, Graphs, strategy_of
from saker._capture import ASKS_FOR_SIZES, as_capture_error
from saker._checkpoint import checkpoints
from saker._compiling import asking, compiling
from saker._doors import doors
from saker._fakes import FakesAsTensors, is_fake, mode_of, without_fakes
from saker._forward_mode import watched
from saker._graph_writes import with_writes
from saker._modes import Mode
from saker._names import check_keywords, checks_keywords, keywords_of
from saker._options import checked_budget, checked_compiler
from saker._restore import unchanged_if_it_fails
from saker._stand_ins import dress_of, put_on
from saker._stats import count
from saker._trees import flatten
from saker.errors import BackendError, CaptureError, FakeTensorError, MutationError, Refusal


class _SeesOperators(Mode):
    """Does nothing, but is there."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def run_leniently(run: Callable[[], None]) -> None:
    """Under a mode that sees every operator, PyTorch's derivative formulas avoid asking tensors for their data."""
    with _SeesOperators():
        run()


class _Options:
    def __init__(
        self,
        compilers: tuple[Compiler | None, Compiler | None, Compiler | None],
        partition_fn: Callable | str,
        decompositions: dict | None,
        memory_budget: float,
        *,
        dynamic: bool = False,
        keep_writes: bool = False,
    ) -> None:
        names = ("fw_compiler", "bw_compiler", "inference_compiler")
        forward, backward, inference = map(checked_compiler, names, compilers)
        self.forward = forward
        self.backward = backward or forward
        self.inference = inference or forward
        strategy = strategy_of(partition_fn)
        self.min_cut = strategy != "default"
        self.partition_fn = partition_fn if strategy is None else None
        self.decompositions = decompositions
        self.memory_budget = checked_budget(memory_budget)
        self.dynamic = dynamic
        self.keep_writes = keep_writes  # in graphs for inference_compiler
        self.fake_mode: Any = None  # what the examples for compilers belong to


def _casts() -> list[tuple[str, bool, torch.dtype]]:
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    return [(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in devices]


class _Recorded:
    """What a function gave when it was captured: the structure, and whatever is no tensor."""

    def __init__(
        self, fn: Callable, leaves: list[Any], spec: pytree.TreeSpec, places: list[int], functions: Awaited | None
    ) -> None:
        self.fn, self.spec_in, self.places = fn, spec, places
        self.functions = functions  # of the user's, whose backwards have run
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.dresses = [dress_of(leaves[place]) for place in places]
        self.casts = _casts()
        self.results: _C.ResultTree | None = None

    def _arguments(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple, dict[str, Any]]:
        given = list(self.leaves)
        put_on(tensors, self.dresses)
        for place, tensor in zip(self.places, tensors, strict=True):
            given[place] = tensor
        return pytree.tree_unflatten(given, self.spec_in)

    def again(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """Calls the function once more, with autocast as it was, for the tensors that it gives."""
        args, kwargs = self._arguments(tensors)
        with contextlib.ExitStack() as casts:
            for device, enabled, dtype in self.casts:
                casts.enter_context(torch.autocast(device, dtype, enabled))
            if self.functions is not None:
                casts.enter_context(self.functions.repeated())
            results = _C.call_inside(getattr(self.fn, "again", self.fn), *args, **kwargs)
        return [leaf for leaf in flatten(results)[0] if isinstance(leaf, torch.Tensor)]

    def call(self, *tensors: torch.Tensor) -> list[Any]:
        """Tensors, and numbers that may change."""
        args, kwargs = self._arguments(tensors)
        with self.functions.opened() if self.functions is not None else contextlib.nullcontext():
            self.results = _C.ResultTree(self.fn(*args, **kwargs))
        return self.results.values()


class _Compiled:
    """A function compiled for arguments like the first ones."""

    def __init__(
        self, fn: Callable, args: tuple, kwargs: dict[str, Any], options: _Options, functions: Awaited | None = None
    ) -> None:
        leaves, spec = flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        tensors = [leaves[i] for i in places]
        self.recorded = _Recorded(fn, leaves, spec, places, functions)
        self.names = list(args[0]) if isinstance(getattr(fn, "__self__", None), Functional) else []
        self.native, self.reason = self._capture(tensors, options)
        if self.native is not None:
            self.recorded.results.forget()
            count("graphs")
            count("operators", len(self.native.forward))
            self._use_compilers(options, Graphs(self.native, options.decompositions, options.fake_mode))
        if self.native is None or not self.native.needs_function:
            self.recorded.fn = self.recorded.leaves = None  # not needed any more, and not to be kept alive

    def _capture(self, tensors: list[torch.Tensor], options: _Options) -> tuple[_C.CompiledFunction | None, str]:
        """With eager mode's answer to ``is_compiling()``; where the program then needs data, with True."""
        answer = asking()
        try:
            with answer:
                return self._capture_once(tensors, options)
        except Refusal as error:
            if not answer.asked or error.reason != "DataDependent":
                raise
        with compiling():
            return self._capture_once(tensors, options)

    def _capture_once(self, tensors: list[torch.Tensor], options: _Options) -> tuple[_C.CompiledFunction | None, str]:
        generator = torch.default_generator.get_state()
        sizes = _sizes(tensors) if options.dynamic else []
        try:
            with doors, checkpoints, watched():
                made = _C.aot_compile(
                    self.recorded.call,
                    tensors,
                    options.min_cut,
                    options.memory_budget,
                    sizes,
                    run_leniently,
                    self.recorded.again,
                    # The graphs that compilers and partitioners are given are one forward and one backward.
                    in_stages=options.forward is None and options.backward is None and options.partition_fn is None,
                    only_differentiate=getattr(self.recorded.fn, "only_notes", False),
                    names=self.names,
                    backward_holds=None if self.recorded.functions is None else self.recorded.functions.backward_holds,
                )
                if made[0] is not None and self.recorded.results.opaque:
                    kind = self.recorded.results.opaque.__name__
                    return None, f"a result is a {kind}, which each call makes anew and which may hold tensors"
                return made
        except MutationError:  # told by what was captured
            count("graphs")
            raise
        except CaptureError:
            raise
        except Refusal as error:
            raise as_capture_error(error) from error
        except RuntimeError as error:
            if sizes and ASKS_FOR_SIZES in str(error):
                return None, "code of PyTorch's in C++ asks for sizes in numbers"
            raise
        except AssertionError as error:
            if "FakeTensor" in str(error):
                self._refuse_fakes(tensors, options, error)
            raise
        finally:
            torch.default_generator.set_state(generator)

    def _refuse_fakes(self, tensors: list[torch.Tensor], options: _Options, error: AssertionError) -> None:
        """Captures with ordinary tensors in the place of fake ones, to say which these are."""
        fakes = FakesAsTensors()
        try:
            with doors, checkpoints, watched(), fakes:
                native, _ = _C.aot_compile(
                    self.recorded.call, tensors, options.min_cut, options.memory_budget, [], None
                )
        except Exception:  # the first error is the one to tell
            native = None
        count("graphs", native is not None)
        found = ", ".join(f"{fake.dtype} of {tuple(fake.shape)}" for fake in fakes.found)
        raise FakeTensorError(
            f"Unexpected fake tensor: the function uses one that is no argument ({found or 'unknown'}); it has no data"
        ) from error

    def _use_compilers(self, options: _Options, graphs: Graphs) -> None:
        training = self.native.training
        if training and options.partition_fn is not None:
            from saker._partition import use_partitioner

            use_partitioner(options.partition_fn, self.native, graphs, options.forward, options.backward)
            return
        forward = options.forward if training else options.inference
        backward = options.backward if training else None
        made: Any = None
        if forward:
            maker = "fw_compiler" if forward is options.forward else "inference_compiler"
            if not training and options.keep_writes:
                made = with_writes(self.native, graphs, forward, maker)
            made = made or Executable(forward, lambda: graphs.forward, maker)
            made.compile()
        self.native.set_executables(
            made,
            Executable(backward, lambda: graphs.backward, "bw_compiler") if backward else None,
            (lambda program: Executable(backward, lambda: graphs.other_backward(program), "bw_compiler"))
            if backward
            else None,
        )


def _sizes(tensors: list[torch.Tensor]) -> list[tuple[int, int, str]]:
    """Every size of every tensor."""
    return [(i, dim, "") for i, tensor in enumerate(tensors) for dim in range(tensor.dim())]


def _callable(fn: Callable, options: _Options) -> _C.AotCallable:
    """Calls what was compiled for a call; compiles where nothing was yet, or autograd is in another state.

    Where arguments are tensor subclasses, what is compiled is a function of the tensors inside of them.
    """

    def compile(fn: Callable, args: tuple, kwargs: dict[str, Any], functions: Awaited | None = None) -> tuple[Any, Any]:
        made = _Compiled(fn, args, kwargs, options, functions)
        return made.native, made.recorded.results

    def first(fn: Callable, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any, Awaited | None]:
        native, results = compile(fn, args, kwargs)
        return native, results, Awaited(compile) if native is None else None

    return _C.AotCallable(fn, first)


def raise_if_fake(error: AssertionError) -> None:
    """PyTorch's assertions about fake tensors are about one that the function found, and come as an error of ours."""
    if "FakeTensor" in str(error) and not isinstance(error, FakeTensorError):
        raise FakeTensorError(
            "Unexpected fake tensor: the function uses one that is no argument; it has no data"
        ) from error


# What PyTorch's functions accept beyond the keywords of ours.
_IGNORED = ("_disable_torch_fn_metadata_mode", "compile_region_name", "cudagraphs")


@checks_keywords(*_IGNORED)
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
    enable_log: bool = True,
    disable_functionalization: bool = False,
    memory_budget: float = 1.0,
) -> Callable:
    """``fn``, compiled on its first call; later calls run what was compiled then.

    >>> fast = saker.aot_function(fn, fw_compiler=show_graph)
    >>> fast(x).sum().backward()

    Arguments of other sizes, strides or dtypes raise ``saker.RunError``; with ``dynamic`` sizes may differ. It is
    compiled again where autograd is in another state (grad mode, what requires grad or shares memory) or a constant
    differs.

    Forward and backward are captured together and cut in two. A compiler is called with a ``torch.fx.GraphModule`` and
    example inputs (fake tensors) and gives a callable; without one, Saker's own executor runs. ``decompositions`` are
    used in the graphs that compilers get. ``partition_fn`` is "min_cut" or "default" (PyTorch's own partitioners count
    as these), or a function ``(joint_module, joint_inputs, *, num_fwd_outputs) -> (forward, backward)``.

    Writes to arguments are done behind the graph; with ``keep_inference_input_mutations`` those of a graph for
    ``inference_compiler`` are ``copy_`` at its end, where each argument can be written as it is. The remaining
    arguments of PyTorch's function change nothing here.
    """
    if not callable(fn):
        raise TypeError(f"saker.aot_function takes a function, not a {type(fn).__name__}")
    compilers = (fw_compiler, bw_compiler, inference_compiler)
    keep = keep_inference_input_mutations
    return _callable(
        fn, _Options(compilers, partition_fn, decompositions, memory_budget, dynamic=dynamic, keep_writes=keep)
    )


class Functional:
    """A module as a function of its parameters and buffers; buffers that it replaces are results."""

    def __init__(self, module: torch.nn.Module) -> None:
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"a torch.nn.Module is needed here, not a {type(module).__name__}; see saker.aot_function")
        self.module = module
        for name, tensor in self.state().items():
            if is_fake(tensor):
                raise FakeTensorError(f"Unexpected fake tensor: {name} of the module has no data")

    def state(self) -> dict[str, torch.Tensor]:
        return {**self.places("_parameters"), **self.places("_buffers")}

    def places(self, kind: str) -> dict[str, torch.Tensor]:
        """Each place once: a module that is found under two names has its parameters and buffers once."""
        return {
            f"{path}.{name}" if path else name: tensor
            for path, module in self.module.named_modules()
            for name, tensor in getattr(module, kind).items()
            if tensor is not None
        }

    def flags(self) -> list[bool]:
        return [module.training for module in self.module.modules()]

    def call(self, state: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> tuple[Any, dict[str, torch.Tensor]]:
        given = dict(state)
        own = self.state()
        if _C.trace_mode() != "capture" and all(tensor is own.get(name) for name, tensor in state.items()):
            return self.module(*args, **kwargs), {}  # in eager mode it changes itself
        with unchanged_if_it_fails(self.module):
            result = torch.func.functional_call(self.module, state, args, kwargs, tie_weights=False)
        return result, {name: tensor for name, tensor in state.items() if tensor is not given[name]}

    def take(self, returned: tuple[Any, dict[str, torch.Tensor]]) -> Any:
        result, replaced = returned
        for name, tensor in replaced.items():
            path, _, attribute = name.rpartition(".")
            setattr(self.module.get_submodule(path), attribute, tensor)
        return result


class AotModule(torch.nn.Module):
    """What ``aot_module`` gives. A copy or pickle of it is the module and the options, compiled where it is called."""

    def __init__(self, mod: torch.nn.Module, call: Callable, options: tuple[tuple, dict[str, Any]]) -> None:
        super().__init__()
        self.orig_module = mod
        self.__dict__["_call"] = call
        self.__dict__["_options"] = options

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __reduce__(self) -> Any:
        return _aot_module_again, (self.orig_module, *self._options)


def _aot_module_again(mod: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> torch.nn.Module:
    return aot_module(mod, *args, **kwargs)


def aot_module(mod: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    """``mod`` with its forward compiled by ``aot_function``; parameters and buffers are inputs of the graphs.

    >>> fast = saker.aot_module(model)
    >>> fast(x).sum().backward()

    It is compiled again where a module has come to be in training mode, or has left it.
    """
    check_keywords("saker.aot_module", kwargs, [*keywords_of(aot_function)[1:], *_IGNORED])
    aot_function(mod, *args, **kwargs)  # wrong options are told at once
    call = _C.AotModule(Functional(mod), lambda function: aot_function(function, *args, **kwargs))
    return AotModule(mod, call, (args, kwargs))


@checks_keywords(*_IGNORED)
def aot_module_simplified(  # noqa: PLR0917 (the order of PyTorch's)
    mod: torch.nn.Module,
    args: Sequence[Any],
    fw_compiler: Compiler | None = None,
    bw_compiler: Compiler | None = None,
    partition_fn: Callable | str = "min_cut",
    decompositions: dict | None = None,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Compiler | None = None,
    compiler_config_extra: Any = None,
    ignore_shape_env: bool = False,
    disable_functionalization: bool = False,
    pre_grad_passes: Callable | None = None,
    *,
    memory_budget: float = 1.0,
) -> Callable:
    """``mod`` compiled at once for ``args``, which may be fake tensors: a plain callable of the same arguments.

    >>> call = saker.aot_module_simplified(graph_module, [x], fw_compiler=show_graph)

    A module that PyTorch has flattened the arguments of is called with a list, which is emptied.
    """
    check_arguments(args)
    if pre_grad_passes is not None:
        mod = pre_grad_passes(mod, args)
        if not isinstance(mod, torch.nn.Module):
            raise BackendError(f"pre_grad_passes must give a module, not a {type(mod).__name__}")
    compilers = (fw_compiler, bw_compiler, inference_compiler)
    keep = keep_inference_input_mutations
    options = _Options(compilers, partition_fn, decompositions, memory_budget, keep_writes=keep)
    options.fake_mode = mode_of(list(args))
    call = _C.AotModule(Functional(mod), lambda function: _callable(function, options))
    call.prepare(*without_fakes(list(args)))

    def forward(*runtime_args: Any) -> Any:
        return call(*runtime_args)

    def boxed(runtime_args: list[Any]) -> Any:
        given = tuple(runtime_args)
        runtime_args.clear()
        return forward(*given)

    made = boxed if _takes_a_list(mod) else forward
    made.zero_grad = mod.zero_grad
    made.named_parameters = mod.named_parameters
    made.named_buffers = mod.named_buffers
    return made


def check_arguments(args: Any) -> None:
    """A tensor can be iterated over too, and would be taken for its rows."""
    if isinstance(args, torch.Tensor):
        raise TypeError("args is a tuple or list of arguments, not a Tensor: write (x,)")


def _takes_a_list(mod: torch.nn.Module) -> bool:
    module = sys.modules.get("torch._dynamo.utils")
    return module is not None and isinstance(mod, module.GmWrapper)
