"""What differs between PyTorch versions as far as the Python package sees it, each with the version that brought it.

`check` refuses a PyTorch that this Saker was not built against. Its C++ interface differs from release to release:
without the check, the import ends with the name of a symbol that is not there, or worse, it does not end.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._higher_order_ops.scan import scan
from torch.autograd import Function
from torch.autograd import function as autograd_function
from torch.autograd.function import _SingleLevelFunction
from torch.utils import checkpoint

# Written by the build, beside the extension.
_BUILT = Path(__file__).with_name("torch_version.txt")


def check(installed: str, built: str | None = None) -> None:
    """Raises ImportError if the two are not the same release; what follows a plus (cpu, cu130) may differ."""
    if built is None:
        try:
            built = _BUILT.read_text().strip()
        except FileNotFoundError:
            raise ImportError(
                f"this Saker has not been built: there is no {_BUILT.name} beside its extension"
            ) from None
    if installed.partition("+")[0] != built.partition("+")[0]:
        raise ImportError(
            f"this Saker was built against torch {built}, and the torch that is installed is {installed}; "
            f"install torch {built.partition('+')[0]}, or build Saker against torch {installed}"
        )


check(torch.__version__)  # before the extension is loaded

# 2.14: the generator that checkpoints without reentrance run is given arguments and options apart.
_APART = hasattr(checkpoint, "_checkpoint_without_reentrant_generator_impl")
CHECKPOINT_GENERATOR = f"_checkpoint_without_reentrant_generator{'_impl' if _APART else ''}"


def checkpoint_options(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Callable]:
    """`preserve_rng_state` and `context_fn` of a call of that generator."""
    if _APART:
        return kwargs["preserve_rng_state"], kwargs["context_fn"]
    _, preserve_rng_state, context_fn, *_ = args
    return preserve_rng_state, context_fn


def checkpoint_context(result: Any) -> checkpoint.SelectiveCheckpointContext:
    """What a policy is told about an operator. 2.13: its result too."""
    names = checkpoint.SelectiveCheckpointContext.__init__.__code__.co_varnames
    told = {"op_output": result} if "op_output" in names else {}
    return checkpoint.SelectiveCheckpointContext(is_recompute=False, **told)


# 2.14: all of a Function's apply is C code, which stands in the class itself: names of it that programs keep lead to no
# other place. Before, its last part does, to which they lead.
_ALL_IN_C = not isinstance(vars(Function)["apply"], classmethod)
APPLIES: Any = Function if _ALL_IN_C else _SingleLevelFunction


def apply_arguments(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """What that part of apply is given; None: it has names, or the call is passed on to another Function."""
    if not _ALL_IN_C:
        return None if kwargs else args
    if torch._C._are_functorch_transforms_active():
        return None
    if function.setup_context is not _SingleLevelFunction.setup_context:
        args, kwargs = autograd_function._bind_default_args(function.forward, args, kwargs)
    return None if kwargs else args


# 2.14: scan is told its length, and may be given nothing to go along; lengths may be zero, of associative_scan too,
# whose pointwise mode is not for GPUs alone; functions of map and scan may write to tensors that are not their own.
SCANS_TAKE_LENGTHS = "length" in inspect.signature(scan).parameters


def install() -> None:
    """2.14: PyTorch asks for the dispatch key whether a tensor is fake. Tensors of a trace have it too, and may keep it
    for a while when they have data."""
    from saker import _C

    if hasattr(torch._C, "_is_fake_tensor"):
        torch._C._is_fake_tensor = _C.is_torch_fake


def is_out(op: object) -> bool:
    """Does an operator fill the tensors that it is given by ``out=``? Up to 2.11 functional forms know none."""
    from torch._library import utils

    found = getattr(utils, "is_out", None)
    return found is not None and found(op)
