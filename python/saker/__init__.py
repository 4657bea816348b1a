"""Saker: a compiler for PyTorch programs, in C++."""

import torch  # noqa: F401  (its libraries must be loaded before the extension)

from saker import _C  # noqa: F401  isort: skip
from saker import ops
from saker.errors import Refusal

__version__ = "0.1.0"

__all__ = ["Refusal", "__version__", "ops"]
