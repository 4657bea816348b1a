"""Saker: a compiler for PyTorch programs, in C++.

>>> import saker
>>> fast = saker.compile(model)
>>> y = fast(x)
>>> print(saker.explain(model)(x))
"""

import torch  # noqa: F401  (its libraries must be loaded before the extension)

from saker import _torch_version  # isort: skip  (refuses a torch that the extension was not built against)
from saker import _C  # noqa: F401  isort: skip
from saker import _higher_order, ops
from saker._aot import aot_function, aot_module, aot_module_simplified
from saker._C import SymbolSpace, parse, passes
from saker._capture import capture
from saker._compile import allow, compile, limit_from_environment, set_recompile_limit
from saker._deferred import deferred
from saker._explain import Explanation, explain
from saker._export import aot_export_joint_simple, aot_export_module
from saker._graph import Graph
from saker._logs import from_environment, set_logs, set_stages
from saker._names import check_environment
from saker._reasons import Reason, reasons
from saker._report import Report, report
from saker._stats import reset, stats
from saker._version import __version__
from saker.errors import (
    BackendError,
    CaptureError,
    MutationError,
    OptionError,
    ParseError,
    Refusal,
    RunError,
    VerifyError,
)

check_environment()
from_environment()
limit_from_environment()
_higher_order.install()
_torch_version.install()


def __dir__() -> list[str]:
    """What is public; ``saker._C`` and other internals are there, and not listed."""
    return sorted([*__all__, "__doc__", "__file__", "__name__", "__path__", "errors"])


__all__ = [
    "BackendError",
    "CaptureError",
    "Explanation",
    "Graph",
    "MutationError",
    "OptionError",
    "ParseError",
    "Reason",
    "Refusal",
    "Report",
    "RunError",
    "SymbolSpace",
    "VerifyError",
    "__version__",
    "allow",
    "aot_export_joint_simple",
    "aot_export_module",
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "capture",
    "compile",
    "deferred",
    "explain",
    "ops",
    "parse",
    "passes",
    "reasons",
    "report",
    "reset",
    "set_logs",
    "set_recompile_limit",
    "set_stages",
    "stats",
]
