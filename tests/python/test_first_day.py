"""A user's first day: programs as people write them, among them wrong ones, each compared with eager mode: results,
errors with their lines, what is printed and warned, and what is left behind."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import io
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import saker

Wrap = Callable[..., Any]
SESSIONS: dict[str, Callable[[Wrap], list[Any]]] = {}


def session(program: Callable[[Wrap], list[Any]]) -> Callable[[Wrap], list[Any]]:
    SESSIONS[program.__name__] = program
    return program


def seen(value: Any) -> Any:
    """All that can be compared of a result, as text and numbers."""
    if isinstance(value, torch.Tensor):
        version = None if value.is_inference() else value._version
        told = (tuple(value.shape), value.stride(), str(value.dtype), value.requires_grad, version)
        return type(value).__name__, *told, value.detach().tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, [seen(getattr(value, each.name)) for each in dataclasses.fields(value)]
    if isinstance(value, dict):
        return type(value).__name__, [(key, seen(each)) for key, each in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [seen(each) for each in value]
    return value if isinstance(value, (int, float, str, bool, type(None))) else type(value).__name__


def outcome(function: Callable, *args: Any, **keywords: Any) -> Any:
    """What comes of a call: the result or the error with the program's frames, what is printed, what is warned."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            came: Any = seen(function(*args, **keywords))
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            ours = [(each.name, each.lineno) for each in frames if each.filename == __file__ and each.name != "outcome"]
            came = (type(error).__name__, str(error), ours, repr(error.__cause__), repr(error.__context__))
    return came, printed.getvalue(), [str(each.message) for each in warned]


ONES = torch.ones(3)


# --- errors ---


@session
def raises_for_some_arguments(wrap: Wrap) -> list[Any]:
    def scaled(x: torch.Tensor, count: int) -> torch.Tensor:
        y = x + 1
        if count > 2:
            raise ValueError(f"too many: {count}")
        return y * count

    compiled = wrap(scaled)
    return [outcome(compiled, ONES, count) for count in (1, 2, 3, 1, 3, 2, 5, 5, 1)]


@session
def an_operator_raises(wrap: Wrap) -> list[Any]:
    compiled = wrap(lambda a, b: (a * 2) @ b)
    good, bad = torch.ones(3, 2), torch.ones(2, 2)
    return [outcome(compiled, torch.ones(2, 3), *rest) for rest in ([good], [good], [bad], [bad], ["no"], [], [good])]


@session
def one_error_leads_to_another(wrap: Wrap) -> list[Any]:
    def program(x: torch.Tensor, fails: bool) -> torch.Tensor:
        try:
            if fails:
                [1, 2][int(x.numel()) + 3]
            return x + 1
        except IndexError as error:
            raise KeyError("k") from error

    compiled = wrap(program)
    return [outcome(compiled, ONES, fails) for fails in (False, False, True, True, False)]


@session
def catches_and_goes_on(wrap: Wrap) -> list[Any]:
    def program(x: torch.Tensor, table: dict[str, float]) -> torch.Tensor:
        try:
            return x * table["k"]
        except KeyError:
            return x - 1
        finally:
            print("done")

    compiled = wrap(program)
    return [outcome(compiled, ONES, table) for table in ({"k": 2}, {"k": 2}, {}, {}, {"k": 3.5}, {"k": 4.5})]


@session
def wrong_arguments(wrap: Wrap) -> list[Any]:
    compiled = wrap(lambda x, y=2: x * y + 1)
    given = [ONES, 1, 2.5, "a", None, [1], (ONES,), {"a": 1}, object, True, 3j, ONES.int(), ONES.bool(), ONES]
    odd = [outcome(compiled, ONES, z=1), outcome(compiled, ONES, ONES, ONES), outcome(compiled, y=ONES, x=ONES)]
    return [outcome(compiled, each) for each in given] + odd


@session
def never_ends(wrap: Wrap) -> list[Any]:
    def deeper(x: torch.Tensor) -> torch.Tensor:
        return compiled(x + 1)

    compiled = wrap(deeper)
    return [outcome(compiled, ONES)[0][:2]]


