"""Floats that change in recordings with symbolic sizes, and what Python computes of counters: one recording for all."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

import saker
from alone import alone
from differential import same

STEPS = 14


def counts() -> tuple[int, int]:
    told = saker.stats()
    return told["graphs"], told["replays"]


def same_bits(got: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        bits = {4: torch.int32, 8: torch.int64, 2: torch.int16, 1: torch.uint8}[expected.element_size()]
        assert torch.equal(got.detach().contiguous().view(bits), expected.detach().contiguous().view(bits))
    elif isinstance(expected, (tuple, list)):
        assert type(got) is type(expected) and len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            same_bits(one, other)
    else:
        assert type(got) is type(expected)
        assert got == expected or (got != got and expected != expected)


PROGRAMS: dict[str, Callable[[torch.Tensor, float], Any]] = {
    "times": lambda x, s: x * s,
    "reversed": lambda x, s: (s - x, s / (x + 9)),
    "alpha": lambda x, s: torch.add(x, x, alpha=s),
    "in place": lambda x, s: x.clone().mul_(s).add_(s) * 1,
    "arithmetic": lambda x, s: x * (s * 2 + 1) + math.sqrt(s + 3),
    "with the size": lambda x, s: x * (s / x.shape[0]) + (x.shape[1] - s),
    "functions": lambda x, s: x * math.exp(s) + math.sin(s) * x + math.log(s + 3),
    "a power of it": lambda x, s: x * (s + 3) ** 2 + x * (s + 3) ** -0.5,
    "it as an exponent": lambda x, s: x * 0.9**s + x * 1.5**s,
    "clamp": lambda x, s: x.clamp(min=-s, max=s + 3),
    "full": lambda x, s: x + torch.full((3,), s),
    "returned": lambda x, s: (x + 1, s, s * 3, [s - 1]),
    "compared with a tensor": lambda x, s: x > s,
    "decides": lambda x, s: x * s if s > 0.55 else x - s,
    "the larger": lambda x, s: x * max(s, 0.5) + min(s, 0.25),
    "a type": lambda x, s: x * s if isinstance(s, float) and type(s) is float else x,
    "absolute": lambda x, s: x * abs(s) + -s,
    "whole": lambda x, s: x * int(s * 10) + round(s),
    "floored": lambda x, s: x * math.floor(s * 10) + x[: math.ceil(s)].sum(),
    "shown": lambda x, s: (x * s, f"{s:.3f}"),
    "a key": lambda x, s: (x * s, {s: 1}[s]),
    "a slope": lambda x, s: nn.functional.leaky_relu(x, s),
    "dropout": lambda x, s: nn.functional.dropout(x, abs(s) / 9),
    "padding": lambda x, s: nn.functional.pad(x, (1, 1), value=s),
    "an epsilon": lambda x, s: nn.functional.layer_norm(x, (3,), eps=abs(s) + 1e-5),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_float_and_a_size(name: str) -> None:
    function = PROGRAMS[name]
    compiled = saker.compile(function)
    for step in range(STEPS):
        x, s = torch.randn(2 + step % 7, 3), 0.09 * (step + 1)
        torch.manual_seed(step)
        got = compiled(x, s)
        torch.manual_seed(step)
        same_bits(got, function(x, s))


ONE_FOR_ALL = ["times", "reversed", "alpha", "in place", "arithmetic", "with the size", "functions", "a power of it"]
ONE_FOR_ALL += ["it as an exponent", "full", "returned", "compared with a tensor", "a type", "absolute", "decides"]


@pytest.mark.parametrize("name", ONE_FOR_ALL)
def test_one_recording_for_all(name: str) -> None:
    graphs, replays = counts()
    compiled = saker.compile(PROGRAMS[name])
    for step in range(STEPS):
        compiled(torch.randn(2 + step % 7, 3), 0.09 * (step + 1))
    assert counts()[0] - graphs <= 4
    assert counts()[1] - replays >= STEPS - 4


@pytest.mark.parametrize("name", PROGRAMS)
def test_special_floats(name: str) -> None:
    function = PROGRAMS[name]
    compiled = saker.compile(function, recompile_limit=64)
    special = (1.0, 2.0, 0.3, 0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1e308, -1e308, 0.1, 800.0, -800.0)
    for repeat in range(2):
        for step, s in enumerate(special):
            x = torch.tensor([[0.0, -0.0, 1.0], [math.inf, -2.0, math.nan]]).repeat(1 + (step + repeat) % 3, 1)
            torch.manual_seed(step)
            try:
                expected = function(x, s)
            except Exception as error:
                with pytest.raises(type(error)):
                    compiled(x, s)
                continue
            torch.manual_seed(step)
            same_bits(compiled(x, s), expected)


@pytest.mark.parametrize("name", ["times", "reversed", "arithmetic", "with the size", "alpha", "decides", "floored"])
def test_gradients(name: str) -> None:
    function = PROGRAMS[name]
    graphs, replays = counts()
    instead = sum(saker.stats()["instead"].values())
    compiled = saker.compile(function)
    for step in range(STEPS):
        x = torch.randn(2 + step % 7, 3, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        s = 0.09 * (step + 1)
        results = []
        for run, given in ((compiled, x), (function, y)):
            out = run(given, s)
            out = out if isinstance(out, tuple) else (out,)
            sum((each * each).sum() for each in out).backward()
            results.append([each.detach() for each in out])
        same_bits(*results)
        same_bits(x.grad, y.grad)
    assert counts()[0] - graphs <= 4
    assert counts()[1] - replays >= STEPS - 5
    if name not in ("alpha", "floored"):  # autograd follows numbers that are no operands
        assert sum(saker.stats()["instead"].values()) == instead  # gradients are compiled


class Slotted:
    __slots__ = ("rate",)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.rate, self.seen, self.table, self.row = 0.5, 0.0, {"rate": 0.5}, [0.5]
        self.slotted = Slotted()
        self.slotted.rate = 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = self.seen * 0.5 + self.rate
        total = self.rate + self.table["rate"] + self.row[0] + self.slotted.rate
        return self.linear(x) * total + self.seen

    def put(self, value: float) -> None:
        self.rate, self.table["rate"], self.row[0], self.slotted.rate = value, value * 2, value * 3, value * 5


@pytest.mark.parametrize("grad", [False, True])
@alone
def test_floats_of_objects(grad: bool) -> None:
    torch.manual_seed(0)
    given, expected = Scaled(), Scaled()
    expected.load_state_dict(given.state_dict())
    graphs, replays = counts()
    compiled = saker.compile(given)
    with torch.set_grad_enabled(grad):
        for step in range(STEPS):
            x = torch.randn(2 + step % 7, 3)
            for each in (given, expected):
                each.put(0.07 * (step + 1))
            got, wanted = compiled(x), expected(x)
            same_bits(got, wanted)
            assert given.seen == expected.seen and type(given.seen) is float
            assert given.rate == expected.rate and type(given.rate) is float
            assert (given.table, given.row, given.slotted.rate) == (
                expected.table,
                expected.row,
                expected.slotted.rate,
            )
            if grad:
                given.zero_grad()
                expected.zero_grad()
                got.sum().backward()
                wanted.sum().backward()
                same_bits([p.grad for p in given.parameters()], [p.grad for p in expected.parameters()])
    assert counts()[0] - graphs <= 5
    assert counts()[1] - replays >= STEPS - 5


def test_in_containers_of_arguments() -> None:
    def function(batch: dict[str, Any], rates: list[float]) -> torch.Tensor:
        return batch["x"] * batch["scale"] + rates[0] * rates[1]

    graphs, replays = counts()
    compiled = saker.compile(function)
    for step in range(STEPS):
        batch = {"x": torch.randn(2 + step % 7, 3), "scale": 0.1 * step}
        rates = [0.3 * step, 1.0 / (step + 1)]
        same_bits(compiled(batch, rates), function(batch, rates))
        assert type(batch["scale"]) is float and type(rates[0]) is float
    assert counts()[0] - graphs <= 4
    assert counts()[1] - replays >= STEPS - 4


def test_the_same_float_in_two_places() -> None:
    def function(x: torch.Tensor, s: float, t: float) -> torch.Tensor:
        return x * s - t if s != t else x * s

    compiled = saker.compile(function, recompile_limit=32)
    shared = 0.75
    pairs = [(0.5, 0.5), (0.25, 0.5), (shared, shared), (shared, 0.1), (0.1, shared), (0.3, 0.3), (0.1, 0.2)]
    for repeat in range(3):
        for step, (s, t) in enumerate(pairs):
            x = torch.randn(2 + (step + repeat) % 5, 3)
            same_bits(compiled(x, s, t), function(x, s, t))


# --- what Python computes of a counter ---


class OwnAdam:
    """An optimizer as users write it: the steps are counted in an int, and the bias is corrected in Python."""

    def __init__(
        self, parameters: list[torch.Tensor], lr: float = 0.1, betas: tuple[float, float] = (0.9, 0.999)
    ) -> None:
        self.parameters, self.lr, self.betas = parameters, lr, betas
        self.step_count = 0
        self.means = [torch.zeros_like(each) for each in parameters]
        self.squares = [torch.zeros_like(each) for each in parameters]

    def step(self, gradients: list[torch.Tensor]) -> None:
        self.step_count += 1
        first, second = self.betas
        correction = 1 - first**self.step_count
        size = self.lr * math.sqrt(1 - second**self.step_count) / correction
        for parameter, gradient, mean, square in zip(self.parameters, gradients, self.means, self.squares, strict=True):
            mean.mul_(first).add_(gradient, alpha=1 - first)
            square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
            parameter.addcdiv_(mean, square.sqrt().add_(1e-8), value=-size)


class Own(torch.optim.Optimizer):
    """The same as a torch.optim.Optimizer, with the count in the state of each parameter."""

    def __init__(self, parameters: Any, lr: float = 0.1, beta: float = 0.9) -> None:
        super().__init__(parameters, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["step"], state["mean"], state["product"] = 0, torch.zeros_like(parameter), 1.0
                state["step"] += 1
                state["product"] *= 0.9 + 1 / (10 + state["step"])
                state["mean"].lerp_(parameter.grad, 1 - group["beta"])
                correction = (1 - group["beta"] ** state["step"]) * (2 - state["product"])
                parameter.sub_(state["mean"] / correction, alpha=group["lr"])


@pytest.mark.parametrize("falls", [False, True])
@alone
def test_own_optimizer(falls: bool) -> None:
    torch.manual_seed(0)
    given = OwnAdam([torch.randn(3), torch.randn(2, 2)])
    expected = OwnAdam([each.clone() for each in given.parameters])
    graphs, replays = counts()
    compiled = saker.compile(given.step)
    for step in range(2 * STEPS):
        gradients = [torch.randn(3), torch.randn(2, 2)]
        if falls:
            given.lr = expected.lr = 0.1 * 0.9**step
        compiled(gradients)
        expected.step(gradients)
        same_bits(
            [given.parameters, given.means, given.squares], [expected.parameters, expected.means, expected.squares]
        )
        assert given.step_count == expected.step_count and type(given.step_count) is int
        assert given.lr == expected.lr and type(given.lr) is float
    assert counts()[0] - graphs <= 4
    assert counts()[1] - replays >= 2 * STEPS - 5


@pytest.mark.parametrize("scheduler", ["none", "falls", "cosine"])
@alone
def test_own_optimizer_of_torch(scheduler: str) -> None:
    def made() -> tuple[nn.Module, torch.optim.Optimizer, Callable[[], None]]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = Own(model.parameters())
        if scheduler == "none":
            return model, optimizer, lambda: None
        if scheduler == "falls":
            return model, optimizer, lr_scheduler.ExponentialLR(optimizer, 0.9).step
        return model, optimizer, lr_scheduler.CosineAnnealingLR(optimizer, 20).step

    (given, mine, schedule), (expected, its, other) = made(), made()
    graphs, replays = counts()

    @saker.compile
    def step() -> None:
        mine.step()

    for _ in range(2 * STEPS):
        x = torch.randn(3, 4)
        for model in (given, expected):
            model.zero_grad()
            model(x).pow(2).sum().backward()
        step()
        its.step()
        schedule()
        other()
        same_bits(list(given.parameters()), list(expected.parameters()))
        assert mine.state_dict()["param_groups"] == its.state_dict()["param_groups"]
        for one, another in zip(mine.state.values(), its.state.values(), strict=True):
            assert one["step"] == another["step"] and type(one["step"]) is int
            assert one["product"] == another["product"] and type(one["product"]) is float
    assert counts()[0] - graphs <= 5
    assert counts()[1] - replays >= 2 * STEPS - 7


COUNTING: dict[str, Callable[[int], float]] = {
    "a power": lambda n: 0.9**n,
    "a growing power": lambda n: 1.01**n,
    "of a whole number": lambda n: 3.0**-n,
    "a root": lambda n: n**0.5 + math.sqrt(n),
    "an inverse root": lambda n: n**-0.5,
    "a share": lambda n: 1 / n + n / 7,
    "a logarithm": lambda n: math.log(n),
    "an exponential": lambda n: math.exp(-n / 3) + math.exp(n),
    "a cosine": lambda n: 0.5 * (1 + math.cos(math.pi * n / 20)),
    "a warm-up": lambda n: min(1.0, n / 8) * max(0.1, 1 - n / 30),
    "a remainder": lambda n: float(n % 5) + n // 3,
}


class Counted(nn.Module):
    def __init__(self, of: Callable[[int], float]) -> None:
        super().__init__()
        self.of, self.step = of, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step += 1
        return x * self.of(self.step)


@pytest.mark.parametrize("start", [0, 700])
@pytest.mark.parametrize("name", COUNTING)
@alone
def test_arithmetic_of_a_counter(name: str, start: int) -> None:
    given, expected = Counted(COUNTING[name]), Counted(COUNTING[name])
    given.step = expected.step = start
    compiled = saker.compile(given)
    for _ in range(3 * STEPS):
        x = torch.randn(3)
        try:
            wanted = expected(x)
        except OverflowError:
            with pytest.raises(OverflowError):
                compiled(x)
            assert given.step == expected.step
            continue
        same_bits(compiled(x), wanted)
        assert given.step == expected.step and type(given.step) is int


@pytest.mark.parametrize("name", ["a power", "a growing power", "a root", "a share", "a logarithm", "a cosine"])
@alone
def test_arithmetic_of_a_counter_is_replayed(name: str) -> None:
    graphs, replays = counts()
    model = Counted(COUNTING[name])
    compiled = saker.compile(model)
    for _ in range(3 * STEPS):
        compiled(torch.randn(3))
    assert counts()[0] - graphs <= 4
    assert counts()[1] - replays >= 3 * STEPS - 4


def test_a_power_of_a_counter_that_overflows() -> None:
    class Model(nn.Module):
        step = 1000

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.step += 5
            return x * 2.0**self.step

    given, expected = Model(), Model()
    compiled = saker.compile(given)
    for _ in range(10):
        x = torch.randn(3, dtype=torch.float64)
        try:
            wanted = expected(x)
        except OverflowError:
            with pytest.raises(OverflowError, match="Numerical result out of range"):
                compiled(x)
        else:
            same(compiled(x), wanted)
        assert given.step == expected.step


HELD: dict[str, Callable[[], Any]] = {
    "deque": lambda: collections.deque([0.1, 0.2, 0.3], maxlen=3),
    "list": lambda: [0.1, 0.2, 0.3],
    "dict": lambda: {0: 0.1, 1: 0.2, 2: 0.3},
    "default dict": lambda: collections.defaultdict(float, {0: 0.1, 1: 0.2, 2: 0.3}),
    "ordered dict": lambda: collections.OrderedDict({0: 0.1, 1: 0.2, 2: 0.3}),
}
TAKEN: dict[str, Callable[[Any], Any]] = {
    "sum": lambda items: sum(items),
    "least": lambda items: min(items),
    "greatest": lambda items: max(items),
    "sorted": lambda items: sorted(items)[1],
    "sum of a generator": lambda items: sum(each * 2 for each in items),
    "greatest of a generator": lambda items: max(each for each in items),
    "sorted generator": lambda items: sorted(each for each in items)[0],
    "map": lambda items: sum(map(abs, items)),
    "exact sum": lambda items: math.fsum(items),
    "zip": lambda items: sum(first * second for first, second in zip(items, items, strict=True)),
    "list": lambda items: list(items)[0],
    "any of a generator": lambda items: 2.0 if any(each for each in items) else 3.0,
    "all of a generator": lambda items: 2.0 if all(each for each in items) else 3.0,
    "loop": lambda items: [each for each in items][0],
}


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("taken", TAKEN)
@pytest.mark.parametrize("held", HELD)
def test_floats_that_functions_of_c_take_out_of_containers(held: str, taken: str, inside: bool) -> None:
    """They compute with them out of sight: such floats are no inputs of a recording."""

    class Holder:
        def __init__(self) -> None:
            self.items = HELD[held]()

        def change(self) -> None:
            if isinstance(self.items, collections.deque):
                self.items.append(self.items[0] + 1.0)
            else:
                self.items[0] = self.items[0] + 0.5

    def f(holder: Holder, x: torch.Tensor) -> torch.Tensor:
        if inside:
            holder.change()
        items = holder.items.values() if isinstance(holder.items, dict) else holder.items
        return x * TAKEN[taken](items)

    compiled, mine, theirs = saker.compile(f), Holder(), Holder()
    for call in range(10):
        if call == 6 and held == "list":
            for holder in (mine, theirs):
                holder.items[:] = [-0.5, 0.0, 0.0]
        if not inside:
            mine.change()
            theirs.change()
        same(compiled(mine, torch.ones(2)), f(theirs, torch.ones(2)))
        assert mine.items == theirs.items
