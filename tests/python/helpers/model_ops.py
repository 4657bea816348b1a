"""Inference against eager mode over whole models: forward, backward and optimizer steps of small models with random
weights, every operator call judged.

    python tests/python/helpers/model_ops.py                   # all models
    python tests/python/helpers/model_ops.py --list-missing    # operators without an entry, by frequency
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections.abc import Callable

import torch
from torch import nn

from judge import Judge, report, totals
from zoo import MODELS

OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=False),
    "sgd foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=True),
    "sgd fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False),
    "adamw foreach": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
}


def run_model(judge: Judge, name: str) -> list[str]:
    """Trains two steps with each optimizer (large models: two of them), then runs in eval mode; the failures."""
    judge.scope = set()
    judge.scope_failures = []
    torch.manual_seed(0)
    case = MODELS[name]()
    for optimizer_name, make in OPTIMIZERS.items():
        if name != "mlp" and optimizer_name not in ("sgd", "adamw foreach"):
            continue
        judge.origin = f"{name}, {optimizer_name}"
        optimizer = make(list(case.module.parameters()))
        with judge:
            for _ in range(2):
                optimizer.zero_grad()
                case.loss().backward()
                nn.utils.clip_grad_norm_(case.module.parameters(), 1.0)
                optimizer.step()
    judge.origin = f"{name}, eval"
    case.module.eval()
    with judge:
        case.loss()
        with torch.no_grad():
            case.loss()
    case.module.train()
    return list(dict.fromkeys(judge.scope_failures))


def guard_report(judge: Judge) -> str:
    lines = []
    for name, guards in sorted(judge.guards.items()):
        lines += [f"{count:8d}  {name}: {guard}" for guard, count in guards.most_common(3)]
    total = sum(guards.total() for guards in judge.guards.values())
    return "\n".join([*lines, f"{judge.symbolic_cases} different calls with symbols, {total} guards"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="run models whose name matches this regular expression")
    parser.add_argument("--aten", help="judge only operators whose name matches this regular expression")
    parser.add_argument("--examples", type=int, default=1, help="examples of each kind of mismatch")
    parser.add_argument("--list-missing", action="store_true", help="list operators that were called and have no entry")
    parser.add_argument("--symbolic", action="store_true", help="infer with symbols for batch and length too")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    judge = Judge(only=options.aten, symbolic=options.symbolic)
    start = time.perf_counter()
    for name in MODELS:
        if options.models is None or re.search(options.models, name):
            run_model(judge, name)
            missing = sorted(name for name in judge.scope if not judge.has_entry(name))
            print(f"{name}: {len(judge.scope)} operators, {len(missing)} without an entry")
    text = report(judge.findings, options.examples)
    if text:
        print(text)
    if options.list_missing:
        print("\n".join(f"{count:8d}  {name}" for name, count in judge.missing()))
    if options.symbolic:
        print(guard_report(judge))
    print(f"{sum(judge.seen.values())} calls of {len(judge.seen)} operators, {len(judge.missing())} without an entry")
    print(f"{totals(judge.findings)}; {time.perf_counter() - start:.0f} s")
    return 1 if any(f.failures for f in judge.findings.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