@session
def interrupted(wrap: Wrap) -> list[Any]:
    def program(x: torch.Tensor, how: str) -> torch.Tensor:
        if how == "stop":
            os.kill(os.getpid(), signal.SIGINT)
        for _ in range(50):
            x = x.sin()
        return x

    compiled, out = wrap(program), []
    for how in ("stop", "go", "go", "stop", "go"):
        try:
            out.append(seen(compiled(ONES, how)))
        except KeyboardInterrupt:
            out.append("interrupted")
    return out


# --- kinds of functions ---


@session
def generators(wrap: Wrap) -> list[Any]:
    def parts(x: torch.Tensor) -> Iterator[torch.Tensor]:
        for i in range(3):
            yield x + i

    compiled, total = wrap(parts), wrap(lambda xs: sum(x * 2 for x in xs))
    given = [outcome(lambda n=n: total(ONES * i for i in range(n))) for n in (3, 3, 4, 0)]
    return [outcome(lambda: list(compiled(ONES))) for _ in range(3)] + given


@session
def coroutines(wrap: Wrap) -> list[Any]:
    async def later(x: torch.Tensor) -> torch.Tensor:
        await asyncio.sleep(0)
        return x * 2

    compiled, plain = wrap(later), wrap(lambda x: x * 2 + 1)

    async def one(i: int) -> torch.Tensor:
        await asyncio.sleep(0)
        return plain(ONES * i)

    async def all_of_them() -> list[torch.Tensor]:
        return list(await asyncio.gather(*[one(i) for i in range(4)]))

    return [outcome(lambda: asyncio.run(compiled(ONES))) for _ in range(2)] + [
        outcome(lambda: asyncio.run(all_of_them())) for _ in range(2)
    ]


@session
def partials_and_caches(wrap: Wrap) -> list[Any]:
    def scaled(x: torch.Tensor, y: torch.Tensor, k: float = 1, *, s: float = 2) -> torch.Tensor:
        return x * k + y * s

    @functools.lru_cache(None)
    def table(count: int) -> torch.Tensor:
        return torch.arange(count).float()

    partial = wrap(functools.partial(scaled, ONES, s=3))
    cached = wrap(lambda x: x + table(x.shape[0]))
    out = [outcome(partial, ONES), outcome(partial, ONES, k=2), outcome(partial, ONES, k=2, s=9), outcome(partial)]
    out += [outcome(cached, torch.ones(size)) for size in (3, 3, 4, 4, 3)]
    table.cache_clear()
    return [*out, outcome(cached, ONES), table.cache_info().currsize]


