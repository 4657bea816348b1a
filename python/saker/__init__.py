"""Saker: a compiler for PyTorch programs, in C++.

>>> import saker
>>> graph = saker.parse(open("program.sk").read())
>>> graph.run_passes("dce,cse")
>>> print(graph.text)
"""

import torch  # noqa: F401  (its libraries must be loaded before the extension)

from saker import _C  # noqa: F401  isort: skip
from saker import ops
from saker._C import Graph, SymbolSpace, parse, passes
from saker.errors import ParseError, Refusal

__version__ = "0.1.0"

__all__ = ["Graph", "ParseError", "Refusal", "SymbolSpace", "__version__", "ops", "parse", "passes"]
