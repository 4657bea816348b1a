"""Control flow: eager mode's Python loops and branches, Saker, torch.compile (Inductor). Wait for the first result, and
a later call, forward and with a backward: one after all that is compiled in calls (a backward for the gradients that
are asked for, say).

    --no-torch   leaves torch.compile out

At the end the memory that flex_attention takes at its peak, for sequences of several lengths: what the allocator of
PyTorch has given and not got back.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import saker


def python_scan(combine: Callable, carry: Tensor, xs: Tensor) -> tuple[Tensor, Tensor]:
    rows = []
    for x in xs:
        carry, row = combine(carry, x)
        rows.append(row)
    return carry, torch.stack(rows)


def python_while(goes_on: Callable, body: Callable, values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    while goes_on(*values):
        values = body(*values)
    return values


def python_cond(pred: Tensor, left: Callable, right: Callable, operands: tuple[Tensor, ...]) -> Tensor:
    return left(*operands) if pred else right(*operands)


def python_associative(combine: Callable, xs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    state, rows = tuple(x[0] for x in xs), []
    rows.append(state)
    for i in range(1, len(xs[0])):
        state = combine(state, tuple(x[i] for x in xs))
        rows.append(state)
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


PYTHON = SimpleNamespace(
    scan=python_scan,
    while_loop=python_while,
    cond=python_cond,
    associative=python_associative,
    region=lambda function: function,
)
OPERATORS = SimpleNamespace(
    scan=scan,
    while_loop=while_loop,
    cond=torch.cond,
    associative=lambda combine, xs: associative_scan(combine, xs, 0, combine_mode="generic"),
    region=torch.compiler.nested_compile_region,
)


def rnn(o: SimpleNamespace) -> tuple[Callable, tuple[Tensor, ...]]:
    """512 steps of a recurrent network of 128 numbers, for 8 sequences."""

    def run(xs: Tensor, w: Tensor, u: Tensor) -> Tensor:
        def step(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            new = torch.tanh(x @ w + h @ u)
            return new, new.clone()

        return o.scan(step, torch.zeros(8, 128), xs)[1]

    return run, (torch.randn(512, 8, 128), torch.randn(128, 128) / 12, torch.randn(128, 128) / 12)


def newton(o: SimpleNamespace) -> tuple[Callable, tuple[Tensor, ...]]:
    def run(x: Tensor) -> Tensor:
        def better(value: Tensor, change: Tensor) -> tuple[Tensor, Tensor]:
            new = value - (value * value - x) / (2 * value)
            return new, (new - value).abs().max()

        return o.while_loop(lambda value, change: change > 1e-5, better, (x + 1, torch.tensor(1.0)))[0]

    return run, (torch.rand(4096) * 50 + 0.5,)


def recurrence(o: SimpleNamespace) -> tuple[Callable, tuple[Tensor, ...]]:
    """x[t] = a[t] * x[t-1] + b[t], 4,096 steps of 16 numbers."""

    def combine(left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return left[0] * right[0], left[1] * right[0] + right[1]

    def run(a: Tensor, b: Tensor) -> Tensor:
        return o.associative(combine, (a, b))[1]

    return run, (torch.rand(4096, 16), torch.randn(4096, 16))


class Layers(nn.Module):
    """Twelve layers, each of which chooses between two."""

    def __init__(self, o: SimpleNamespace) -> None:
        super().__init__()
        self.o = o
        self.layers = nn.ModuleList(nn.ModuleList([nn.Linear(128, 128), nn.Linear(128, 128)]) for _ in range(12))

    def forward(self, x: Tensor) -> Tensor:
        for left, right in self.layers:
            x = self.o.cond(
                x.mean() > 0, lambda v, left=left: left(v).tanh(), lambda v, right=right: right(v).sin(), (x,)
            )
        return x


def branches(o: SimpleNamespace) -> tuple[Callable, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    return Layers(o), (torch.randn(32, 128),)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Deep(nn.Module):
    """64 equal layers, each called through a region that is compiled once."""

    def __init__(self, o: SimpleNamespace) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(64))
        self.region = o.region(lambda layer, x: layer(x))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.region(layer, x)
        return x


def regions(o: SimpleNamespace) -> tuple[Callable, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    return Deep(o), (torch.randn(32, 64),)


def attention(window: int | None, length: int = 2048) -> Callable:
    """Places with 8 heads of 64 numbers; each sees those before it, or the last ones of these."""

    def seen(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i >= j) if window is None else (i >= j) & (i - j < window)

    def make(o: SimpleNamespace) -> tuple[Callable, tuple[Tensor, ...]]:
        tensors = tuple(torch.randn(1, 8, length, 64) for _ in range(3))
        if o is OPERATORS:
            blocks = create_block_mask(seen, None, None, length, length, device="cpu")
            return lambda q, k, v: flex_attention(q, k, v, block_mask=blocks), tensors
        places = torch.arange(length)
        hidden = ~seen(places, places, places[:, None], places[None, :])

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return (q @ k.transpose(-2, -1) * 0.125).masked_fill(hidden, -torch.inf).softmax(-1) @ v

        return run, tensors

    return make


ROWS = {
    "RNN by scan, T=512": rnn,
    "Newton by while_loop": newton,
    "recurrence by associative_scan, T=4096": recurrence,
    "12 layers with cond": branches,
    "64 layers by a nested region": regions,
    "flex_attention, causal, S=2048": attention(None),
    "flex_attention, window of 256, S=2048": attention(256),
}


def caller(function: Callable, args: tuple[Tensor, ...], grad: bool) -> Callable[[], list[Tensor]]:
    args = tuple(arg.clone().requires_grad_(grad) for arg in args)

    def call() -> list[Tensor]:
        with torch.set_grad_enabled(grad):
            result = function(*args)
        return [result.detach(), *(torch.autograd.grad(result.sum(), args) if grad else ())]

    return call


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


SETTLING = 10  # calls before those that are measured
LEAST_TURNS, MOST_TURNS, SECONDS = 7, 301, 1.0


def in_turns(calls: dict[str, Callable]) -> dict[str, float]:
    """Medians, of more turns where calls are short: other programs disturb single ones."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + SECONDS
    while len(times["eager"]) < LEAST_TURNS or (time.perf_counter() < end and len(times["eager"]) < MOST_TURNS):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return {name: statistics.median(each) for name, each in times.items()}


