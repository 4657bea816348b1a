"""``saker.capture``: a function's graph, from one call that runs nothing."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from saker import _C
from saker._compiling import compiling
from saker._doors import applied, doors
from saker._forward_mode import watched
from saker._graph import Graph, Output
from saker._names import meant, takes
from saker._stand_ins import dress_of, put_on
from saker.errors import CaptureError, Refusal

Dims = int | Iterable[int] | Mapping[int, str]


def capture(fn: Callable, /, *args: Any, dynamic: Mapping[int | str, Dims] | None = None, **kwargs: Any) -> Graph:
    """Call ``fn`` once with stand-ins for its tensors, and give the graph of what it did.

    Nothing runs: no operator is executed, and what the function would have changed (parameters, ``.grad``, version
    counters) is as before afterwards. Backward passes inside of it (``torch.autograd.grad``, ``.backward()``) are part
    of the graph. Arguments and results may be nested lists, tuples, dicts and other pytrees; what is no tensor in them
    is a constant of the graph.

    ``dynamic`` names sizes that may differ in later calls of the graph: for an argument (its position, or its name for
    a keyword argument) the dimensions, or a dict that gives each dimension a name; sizes of one name are equal.

    >>> graph = saker.capture(model, ids, dynamic={0: {0: "batch", 1: "length"}})
    >>> graph(other_ids)

    Raises ``saker.CaptureError`` if the function looks at data, or does what cannot be recorded; it names the line.
    """
    if not callable(fn):
        raise TypeError(
            f"saker.capture takes a function or a module, and then its arguments, not a {type(fn).__name__}"
        )
    for name in kwargs:
        if dynamic is None and meant(name, ["dynamic"]) and not takes(fn, name):
            raise TypeError(f"neither saker.capture nor the function has a keyword {name!r}; did you mean 'dynamic'?")
    leaves, spec = pytree.tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[i] for i in places]
    sizes = _dynamic_sizes(dynamic or {}, args, kwargs, tensors)
    recording = _C.Capture(tensors, sizes)
    generator = torch.default_generator.get_state()
    try:
        stand_ins = recording.arguments()
        put_on(stand_ins, [dress_of(tensor) for tensor in tensors])
        for place, stand_in in zip(places, stand_ins, strict=True):
            leaves[place] = stand_in
        call_args, call_kwargs = pytree.tree_unflatten(leaves, spec)
        applied.any = False
        with doors, compiling(), watched():
            result = fn(*call_args, **call_kwargs)
            outputs, values = _outputs(result)
            stats = recording.stats()
            program = recording.finish(values)
        program.name_parameters(_names(fn, program))
    except CaptureError:
        raise
    except Refusal as error:
        raise as_capture_error(error) from error
    except RuntimeError as error:
        if not dynamic or ASKS_FOR_SIZES not in str(error):
            raise
        message = "code of PyTorch's in C++ asks for sizes in numbers; leave the argument out of dynamic"
        raise CaptureError("Unsupported", message, "", *_users_line(error)) from error
    except AssertionError as error:
        if "FakeTensor" not in str(error):
            raise
        message = "the function uses a FakeTensor, which has no data; close over real tensors"
        raise CaptureError("Unsupported", message, "", *_users_line(error)) from error
    finally:
        recording.cancel()
        torch.default_generator.set_state(generator)
    constants = [None if i in set(places) else leaf for i, leaf in enumerate(leaves)]
    function = fn if program.user_gradients or applied.any else None
    return Graph(program, inputs=(spec, places, constants), outputs=outputs, stats=stats, function=function)


def _names(fn: Callable, program: _C.Program) -> list[str]:
    """By parameter of the graph: what the module that is captured calls it; empty where it is none of its own."""
    module = fn if isinstance(fn, torch.nn.Module) else getattr(fn, "__self__", None)
    if not isinstance(module, torch.nn.Module):
        return []
    own = {id(tensor): name for each in (module.named_buffers(), module.named_parameters()) for name, tensor in each}
    return [own.get(id(tensor), "") if kind == "closed" else "" for kind, _, tensor, _ in program.sources]


ASKS_FOR_SIZES = "on tensor with symbolic sizes/strides"  # in PyTorch's error


def as_capture_error(error: Refusal) -> CaptureError:
    """A refusal that came up in Python (a number of a size that is none) with the user's line."""
    return CaptureError(error.reason, error.message, "", *_users_line(error))


def _users_line(error: BaseException) -> tuple[str | None, int]:
    """The innermost line of the traceback that is neither PyTorch's nor ours."""
    folders = tuple(os.path.dirname(module.__file__) + os.sep for module in (torch, _C))
    found: tuple[str | None, int] = (None, 0)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if not frame.f_code.co_filename.startswith(folders):
            found = (frame.f_code.co_filename, line)
    return found


def _outputs(result: Any) -> tuple[tuple[pytree.TreeSpec, list[Output]], list[Any]]:
    """The results' tree, for each leaf where it comes from, and the leaves that come from the graph."""
    leaves, spec = pytree.tree_flatten(result)
    outputs: list[Output] = []
    values: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, (torch.Tensor, torch.SymInt)):
            outputs.append(Output(len(values), None))
            values.append(leaf)
        elif isinstance(leaf, (torch.SymFloat, torch.SymBool)):
            raise CaptureError("Unsupported", "a result is a symbolic float or bool; return a tensor instead")
        else:
            outputs.append(Output(None, leaf))
    return (spec, outputs), values


def _dynamic_sizes(
    dynamic: Mapping[int | str, Dims], args: tuple, kwargs: dict[str, Any], tensors: list[torch.Tensor]
) -> list[tuple[int, int, str]]:
    if not isinstance(dynamic, Mapping):
        message = "dynamic is a dict from arguments to their dimensions that change, such as {0: 0}, not " + repr(
            dynamic
        )
        raise CaptureError("BadArgument", message)
    sizes: list[tuple[int, int, str]] = []
    for key, dims in dynamic.items():
        try:
            argument = kwargs[key] if isinstance(key, str) else args[key]
        except (KeyError, IndexError):
            raise CaptureError("BadArgument", f"dynamic names an argument that is not given: {key!r}") from None
        if not isinstance(argument, torch.Tensor):
            raise CaptureError("BadArgument", f"dynamic names argument {key!r}, which is no tensor")
        place = next(i for i, tensor in enumerate(tensors) if tensor is argument)
        if isinstance(dims, int):
            dims = (dims,)
        named = dims.items() if isinstance(dims, Mapping) else ((dim, "") for dim in dims)
        for dim, name in named:
            if not -argument.dim() <= dim < argument.dim():
                raise CaptureError("BadArgument", f"argument {key!r} has no dimension {dim}")
            sizes.append((place, dim % argument.dim(), name))
    return sizes