@session
def methods(wrap: Wrap) -> list[Any]:
    class Scaled:
        factor = 3

        @staticmethod
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @classmethod
        def of_class(cls, x: torch.Tensor) -> torch.Tensor:
            return x * cls.factor

        def of_object(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x - self.factor

    given, out = Scaled(), []
    for function in (Scaled.twice, Scaled.of_class, given.of_object, given):
        compiled = wrap(function)
        out += [outcome(compiled, ONES), outcome(compiled, ONES)]
    compiled = wrap(given.of_object)
    Scaled.factor = 4
    out += [outcome(compiled, ONES), outcome(compiled, ONES)]
    given.factor = 9
    return [*out, outcome(compiled, ONES), outcome(compiled, ONES)]


@session
def a_notebook(wrap: Wrap) -> list[Any]:
    """Cells of code that define, call and define again."""
    names: dict[str, Any] = {"torch": torch, "wrap": wrap, "x": torch.ones(2, 3)}
    out = []
    for cell in (
        "model = torch.nn.Linear(3, 3)\nfor p in model.parameters(): torch.nn.init.constant_(p, 0.5)",
        "fast = wrap(model)\nscale = 3\ndef head(x): return fast(x) + scale",
        "compiled = wrap(head)\ny = compiled(x)",
        "scale = 4\ny = compiled(x)",
        "def head(x): return fast(x) - 1",
        "y = compiled(x)",
        "compiled = wrap(head)\ny = compiled(x)",
        "y = compiled(x).nothing",
    ):
        out.append(outcome(exec, compile(cell, "<cell>", "exec"), names)[0])
        out.append(seen(names.get("y")))
    return out


# --- what goes in and comes out ---


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    scale: float = 1.0
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Result:
    y: torch.Tensor
    count: int


class Pair(NamedTuple):
    a: torch.Tensor
    b: int


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@session
def classes_of_the_user(wrap: Wrap) -> list[Any]:
    def step(batch: Batch) -> Result:
        batch.tags.append("seen")
        return Result(batch.x * batch.scale, len(batch.tags))

    compiled, pairs, out = wrap(step), wrap(lambda p: Pair(p.a + p.b, p.b + 1)), []
    colors = wrap(lambda x, c: x + c.value if c is Color.RED else x - c.value)
    for scale in (1.0, 2.0, 3.0, 4.0):
        batch = Batch(ONES, scale)
        out += [outcome(compiled, batch), seen(batch), outcome(pairs, Pair(ONES, int(scale)))]
        out.append(outcome(colors, ONES, Color.RED if scale < 2.5 else Color.BLUE))
    return out


@session
def unusual_results(wrap: Wrap) -> list[Any]:
    functions: list[Callable] = [
        lambda x: None,
        lambda x: [x, [x, {"a": x}]],
        lambda x: {"k": x, "n": None},
        lambda x: x.shape,
        lambda x: (x + 1, x.device, x.stride()),
        lambda x: iter([x]),
        lambda x: collections.OrderedDict(a=x),
        lambda x: collections.defaultdict(list, a=[x]),
        lambda x: slice(1, 2),
        lambda x: (x.sum().item(), x.tolist(), len(x), bool(x[0])),
    ]
    compiled = [wrap(each) for each in functions]
    return [outcome(each, ONES * i) for each in compiled for i in (1, 2, 3)]


@session
def the_same_objects(wrap: Wrap) -> list[Any]:
    def program(x: torch.Tensor, found: list) -> tuple:
        y = x + 1
        found.append(y)
        return y, y, x, found

    compiled, out = wrap(program), []
    for _ in range(3):
        found: list = []
        x = torch.ones(2)
        a, b, c, d = compiled(x, found)
        out.append([a is b, c is x, d is found, found[0] is a])
    return out


@session
def writes_to_arguments(wrap: Wrap) -> list[Any]:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple:
        x.add_(1)
        y[0] = 5
        return x.view(-1), y

    compiled, out = wrap(program), []
    for _ in range(3):
        a, b = torch.zeros(2, 2), torch.zeros(3)
        out += [outcome(compiled, a, b), seen([a, b])]
    for start in (0, 0, 1, 1, 2):
        z = torch.zeros(4)
        out += [outcome(compiled, z, z[start:] if start else z), seen(z)]
    return out


@session
def printed_and_warned(wrap: Wrap) -> list[Any]:
    def program(x: torch.Tensor) -> torch.Tensor:
        print("shape", x.shape)
        warnings.warn("careful", stacklevel=1)
        return x * 2

    compiled = wrap(program)
    return [outcome(compiled, ONES) for _ in range(3)]


# --- models ---


def linear(rows: int = 3, columns: int = 3) -> nn.Linear:
    made = nn.Linear(rows, columns)
    with torch.no_grad():
        made.weight.copy_(torch.arange(rows * columns).view(columns, rows) / 10)
        made.bias.fill_(0.25)
    return made


class OwnCall(nn.Linear):
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return super().__call__(*args, **keywords) + 100


class OwnAttributes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = linear()

    def __getattr__(self, name: str) -> Any:
        return 7 if name == "magic" else super().__getattr__(name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * self.magic


@session
def modules_with_ways_of_their_own(wrap: Wrap) -> list[Any]:
    torch.manual_seed(0)
    called, asked = wrap(OwnCall(3, 3)), wrap(OwnAttributes())
    out = [outcome(each, torch.ones(2, 3)) for each in (called, asked) for _ in range(3)]
    return [*out, asked.magic, outcome(lambda: asked.nothing)[0][0]]


@session
def surgery(wrap: Wrap) -> list[Any]:
    model = nn.Sequential(linear(), nn.ReLU(), linear())
    compiled, x, out = wrap(model), torch.ones(2, 3), []

    def change(what: Callable[[], Any], given: torch.Tensor = x) -> None:
        what()
        out.extend([outcome(compiled, given), outcome(compiled, given)])

    change(lambda: None)
    change(lambda: model.__setitem__(1, nn.Tanh()))
    change(lambda: model.append(nn.Sigmoid()))
    change(lambda: model[0].weight.data.mul_(2))
    change(lambda: setattr(model[0], "weight", nn.Parameter(torch.ones(3, 3))))
    change(lambda: model.__delitem__(3))
    change(lambda: setattr(model[0], "bias", None))
    change(model.eval)
    change(model.double)  # and the input is not
    change(lambda: None, x.double())
    change(lambda: model.to(torch.bfloat16), x.bfloat16())
    change(model.float)
    change(lambda: model.requires_grad_(False))
    return out


@session
def hooks_come_and_go(wrap: Wrap) -> list[Any]:
    model = nn.Sequential(linear(), nn.ReLU(), linear())
    compiled, x, out, log = wrap(model), torch.ones(2, 3), [], []

    def calls() -> None:
        for _ in range(3):
            model.zero_grad()
            compiled(x).sum().backward()
            out.append(seen([each.grad.tolist() for each in model.parameters()]))

    calls()
    for register in (
        lambda: model[0].register_forward_hook(lambda module, args, result: (log.append("forward"), result * 2)[1]),
        lambda: model.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
        lambda: model[2].register_full_backward_hook(lambda *_: log.append("backward")),
        lambda: model[0].weight.register_hook(lambda gradient: gradient * 3),
    ):
        handle = register()
        calls()
        handle.remove()
    calls()
    return [*out, log]


@session
def weights_that_are_tied(wrap: Wrap) -> list[Any]:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
            nn.init.constant_(self.embedding.weight, 0.5)
            self.head.weight = self.embedding.weight

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.embedding(tokens))

    model, out = Tied(), []
    compiled = wrap(model)
    for step in range(6):
        if step == 3:
            model.head.weight = nn.Parameter(model.embedding.weight.detach().clone())
        model.zero_grad()
        result = compiled(torch.arange(3))
        result.sum().backward()
        out.append([seen(result), [each.grad.tolist() for each in model.parameters()]])
    return out


@session
def saved_and_copied(wrap: Wrap) -> list[Any]:
    compiled, x = wrap(linear()), torch.ones(2, 3)
    out = [outcome(compiled, x), outcome(compiled, x)]
    file = io.BytesIO()
    torch.save(compiled, file)
    file.seek(0)
    for other in (torch.load(file, weights_only=False), copy.deepcopy(compiled)):
        out += [outcome(other, x), outcome(other, x)]
        other.weight.data.zero_()
        out += [outcome(other, x), outcome(compiled, x)]
    return out


@session
def loads_a_state(wrap: Wrap) -> list[Any]:
    model, x = linear(), torch.ones(2, 3)
    compiled = wrap(model)
    out = [outcome(compiled, x), outcome(compiled, x)]
    for assign in (False, True):
        model.load_state_dict({name: each * 3 for name, each in model.state_dict().items()}, assign=assign)
        out += [outcome(compiled, x), outcome(compiled, x)]
    return out


@session
def a_decorator_in_a_class(wrap: Wrap) -> list[Any]:
    class Model(nn.Module):
        def __init__(self, fill: float) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((3,), fill))

        @wrap
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight

        @wrap
        def shifted(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.weight

    models = [Model(1.0), Model(5.0)]
    return [outcome(call, ONES) for _ in range(3) for model in models for call in (model, model.shifted)]


@session
def a_child_by_fork(wrap: Wrap) -> list[Any]:
    compiled = wrap(lambda x: x.sin() * 2)
    out = [outcome(compiled, ONES), outcome(compiled, ONES)]
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writes, repr([seen(compiled(ONES)), seen(compiled(torch.ones(4)))]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return [*out, os.read(reads, 10000)]


@session
def a_training_loop(wrap: Wrap) -> list[Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))
    compiled, optimizer, out = wrap(model), torch.optim.AdamW(model.parameters(), 1e-2), []
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for _ in range(8):
        optimizer.zero_grad()
        loss = compiled(torch.randn(4, 3)).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        out.append(loss.item())
    model.eval()
    return [*out, outcome(compiled, torch.ones(2, 3)), seen(list(model.state_dict().values()))]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    expected = SESSIONS[name](lambda function: function)
    saker.reset()
    found = SESSIONS[name](saker.compile)
    assert len(found) == len(expected)
    for i, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        assert repr(mine) == repr(theirs), i
