"""Runs one program in two worlds and compares everything that can be seen of each call."""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack

import saker

from .alike import Different, compare, tensors_in
from .world import World


def _lines(error: BaseException) -> list[tuple[str, int | None]]:
    frames = traceback.extract_tb(error.__traceback__)
    return [(f.name, f.lineno) for f in frames if "compile_corpus" in f.filename and not f.filename.endswith("run.py")]


def _chain(error: BaseException | None, depth: int = 0) -> Any:
    if error is None or depth > 5:
        return None
    inner = [_chain(e, depth + 1) for e in getattr(error, "exceptions", ())]
    return [
        type(error).__qualname__,
        re.sub(r"0x[0-9a-f]+", "0x...", str(error)),
        _lines(error),
        inner,
        _chain(error.__cause__, depth + 1),
        _chain(error.__context__, depth + 1),
    ]


def _set_modes(modes: list[Any]) -> None:
    for _ in _get_current_function_mode_stack():
        torch._C._pop_torch_function_stack()
    for mode in modes:
        torch._C._push_on_torch_function_stack(mode)


def _modes() -> list[Any]:
    """The state around operators."""
    backends = torch.backends
    return [
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.get_float32_matmul_precision(),
        torch.get_num_threads(),
        torch.is_anomaly_enabled(),
        torch.autograd._profiler_enabled(),
        backends.mkldnn.enabled,
        backends.cuda.flash_sdp_enabled(),
        backends.cuda.math_sdp_enabled(),
        str(torch._C._get_torch_function_state()),
        torch._C._autograd._saved_tensors_hooks_get_disabled_error_message(),
    ]


def observe(fn: Callable, world: World, seed: int) -> dict[str, Any]:
    """One call: what it gives, raises, prints, draws and leaves behind, and gradients through its result."""
    torch.manual_seed(seed)
    random.seed(seed)
    torch.set_grad_enabled(True)
    out = io.StringIO()
    seen: dict[str, Any] = {"result": None, "raised": None}
    with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as told, world.around():
        modes = _get_current_function_mode_stack()
        try:
            seen["result"] = fn(*world.args, **world.kwargs)
        except Exception as error:
            seen["raised"] = _chain(error)
        left = _get_current_function_mode_stack()
        seen["function modes"] = [modes.index(m) if m in modes else m for m in left]
        _set_modes(modes)
        seen["modes"] = _modes()
    seen["printed"] = out.getvalue()
    seen["warned"] = [(str(w.message), w.category, os.path.basename(w.filename), w.lineno) for w in told]
    seen["generator"] = torch.get_rng_state()
    reached = tensors_in([world.fn, world.args, world.kwargs, world.state()])
    results = [t for t in tensors_in(seen["result"]) if t.requires_grad and not t.is_leaf]
    leaves = [t for t in reached if t.is_leaf and t.requires_grad and t.is_floating_point()]
    if results and leaves:
        total = sum((t.float() * t.float()).sum() for t in results)
        try:
            gradients = torch.autograd.grad(total, leaves, allow_unused=True, retain_graph=True)
        except RuntimeError as error:
            gradients = str(error).split("\n")[0]
        seen["gradients"] = gradients
    # One comparison for all, so that what is one object is one everywhere.
    seen["reached"] = [world.args, world.kwargs, world.state()]
    return seen


def steps(world: World) -> list[Callable[[], Any] | None]:
    """None: a call."""
    out: list[Callable[[], Any] | None] = [None, None, None]
    for change in world.changes:
        out += [change, None, None]
    return out


def run(make: Callable[[], World], backend: str = "aten") -> tuple[bool, str]:
    """Raises Different where the worlds part. Was one of the first three calls a replay; if not, why?"""
    eager, compiled = make(), make()
    fn = saker.compile(compiled.fn, backend=backend)
    before, replayed = saker.stats()["replays"], False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", module="compile_corpus")
        warnings.filterwarnings("ignore", message="saker")
        for number, (mine, theirs) in enumerate(zip(steps(eager), steps(compiled), strict=True)):
            if mine is not None:
                for change in (mine, theirs):
                    torch.manual_seed(number)
                    change()
                continue
            expected = observe(eager.fn, eager, number)
            got = observe(fn, compiled, number)
            replayed = replayed or (number < 3 and saker.stats()["replays"] > before)
            try:
                compare(expected, got, "")
            except Different as difference:
                report = saker._C.compiled_reports(_inner(fn))
                raise Different(f"step {number}: {difference}\nreports: {report}") from None
    reports = saker._C.compiled_reports(_inner(fn))
    return replayed, reports[0]["why"] if reports else "it is not recorded"


def _inner(fn: Any) -> Any:
    return fn.__dict__["_compiled"] if isinstance(fn, torch.nn.Module) else fn
