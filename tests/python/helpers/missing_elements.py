"""Operators that no kernel is made of (`src/ops/element.h`), although they are no library calls, by frequency.

    PYTHONPATH=python python tests/python/helpers/missing_elements.py            # in the models of the zoo
    PYTHONPATH=python python tests/python/helpers/missing_elements.py --core     # PyTorch's core operators

Each model is trained two steps, with an optimizer of single tensors and one of lists, and run in eval mode.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from saker import _C
from zoo import MODELS

# Only libraries do these: a kernel of ours would have nothing to add.
LIBRARY = {"matmul", "convolution", "attention", "sort", "library"}
TABLE = {each["name"]: each for each in _C.operators()}


def is_missing(name: str) -> bool:
    """Of an operator that is not in the table: yes."""
    known = TABLE.get(name)
    return known is None or not (known["generated"] or known["cost"] in LIBRARY or "random" in known["traits"])


class Count(TorchDispatchMode):
    """Counts calls below autograd."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.models: dict[str, set[str]] = {}
        self.model = ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name()
        self.calls[name] += 1
        self.models.setdefault(name, set()).add(self.model)
        return func(*args, **(kwargs or {}))


def count_zoo() -> Count:
    counted = Count()
    for model, make in MODELS.items():
        counted.model = model
        torch.manual_seed(0)
        case = make()
        for foreach in (False, True):
            optimizer = torch.optim.AdamW(case.module.parameters(), lr=0.1, foreach=foreach)
            with counted:
                optimizer.zero_grad()
                case.loss().backward()
                nn.utils.clip_grad_norm_(case.module.parameters(), 1.0)
                optimizer.step()
        case.module.eval()
        with counted, torch.no_grad():
            case.loss()
    return counted


def core_operators() -> list[str]:
    """PyTorch's overloads with the tag, but out= variants."""
    found = []
    for name in sorted(TABLE):
        packet, _, overload = name.removeprefix("aten::").partition(".")
        if not name.startswith("aten::") or not hasattr(torch.ops.aten, packet):
            continue
        op = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
        if op is not None and torch.Tag.core in op.tags:
            found.append(name)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.core:
        names = core_operators()
        missing = [name for name in names if is_missing(name)]
        print("\n".join(f"{TABLE[name]['cost']:14} {name}" for name in missing))
        print(f"{len(missing)} of {len(names)} core operators")
        return 0
    counted = count_zoo()
    missing = {name: count for name, count in counted.calls.most_common() if is_missing(name)}
    for name, count in missing.items():
        cost = TABLE[name]["cost"] if name in TABLE else "not in the table"
        print(f"{count:8d} calls, {len(counted.models[name]):3d} models  {cost:14} {name}")
    print(f"{len(missing)} of {len(counted.calls)} operators, {sum(missing.values())} of {counted.calls.total()} calls")
    return 0


if __name__ == "__main__":
    sys.exit(main())
