"""Random programs with several results, and random things that a caller does to these: hooks, gradients with respect to
results, retained gradients, several backwards. All that is seen is noted: values to the bit, the order of calls,
classes of exceptions, versions. What docs/compile.md names under "Limits" is left out: the order of hooks where a
result is a view or gradients are differentiated again, the last bits there, and what second derivatives free.

python tests/python/helpers/hook_programs.py --programs 1000 --seed 0"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

import saker
from random_runs import tell_differences

UNARY = [torch.sin, torch.cos, torch.tanh, torch.exp, torch.sigmoid, torch.relu, torch.neg, torch.clone]
BINARY = [torch.mul, torch.add, torch.sub, torch.maximum, torch.atan2]
VIEWS: list[Callable[[torch.Tensor], Any]] = [
    lambda t: t.view(-1).view(t.shape),
    lambda t: t.transpose(0, 1),
    lambda t: t[1:],
    lambda t: t[0],
    lambda t: t.reshape(-1)[::2],
    lambda t: t.unsqueeze(0),
    lambda t: t.detach(),
]


class Function:
    """A random function of `count` tensors; each call does the same."""

    def __init__(self, rng: random.Random, count: int) -> None:
        self.steps: list[tuple[Any, ...]] = []
        values = count
        for _ in range(rng.randint(1, 9)):
            kind = rng.random()
            if kind < 0.4:
                self.steps.append(("unary", rng.choice(UNARY), rng.randrange(values)))
            elif kind < 0.75:
                self.steps.append(("binary", rng.choice(BINARY), rng.randrange(values), rng.randrange(values)))
            elif kind < 0.87:
                self.steps.append(("view", rng.choice(VIEWS), rng.randrange(values)))
            elif kind < 0.92:
                self.steps.append(("halves", rng.choice([torch.unbind, torch.chunk]), rng.randrange(values)))
                values += 1
            elif kind < 0.96:
                self.steps.append(("inplace", rng.choice(["mul_", "relu_", "add_"]), rng.randrange(count, values + 1)))
                continue
            else:
                self.steps.append(("sum", torch.sum, rng.randrange(values)))
            values += 1
        made = list(range(count, values))
        halves: set[int] = set()  # results of one node of views, which a compiled function makes one by one
        at = count
        for kind, *_ in self.steps:
            if kind == "halves":
                halves |= {at, at + 1}
            at += {"halves": 2, "inplace": 0}.get(kind, 1)
        made = [value for value in made if value not in halves]
        self.results = rng.sample(made, min(len(made), rng.randint(1, 4))) if made else [0]
        if rng.random() < 0.1:
            self.results.append(rng.randrange(count))
        if rng.random() < 0.1:
            self.results.append(self.results[0])
        self.container = rng.choice([tuple, list, lambda r: {str(i): t for i, t in enumerate(r)}])

    def __call__(self, *given: torch.Tensor) -> Any:
        values = list(given)
        for kind, op, first, *rest in self.steps:
            a = values[first % len(values)]
            if kind == "binary":
                b = values[rest[0] % len(values)]
                try:
                    shape = torch.broadcast_shapes(a.shape, b.shape)
                except RuntimeError:
                    shape = None
                values.append(op(a, b) if shape is not None else op(a.sum(), b))
            elif kind == "view":
                values.append(op(a) if a.dim() > 1 and a.shape[0] > 1 and a.is_contiguous() else a.view_as(a))
            elif kind == "halves":
                two = op(a, 2) if op is torch.chunk else op(a)
                values += [two[0], two[-1]] if a.dim() and a.shape[0] > 1 else [a, a]
            elif kind == "inplace":
                made = values[first % len(values)]
                if first % len(values) >= len(given) and not made._is_view():
                    getattr(made, op)(*([] if op == "relu_" else [1.5]))
            else:
                values.append(op(a))
        return self.container([values[i % len(values)] for i in self.results])


def flat(results: Any) -> list[torch.Tensor]:
    return list(results.values()) if isinstance(results, dict) else list(results)


def bits(value: Any, rough: bool = False) -> Any:
    if isinstance(value, torch.Tensor):
        try:
            numbers = value.detach().double().reshape(-1).tolist()
        except RuntimeError:  # one of vmap's, which a hook has kept
            return "batched"
        return (tuple(value.shape), repr([float(f"{n:.2g}") + 0.0 if rough else n for n in numbers]))
    if isinstance(value, (tuple, list)):
        return tuple(bits(each, rough) for each in value)
    return value


class Caller:
    """What a random caller does, decided before it happens: the same for both."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.count = rng.randint(1, 3)
        self.function = Function(rng, self.count)
        self.seed = seed
        self.requires = [rng.random() < 0.8 for _ in range(self.count)]
        self.leaf = [rng.random() < 0.8 for _ in range(self.count)]

    def run(self, call: Callable[..., Any]) -> list[Any]:
        rng = random.Random(self.seed + 1)
        log: list[Any] = []
        self.kept, self.rough = True, False  # has no backward freed anything? are numbers compared roughly?
        torch.manual_seed(self.seed)
        leaves = [torch.rand(2, 3).add_(0.5).requires_grad_(r) for r in self.requires]
        given = [x if leaf else x * 2 for x, leaf in zip(leaves, self.leaf, strict=True)]

        def hook(name: str, factor: float | None) -> Callable[[Any], Any]:
            def note(grad: Any) -> Any:
                log.append((name, bits(grad, self.rough)))
                return None if factor is None or grad is None else grad * factor

            return note

        for i, x in enumerate(leaves):
            if x.requires_grad and rng.random() < 0.4:
                x.register_post_accumulate_grad_hook(lambda x, i=i: log.append(("post", i, bits(x.grad, self.rough))))
            if x.requires_grad and rng.random() < 0.3:
                x.register_hook(hook(f"leaf{i}", rng.choice([None, 2.0])))
        for i, x in enumerate(given):
            if x.grad_fn is not None and rng.random() < 0.3:
                x.register_hook(hook(f"given{i}", None))
        results = flat(call(*given))
        views = self.rough = any(r._is_view() for r in results)
        log.append(("results", bits(results), [r.requires_grad for r in results], [r._version for r in results]))
        log.append([[a is b for a in results + given] for b in results])
        following = [r for r in results if r.requires_grad and r.grad_fn is not None]
        for i, r in enumerate(following):
            if rng.random() < 0.5:
                r.register_hook(hook(f"result{i}", rng.choice([None, None, -1.0])))
            if rng.random() < 0.2:
                r.retain_grad()
            if rng.random() < 0.1:
                r.register_hook(hook(f"again{i}", 3.0))
        if len(following) > 1 and rng.random() < 0.3:
            torch.autograd.graph.register_multi_grad_hook(
                following, lambda grads: log.append(("multi", bits(list(grads), self.rough))), mode="all"
            )
        if len(following) > 1 and not views and rng.random() < 0.15:
            torch.autograd.graph.register_multi_grad_hook(
                following, lambda grad: log.append(("any", bits(grad, self.rough))), mode="any"
            )
        if following and not views and rng.random() < 0.1:
            rng.choice(following).mul_(2)
        for _ in range(rng.randint(1, 3)):
            before = len(log)
            if not self.differentiate(rng, results, leaves, given, log):
                # What was done before it raised depends on when it does.
                return [*log[:before], log[-1]]
            if self.rough:
                log[before:] = sorted(log[before:], key=repr)
            shown = [t.grad if t.is_leaf or t.retains_grad else None for t in leaves + given + following]
            log.append(bits(shown, self.rough))
        log.append([r._version for r in results + leaves])
        return log

    def differentiate(self, rng: random.Random, results: Any, leaves: Any, given: Any, log: list[Any]) -> bool:
        roots = [r for r in results if r.requires_grad]
        roots = rng.sample(roots, rng.randint(1, len(roots))) if roots else []
        losses = [(r * rng.choice([1.0, 2.0])).sum() if rng.random() < 0.7 else r.sum() for r in roots]
        inputs = [t for t in leaves + given + results if t.requires_grad]
        inputs = rng.sample(inputs, rng.randint(1, len(inputs))) if inputs else []
        keep, how = rng.random() < 0.7, rng.randrange(6)
        if how in {3, 4}:
            how = how if self.kept else 5
        self.kept = self.kept and keep
        rough = self.rough
        unused, materialize = rng.random() < 0.8, rng.random() < 0.2
        try:
            if how == 0:
                torch.autograd.backward(losses, retain_graph=keep)
            elif how == 1:
                sum(losses).backward(retain_graph=keep, inputs=inputs)
            elif how == 2:
                grads = torch.autograd.grad(
                    losses, inputs, retain_graph=keep, allow_unused=unused or materialize, materialize_grads=materialize
                )
                log.append(("grads", bits(grads, self.rough)))
            elif how == 3:
                self.rough = True
                grads = torch.autograd.grad(sum(losses), inputs, create_graph=True, allow_unused=True)
                log.append(("grads", bits(grads, self.rough)))
                second = [g.sum() for g in grads if g is not None and g.requires_grad]
                if second:
                    again = torch.autograd.grad(second, inputs, allow_unused=True, retain_graph=True)
                    log.append(("again", bits(again, rough=True)))
            elif how == 4:
                batch = [torch.stack([torch.ones_like(r), torch.full_like(r, 2.0)]) for r in roots]
                grads = torch.autograd.grad(
                    roots, inputs, batch, retain_graph=keep, allow_unused=True, is_grads_batched=True
                )
                log.append(("batched", bits(grads, self.rough)))
            else:
                sum(losses).backward(retain_graph=keep)
        except Exception as error:
            log.append(type(error).__name__)
            return False
        finally:
            self.rough = rough or how == 3  # what hooks keep
        return True


def differs(seed: int, compile: Callable[..., Any] = saker.compile) -> str | None:
    """Nothing, or the first difference."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _differs(seed, compile)


def _differs(seed: int, compile: Callable[..., Any]) -> str | None:
    caller = Caller(seed)
    try:
        expected = caller.run(caller.function)
    except Exception:
        return None  # no program
    compiled = compile(caller.function.__call__)
    for number in range(3):
        found = caller.run(compiled)
        if found == expected:
            continue
        for i, (a, b) in enumerate(zip(expected, found, strict=False)):
            if a != b:
                return f"seed {seed}, call {number}, entry {i}:\n  eager {a}\n  saker {b}"
        return f"seed {seed}, call {number}: {len(expected)} entries, {len(found)} found"
    return None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--aot", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    saker.set_logs("")
    way = saker.aot_function if asked.aot else saker.compile
    failed = tell_differences(range(asked.seed, asked.seed + asked.programs), lambda seed: differs(seed, way))
    stats = saker.stats()
    print(f"{asked.programs} programs, {failed} differ; {stats['replays']} replays, {stats['fallbacks']} fallbacks")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