def measure(name: str, make: Callable, grad: bool, with_torch: bool) -> None:
    calls, first = {}, {}
    eager, args = make(PYTHON)
    calls["eager"] = caller(eager, args, grad)
    calls["saker"] = caller(saker.compile(make(OPERATORS)[0]), args, grad)
    if with_torch:
        calls["torch"] = caller(torch.compile(make(OPERATORS)[0]), args, grad)
    expected = calls["eager"]()
    for each in list(calls):
        try:
            start = time.perf_counter()
            found = calls[each]()
            first[each] = time.perf_counter() - start
        except Exception as error:
            print(f"  {name}: {each} raises {type(error).__name__}")
            del calls[each]
            continue
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
    for call in calls.values():
        for _ in range(SETTLING):
            call()
    later = in_turns(calls)
    ratio = later["saker"] / later["eager"]
    text = f"  {name:40} {'with backward' if grad else 'forward':14}"
    text += f" first {first['saker'] * 1e3:8.1f} ms"
    if "torch" in first:
        text += f" (torch.compile {first['torch'] * 1e3:9.1f}, {first['torch'] / first['saker']:6.0f} times)"
    text += f"   later {later['saker'] * 1e3:8.2f} ms (eager {later['eager'] * 1e3:8.2f}, ratio {ratio:5.2f}"
    if "torch" in later:
        text += f"; torch.compile {later['torch'] * 1e3:8.2f}, ratio {later['saker'] / later['torch']:5.2f}"
    print(text + ")", flush=True)


# --- memory ---

PEAKS = {"causal": None, "window of 256": 256}
LENGTHS = (1024, 2048, 4096)


def peak(name: str, length: int, grad: bool, eager: bool) -> float:
    """Megabytes that a later call has allocated and not freed yet, at most."""
    run, args = attention(PEAKS[name], length)(PYTHON if eager else OPERATORS)
    call = caller(run if eager else saker.compile(run), args, grad)
    call()
    call()
    with torch.profiler.profile(profile_memory=True) as profile:
        call()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    sizes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return max(itertools.accumulate(sizes)) / 2**20


def print_peaks() -> None:
    for name in PEAKS:
        for grad in (False, True):
            text = f"  flex_attention, {name:24} {'with backward' if grad else 'forward':14} peak"
            for who, eager in (("saker", False), ("eager", True)):
                found = [peak(name, length, grad, eager) for length in LENGTHS]
                each = ", ".join(f"{size:7.1f} MB" for size in found)
                growth = ", ".join(f"{large / small:.1f}" for small, large in itertools.pairwise(found))
                text += f"   {who} {each} (times {growth})"
            print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-torch", action="store_true")
    options = parser.parse_args()
    print(f"control flow, {torch.get_num_threads()} threads, medians of {LEAST_TURNS} to {MOST_TURNS} calls in turns")
    for name, make in ROWS.items():
        for grad in (False, True):
            torch.manual_seed(0)
            measure(name, make, grad, not options.no_torch)
    print(f"memory, at S = {', '.join(map(str, LENGTHS))}")
    print_peaks()


if __name__ == "__main__":
    main()
