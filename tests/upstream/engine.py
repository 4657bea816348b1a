"""A pytest plugin: every way by which PyTorch's tests reach its compiler leads to the engine in UPSTREAM_ENGINE.

Tests that look at insides of torch (printed graphs, counters, guards) are left out: they say nothing about what a
program does. A test in which nothing was captured is skipped at its end.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
import torch._dynamo.testing
from torch.testing._internal import common_utils, inductor_utils

AOT = ("aot_function", "aot_module", "aot_module_simplified", "aot_export_module", "aot_export_joint_simple")

# Words in the source of a test that say that it is about torch's insides.
INSIDES = [
    *["assertExpected", "assertLogs", "make_logging", "logging_test", "log_settings", "capture_output"],
    *[r"counters\[", r"counters\.", r"\.graphs\b", r"\.graph\.", r"\.code\b", "print_readable", "normalize_gm"],
    *["guard_manager", "GuardManager", "install_guard", r"fx\.Graph", "GraphModule", r"_assert_\w*graph"],
    *[r"torch\._dynamo\.export", r"_dynamo\.explain", r"torch\._inductor", "run_and_get_code", r"\.op_count\s*[<>]"],
    *["CompileContext", "compile_id", "cached_backends", "dynamo_config", r"config\.patch"],
    *["TORCHDYNAMO", "TORCH_COMPILE", "check_dynamic_shape_capture", "ifdynstaticdefault"],
    *["Unsupported", "InternalTorchDynamoError", "UncapturedHigherOrderOpError", "TorchRuntimeError", "UserError"],
    r"torch\._dynamo\.(?:utils|bytecode|symbolic_convert|variables|source|codegen|output_graph|eval_frame|convert_frame"
    r"|guards)",
]
INSIDE = re.compile("|".join(INSIDES))


def supply(module: Any, **names: Any) -> None:
    """Names that the tests import and that this torch does not have any more."""
    for name, value in names.items():
        if not hasattr(module, name):
            setattr(module, name, value)


def supply_what_is_gone() -> None:
    import torch._higher_order_ops.utils as higher_order
    from functorch.experimental import control_flow

    needs_gpu = pytest.mark.skip(reason="needs a GPU")
    supply(common_utils, disable_translation_validation_if_dynamic_shapes=lambda f: f, requires_cuda=needs_gpu)
    supply(inductor_utils, HAS_CUDA=False)
    supply(torch._dynamo.testing, requiresPy310=lambda f: f)
    supply(control_flow, UnsupportedAliasMutationException=higher_order.UnsupportedAliasMutationException)
    try:
        import torch.testing._internal.triton_utils as triton
    except ImportError:
        return
    supply(triton, HAS_CUDA=False, requires_cuda=needs_gpu, requires_gpu=needs_gpu)


class AnyNumber(int):
    """Equal to every number: engines count operators in their own ways."""

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int)

    def __ne__(self, other: object) -> bool:
        return not self == other


class AtMost(int):
    """Equal to every number that is not smaller: fewer graphs are as good, but none are not."""

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and min(1, int(other)) <= int(self) <= int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def count_leniently() -> None:
    for name in ("CompileCounter", "CompileCounterWithBackend", "EagerAndRecordGraphs"):
        counter = getattr(torch._dynamo.testing, name, None)
        for field, kind in (("op_count", AnyNumber), ("frame_count", AtMost)) if counter else ():

            def get(self: Any, field: str = field, kind: type = kind) -> Any:
                return kind(vars(self).get(field, 0))

            def put(self: Any, value: int, field: str = field) -> None:
                vars(self)[field] = int(value)

            setattr(counter, field, property(get, put))


def replace_aot(make: Callable[[str, Callable], Callable]) -> None:
    import functorch.compile
    import torch._functorch.aot_autograd as aot

    for name in AOT:
        made = make(name, getattr(aot, name))
        for module in (aot, functorch.compile):
            if hasattr(module, name):
                setattr(module, name, made)


class Twice:
    """Calls each compiled function on copies of its arguments first, so that the call a test looks at is a replay."""

    def __init__(self) -> None:
        self.on = os.environ.get("UPSTREAM_TWICE") == "1"
        self.forget()

    def forget(self) -> None:
        self.doubled = self.missed = 0

    def wrap(self, compiled: Any, replays: Callable[[], int]) -> Any:
        if not self.on or not callable(compiled) or isinstance(compiled, torch.nn.Module):
            return compiled
        first = True

        @functools.wraps(compiled)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal first
            if not first:
                return compiled(*args, **kwargs)
            first = False
            state = torch.get_rng_state(), random.getstate()
            try:
                compiled(*copy.deepcopy(args), **copy.deepcopy(kwargs))
            except Exception:  # the test's own call will tell
                return compiled(*args, **kwargs)
            torch.set_rng_state(state[0])
            random.setstate(state[1])
            self.doubled += 1
            before = replays()
            result = compiled(*args, **kwargs)
            self.missed += replays() == before
            return result

        return call


TWICE = Twice()


class Torch:
    """PyTorch's own compiler; a graph that reaches a back end counts, and so does a call of an AOT function."""

    def __init__(self) -> None:
        from torch._dynamo.output_graph import OutputGraph

        self.count = 0
        OutputGraph.call_user_compiler = self._counted(OutputGraph.call_user_compiler)
        replace_aot(lambda name, old: self._counted(old))

    def _counted(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return function(*args, **kwargs)

        return call

    def graphs(self) -> int:
        return self.count


class Saker:
    def __init__(self) -> None:
        import saker

        self.saker = saker
        torch.compile = self.compile
        torch._dynamo.optimize = self.optimize
        torch._dynamo.optimize_assert = torch._dynamo.testing.optimize_assert = self.optimize_assert
        self.old_reset = torch._dynamo.reset
        torch._dynamo.reset = torch.compiler.reset = torch._dynamo.testing.reset = self.reset
        replace_aot(lambda name, old: getattr(saker, name, None) or self.missing(name))

    @staticmethod
    def missing(name: str) -> Callable:
        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(f"saker has no {name}")

        return refuse

    def graphs(self) -> int:
        return self.saker.stats()["graphs"]

    def reset(self) -> None:
        self.old_reset()
        self.saker.reset()

    def compile(self, model: Any = None, *, backend: Any = "eager", **options: Any) -> Any:
        known = ("fullgraph", "dynamic", "mode", "options", "disable")
        given = {name: value for name, value in options.items() if name in known}
        if model is None:
            return lambda fn: self.compile(fn, backend=backend, **given)
        made = self.saker.compile(model, backend="aten" if backend == "inductor" else backend, **given)
        return TWICE.wrap(made, lambda: self.saker.stats()["replays"])

    def optimize(self, backend: Any = "inductor", *, nopython: bool = False, **options: Any) -> Callable:
        return lambda fn: self.compile(fn, backend=backend, fullgraph=nopython, **options)

    def optimize_assert(self, backend: Any, **options: Any) -> Callable:
        return self.optimize(backend, nopython=True, **options)


supply_what_is_gone()
count_leniently()
ENGINE = {"saker": Saker, "torch": Torch}[os.environ.get("UPSTREAM_ENGINE", "saker")]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    before = ENGINE.graphs()
    TWICE.forget()
    result = yield
    if ENGINE.graphs() == before:
        pytest.skip("nothing was captured")
    if TWICE.on and not TWICE.doubled:
        pytest.skip("no call was doubled")
    if TWICE.on and TWICE.missed:
        pytest.skip("the second call was no replay")
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path = os.environ.get("UPSTREAM_RESULTS")
    if path and (report.when == "call" or report.outcome == "failed"):
        with open(path, "a") as results:
            results.write(f"{report.outcome} {report.nodeid.partition('::')[2]}\n")


def is_about_insides(item: pytest.Item) -> bool:
    try:
        return bool(INSIDE.search(inspect.getsource(inspect.unwrap(item.function))))
    except (OSError, TypeError, AttributeError):
        return False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for cls in {item.cls for item in items if getattr(item, "cls", None)}:
        if "guard_manager_clone_hook_fn" in vars(cls):  # hooks torch's own guards, and nothing else
            for name in {"setUp", "tearDown"} & vars(cls).keys():
                delattr(cls, name)
    dropped = [item for item in items if is_about_insides(item)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in set(dropped)]
