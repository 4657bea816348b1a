"""Random programs over random objects, which then change in random ways: a replay never gives what was true before.

A world is a graph of objects (lists, dicts, instances, modules, globals, closures, functions) with numbers, strings and
tensors in it. A program is a list of paths through this graph and what it does with what it finds. Both are made twice
from one seed: one program is compiled, the other is not, and both see the same changes.
"""

from __future__ import annotations

import random
import types
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.hooks import RemovableHandle

import saker
from compile_corpus.alike import Different, compare

SEEDS = 100
CHANGES = 104  # of each seed


class Node:
    level = 1

    def __init__(self) -> None:
        self.kind = "node"

    def scaled(self, k: int) -> int:
        return self.level * k


class Other(Node):
    level = 7

    def scaled(self, k: int) -> int:
        return self.level + k


class Module(torch.nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = torch.nn.Parameter(torch.randn(3, generator=generator))
        self.register_buffer("shift", torch.ones(3))
        self.k = 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.weight.detach() + self.shift * self.k
        return x + 1 if self.training else x - 1


class World:
    """`rng` decides everything: the same seed makes the same world and the same changes."""

    def __init__(self, seed: int, lengths: tuple[int, ...] = (3,)) -> None:
        self.rng = random.Random(seed)
        self.lengths = lengths
        self.hooks = 10**6
        # Classes of its own, so that changes to one world are not seen in the other.
        self.node = type("Node", (Node,), {"level": 1})
        self.other = type("Other", (Other,), {})
        self.scope: dict[str, Any] = {"torch": torch, "helper": lambda v: v + 1}
        self.root = {
            "list": [self.value() for _ in range(3)],
            "dict": {k: self.value() for k in ("a", "b", "c")},
            "node": self.make_node(2),
            "module": Module(seed),
            "tree": self.container(3),
        }
        self.root["alias"] = self.root["list"] if self.rng.random() < 0.3 else [1, 2]
        self.cells = [types.CellType(self.value()) for _ in range(2)]
        for i in range(3):
            self.scope[f"g{i}"] = self.value()

    # --- values ---
    def tensor(self) -> torch.Tensor:
        kind = self.rng.randrange(8)
        made = torch.full((self.rng.choice(self.lengths),), float(self.rng.randrange(5)))
        if kind == 0:
            return made.double()
        if kind == 1:
            return made.requires_grad_()
        if kind == 2:
            return made[:1]
        if kind == 3:
            return torch.arange(6.0)[::2]
        if kind == 4:
            return torch.nn.Parameter(made)
        return made

    def value(self) -> Any:
        r = self.rng.random()
        if r < 0.35:
            return self.rng.randrange(-2, 5)
        if r < 0.45:
            return self.rng.choice([0.5, -0.0, 0.0, 2.0, 1e3])
        if r < 0.55:
            return self.rng.choice(["a", "b", "long text", ""])
        if r < 0.6:
            return self.rng.choice([True, False, None])
        if r < 0.85:
            return self.tensor()
        return self.rng.choice([slice(0, 2), range(2), (1, 2), torch.float64, len])

    def make_node(self, depth: int) -> Any:
        made = (self.node if self.rng.random() < 0.7 else self.other)()
        made.value = self.value()
        if depth:
            made.child = self.container(depth - 1)
        return made

    def container(self, depth: int) -> Any:
        kind = self.rng.randrange(7)
        items = [self.container(depth - 1) if depth and self.rng.random() < 0.5 else self.value() for _ in range(3)]
        if kind == 0:
            return dict(zip("abc", items, strict=True))
        if kind == 1:
            return tuple(items)
        if kind == 2:
            return deque(items)
        if kind == 3:
            return OrderedDict(zip("abc", items, strict=True))
        if kind == 4:
            return self.make_node(depth)
        if kind == 5:
            return {self.rng.randrange(6) for _ in range(3)}
        return items

    # --- what can be reached ---
    def reach(self) -> list[tuple[str, Any]]:
        """Paths (as Python expressions over `root`) and what is there, breadth first."""
        out: list[tuple[str, Any]] = [(f"root[{k!r}]", v) for k, v in self.root.items()]
        seen: set[int] = set()
        for path, at in out:
            if id(at) in seen or len(out) > 60:
                continue
            seen.add(id(at))
            if isinstance(at, dict):
                out += [(f"{path}[{k!r}]", v) for k, v in at.items()]
            elif isinstance(at, (list, tuple, deque)):
                out += [(f"{path}[{i}]", v) for i, v in enumerate(at)]
            elif isinstance(at, Node):
                out += [(f"{path}.{k}", v) for k, v in vars(at).items()]
        return out

    # --- the program ---
    def statement(self, number: int) -> str:
        rng = self.rng
        reachable = self.reach()
        path, at = rng.choice(reachable)
        other = rng.choice(reachable)[0]
        plain = [
            f"note({path})",
            f"note(type({path}).__name__)",
            f"note({path} is {other})",
            f"note(isinstance({path}, (int, list)))",
            f"note(g{rng.randrange(3)})",
            f"note(c{rng.randrange(2)})",
            "x = helper(x)",
            "note(root['node'].scaled(2))",
            f"note(getattr(root['node'], {rng.choice(['value', 'missing', 'level'])!r}, 'none'))",
            "x = root['module'](x)",
            f"note(root['dict'].get({rng.choice('abcd')!r}))",
            f"note({rng.choice('abcd')!r} in root['dict'])",
            "note(list(root['dict']))",
            "note(len(root['list']))",
            "note(root['list'][-1])",
            "note(default)",
        ]
        if isinstance(at, (list, tuple, deque, set)):
            plain += [f"note(len({path}))", f"note([note(v) for v in {path}])", f"note(bool({path}))"]
        if isinstance(at, (list, tuple, deque)):
            plain += [f"note(2 in {path})", f"note({path}[0])", f"note(list({path})[:2])"]
        if isinstance(at, dict):
            plain += [f"note(list({path}.items()))", f"note(sorted({path}))", f"note(len({path}))"]
        if isinstance(at, (int, float)) and not isinstance(at, bool):
            plain += [f"x = x * {path}", f"note({path} > 1)", f"x = x + 1 if {path} else x - 1"]
        if isinstance(at, torch.Tensor):
            plain += [f"x = x + {path}.sum().float()", f"note({path}.shape)", f"note({path}.requires_grad)"]
        if isinstance(at, slice):
            plain.append(f"note((x + 0)[{path}])")
        writes = [
            f"root['list'].append({rng.randrange(3)})",
            f"root['dict'][{rng.choice('abcd')!r}] = x + {number}",
            f"root['node'].value = {rng.choice(['x + 1', '3', 'root'])}",
            f"root['node'].extra{rng.randrange(2)} = len(root['list'])",
            "root['dict'].pop('d', None)",
        ]
        return rng.choice(writes) if rng.random() < 0.12 else rng.choice(plain)

    def program(self, argument: bool = False) -> Callable:
        """With `argument`, the world is one; else it is found in the closure."""
        lines = [self.statement(i) for i in range(self.rng.randrange(3, 8))]
        guarded = [
            f"    try:\n        {line}\n    except Exception as e:\n        note(type(e).__name__)" for line in lines
        ]
        body = "\n".join(guarded)
        text = (
            "def make(root, c0, c1):\n"
            f"  def program(x, {'root, ' if argument else ''}default=3):\n"
            "    seen = []\n    def note(v):\n        seen.append(v)\n        return 1\n"
            f"{body}\n    return x, seen\n"
            "  return program"
        )
        # One more level of indentation for the body.
        lines_out = []
        inside = False
        for line in text.split("\n"):
            if line.startswith("  def program"):
                inside = True
            elif line.startswith("  return program"):
                inside = False
            lines_out.append("  " + line if inside and not line.startswith("  def program") else line)
        exec("\n".join(lines_out), self.scope)
        made = self.scope["make"](self.root, None, None)
        names = made.__code__.co_freevars
        given = {"root": types.CellType(self.root), "c0": self.cells[0], "c1": self.cells[1]}
        cells = tuple(given[n] for n in names)
        self.text = text
        return types.FunctionType(made.__code__, self.scope, "program", made.__defaults__, cells)

    # --- changes ---
    def change(self, fn: Any) -> str:
        rng = self.rng
        owners = [(p, o) for p, o in self.reach() if isinstance(o, (list, dict, deque, set, Node))]
        path, at = rng.choice(owners)
        kind = rng.randrange(14)
        if kind == 0:
            rng.choice(self.cells).cell_contents = self.value()
            return "a cell"
        if kind == 1:
            self.scope[f"g{rng.randrange(3)}"] = self.value()
            return "a global"
        if kind == 2:
            rng.choice([self.node, self.other]).level = rng.randrange(4)
            return "a class attribute"
        if kind == 3:
            k = rng.randrange(3)
            self.scope["helper"] = lambda v: v * k
            return "a function"
        if kind == 4:
            fn.__defaults__ = (self.value(),)
            return "the defaults"
        if kind == 5:
            module = self.root["module"]
            what = rng.randrange(5)
            if what == 0:
                module.train(not module.training)
            elif what == 1:
                module.k = rng.randrange(4)
            elif what == 2:
                module.shift = torch.full((3,), float(rng.randrange(3)))
            elif what == 3:
                module.weight.requires_grad_(not module.weight.requires_grad)
            else:
                # Hooks are numbered through the whole process; here, through each world.
                RemovableHandle.next_id = self.hooks = self.hooks + 1
                module.register_forward_hook(lambda m, a, out: out + 1)
            return "the module"
        if kind == 6:
            node = self.root["node"]
            node.__class__ = self.other if type(node) is self.node else self.node
            return "a class of an object"
        if isinstance(at, Node):
            return path + self.change_node(at)
        if isinstance(at, dict):
            return path + self.change_dict(at)
        if isinstance(at, set):
            at.symmetric_difference_update({rng.randrange(6)})
            return path + " elements"
        return path + self.change_list(at)

    def change_node(self, at: Any) -> str:
        name = self.rng.choice(["value", "missing", "kind", "level"])
        if name in vars(at) and self.rng.random() < 0.3:
            delattr(at, name)
            return f" without {name}"
        setattr(at, name, self.value())
        return f".{name}"

    def change_dict(self, at: dict) -> str:
        what = self.rng.randrange(5)
        keys = list(at)
        inner = at is self.root
        if what == 0 and keys and not inner:
            at.pop(self.rng.choice(keys))
            return " a key less"
        if what == 1 and keys and not inner:
            key = self.rng.choice(keys)
            at[key] = at.pop(key)
            return " in another order"
        if what == 2 and isinstance(at, OrderedDict) and keys:
            at.move_to_end(keys[0])
            return " in another order"
        key = self.rng.choice("abcd") if not inner else "tree"
        at[key] = self.value() if not inner else self.container(2)
        return f"[{key!r}]"

    def change_list(self, at: Any) -> str:
        what = self.rng.randrange(6)
        if what == 0 and at:
            at.pop()
        elif what == 1:
            at.append(self.value())
        elif what == 2 and len(at) > 1:
            at[0], at[1] = at[1], at[0]
        elif what == 3 and len(at) > 1:
            at[0] = at[1]
        elif what == 4 and at:
            tensors = [v for v in at if isinstance(v, torch.Tensor) and v.is_floating_point()]
            with torch.no_grad():
                for t in tensors:
                    t.add_(1)
        elif at:
            at[self.rng.randrange(len(at))] = self.value()
        return " elements"


def outcome(fn: Callable, *args: Any) -> Any:
    try:
        return fn(*args)
    except Exception as error:
        return type(error).__name__, str(error)


def follow(seed: int, compiler: Callable, lengths: tuple[int, ...], argument: bool) -> None:
    mine, theirs = World(seed, lengths), World(seed, lengths)
    eager, program = mine.program(argument), theirs.program(argument)
    compiled = compiler(program)
    done: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(CHANGES):
            x = torch.full((lengths[step // 3 % len(lengths)],), float(step % 3))
            a = outcome(eager, x.clone(), *([mine.root] if argument else []))
            b = outcome(compiled, x.clone(), *([theirs.root] if argument else []))
            try:
                compare([a, mine.root], [b, theirs.root], "")
            except Different as difference:
                raise AssertionError(
                    f"seed {seed}, step {step}, changes {done[-4:]}: {difference}\n{mine.text}\n"
                    f"{saker._C.compiled_reports(compiled)[-1:]}"
                ) from None
            # A version limit would end the test: what was recorded is forgotten from time to time.
            if step % 8 == 7:
                saker._C.compiled_forget(compiled)
            if step % 2:
                continue
            for _ in range(2):
                done.append(mine.change(eager))
                theirs.change(program)


@pytest.mark.parametrize("part", range(4))
def test_changes_are_noticed(part: int) -> None:
    before = saker.stats()["replays"]
    for seed in range(part, SEEDS, 4):
        follow(seed, lambda fn: saker.compile(fn, backend="eager", dynamic=False), (3,), argument=False)
    assert saker.stats()["replays"] - before > 100


@pytest.mark.parametrize("part", range(2))
def test_changes_of_sizes_are_noticed(part: int) -> None:
    before = saker.stats()["replays"]
    for seed in range(part, SEEDS, 2):
        follow(seed, lambda fn: saker.compile(fn, backend="eager"), (3, 2, 4, 5), argument=True)
    assert saker.stats()["replays"] - before > 100
