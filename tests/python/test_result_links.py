"""Results that depend on each other: what the caller can see of autograd's graph between them is eager mode's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker

Program = Callable[[torch.Tensor, torch.Tensor], Any]


def chain(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x * 2
    z = y.exp()
    return y, z


def loss_and_logits(x: torch.Tensor, w: torch.Tensor) -> Any:
    logits = (x.tanh() @ w).relu()
    return torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2])), logits


def hidden_states(x: torch.Tensor, w: torch.Tensor) -> Any:
    states = [x.sin()]
    for _ in range(3):
        states.append(states[-1] + (states[-1] @ w).tanh())
    return tuple(states)


def view_of_intermediate(x: torch.Tensor, w: torch.Tensor) -> Any:
    v = (x @ w).view(9)
    return v, v.exp()


def view_and_base(x: torch.Tensor, w: torch.Tensor) -> Any:
    b = x @ w
    v = b.t()
    return b, v, v.cos() * w, b.sigmoid()


def view_of_argument(x: torch.Tensor, w: torch.Tensor) -> Any:
    v = x[0]
    return v, (v * w).exp()


def several(x: torch.Tensor, w: torch.Tensor) -> Any:
    a, b = (x @ w).split([1, 2])
    return a, b, a.exp(), b * a


def three_ways(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x.exp()
    z = y.sin() * y + y.cos() * w + x
    return y, z


def shares_more(x: torch.Tensor, w: torch.Tensor) -> Any:
    h = x.exp()
    k = h @ w
    return k, (h.sin() * k).softmax(-1)


def independent(x: torch.Tensor, w: torch.Tensor) -> Any:
    return x.exp(), w.sin()


def share_what_saves_nothing(x: torch.Tensor, w: torch.Tensor) -> Any:
    h = x * 2
    return h.exp(), h.sin()


def share_what_saves(x: torch.Tensor, w: torch.Tensor) -> Any:
    h = x.exp()
    return h.exp() * w, h.sin()


def tied(x: torch.Tensor, w: torch.Tensor) -> Any:
    h = (x @ w) @ w
    y = (h @ w).tanh()
    return h, y, (y @ w) @ w


def made_late(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x.exp()
    z = y * w
    u = y.sin()
    return z, y, u


def strided(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = (x @ w).t().contiguous()
    return y, (y.t() @ w).t().relu().sum(0)


def expanded(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x * w
    return y, y.sum()


def written(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x * w
    y.mul_(2)
    return y, y.exp()


def attention(x: torch.Tensor, w: torch.Tensor) -> Any:
    """The keys are a result, the queries, which come of the same tensor, are not."""
    h = (x @ w).tanh()
    k = h @ w
    q = h.sin()
    return k, (q @ k).softmax(-1) + h


def cached_layers(x: torch.Tensor, w: torch.Tensor) -> Any:
    """A loss, logits, and keys and values of each layer, as language models give them."""
    h, cache = x * 2, []
    for _ in range(3):
        n = torch.nn.functional.layer_norm(h, (3,))
        q, k, v = (n @ w).tanh(), (n @ w.t()).t(), (n * w).sigmoid()
        cache += [k, v]
        h = h + (q @ k).softmax(-1) @ v
    logits = h @ w
    return torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2])), logits, *cache


def part_of_split(x: torch.Tensor, w: torch.Tensor) -> Any:
    a, b = (x @ w).split([1, 2])
    return a, a.exp() * b


def summed_over_stages(x: torch.Tensor, w: torch.Tensor) -> Any:
    """The gradient of y, and that of h, which is no result, are sums of what four stages give."""
    h = x.exp()
    y = h @ w
    a = y.sin() + h.cos() * y
    b = a * y + h.sigmoid() * 0.1
    c = b * y * h + a
    return y, a, b, c * h + y


def auxiliary_losses(x: torch.Tensor, w: torch.Tensor) -> Any:
    h, routers = x, []
    for _ in range(2):
        routers.append(h @ w)
        h = h + (routers[-1].softmax(-1) @ w).relu()
    aux = torch.stack([r.logsumexp(-1).square().mean() for r in routers]).sum()
    logits = h @ w
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2])) + 0.1 * aux
    return loss, aux, logits, *routers


def autoencoder(x: torch.Tensor, w: torch.Tensor) -> Any:
    h = (x @ w).relu()
    mu, logvar = h @ w, h @ w.t()
    z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
    return (z @ w).sigmoid(), mu, logvar


def recurrent(x: torch.Tensor, w: torch.Tensor) -> Any:
    h, out = x[0], []
    for i in range(3):
        h = torch.tanh(x[i] @ w + h @ w.t())
        out.append(h)
    return torch.stack(out), h


def written_on_the_way(x: torch.Tensor, w: torch.Tensor) -> Any:
    """As networks with activations in place give their features."""
    y = x @ w
    y.relu_()
    z = y @ w
    z.add_(y)
    u = (z * w).sin()
    q = u.cos()
    u = u.mul(2).add_(q.exp_() * z)
    return y, z, u, u @ w * q


def written_through_a_view(x: torch.Tensor, w: torch.Tensor) -> Any:
    u = (x * w).sin()
    u[0].mul_(2)
    return u, u @ w


def complex_numbers(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = torch.fft.rfft(x @ w)
    z = y * y.conj() + y
    return y, z, torch.fft.irfft(z, n=3)


def dropped(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = torch.nn.functional.dropout(x @ w, 0.5)
    return y, torch.nn.functional.dropout(y.exp(), 0.5)


PROGRAMS = [
    chain,
    loss_and_logits,
    hidden_states,
    view_of_intermediate,
    view_and_base,
    view_of_argument,
    several,
    three_ways,
    shares_more,
    independent,
    share_what_saves_nothing,
    share_what_saves,
    tied,
    made_late,
    strided,
    expanded,
    written,
    written_on_the_way,
    written_through_a_view,
    complex_numbers,
    attention,
    cached_layers,
    part_of_split,
    summed_over_stages,
    auxiliary_losses,
    autoencoder,
    recurrent,
    dropped,
]
# Results that are written in place and depend on each other: no node is cut there yet.
EAGER = [written, written_on_the_way, written_through_a_view]


def seen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        grad = [value.detach().tolist(), value.stride(), value.dtype, value.requires_grad]
        return grad
    if isinstance(value, (tuple, list)):
        return [seen(item) for item in value]
    return value


def attempt(action: Callable[[], Any]) -> Any:
    try:
        return seen(action())
    except RuntimeError as error:
        return str(error).split("at 0x")[0]


def total(tensors: list[torch.Tensor]) -> torch.Tensor:
    return sum(((t.abs() if t.is_complex() else t) * (i + 1)).sum() for i, t in enumerate(tensors))


def pairs(out: list[torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> Any:
    """Gradients of each result with respect to each other one, and to the arguments."""
    for a in out:
        for b in [*out, x, w]:
            if a is not b:
                yield attempt(lambda a=a, b=b: torch.autograd.grad(a.sum(), b, retain_graph=True, allow_unused=True))


def retained(out: list[torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> Any:
    for t in out:
        t.retain_grad()
    total(out).backward()
    yield seen([t.grad for t in [*out, x, w]])


def last_only(out: list[torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> Any:
    for t in out:
        t.retain_grad()
    yield attempt(lambda: out[-1].sum().backward())
    yield seen([t.grad for t in [*out, x, w]])
    yield attempt(lambda: out[0].sum().backward())


def hooked(out: list[torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> Any:
    got = {}
    for i, t in enumerate(out):
        t.register_hook(lambda g, i=i: (got.setdefault(i, seen(g)), g * 3)[1])
    total(out).backward()
    yield got
    yield seen([x.grad, w.grad])


def one_after_another(out: list[torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> Any:
    for t in out:
        error = attempt(lambda t=t: t.sum().backward())
        yield error
        if error:  # what was accumulated before it was raised
            return
        yield seen([x.grad, w.grad])


def one_before_another(out: list[torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> Any:
    yield from one_after_another(out[::-1], x, w)


def of_one_argument(out: list[torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> Any:
    for t in [*out, *out]:
        for of in (x, w):
            yield attempt(lambda t=t, of=of: torch.autograd.grad(t.sum(), of, allow_unused=True))


def twice(out: list[torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> Any:
    sources = [*out, x, w]
    first = torch.autograd.grad(
        (total(out) ** 2), sources, create_graph=True, allow_unused=True, materialize_grads=True
    )
    yield seen([t.detach() for t in first])
    yield attempt(lambda: torch.autograd.grad(total([t for t in first if t.requires_grad]), sources, allow_unused=True))


def twice_between(out: list[torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> Any:
    for a in out:
        for b in out:
            if a is b:
                continue
            (g,) = torch.autograd.grad(total([a * a]), b, create_graph=True, allow_unused=True, materialize_grads=True)
            if not g.requires_grad:
                yield "nothing"
                continue
            for c in [*out, x, w]:
                yield attempt(lambda g=g, c=c: torch.autograd.grad(g.sum(), c, retain_graph=True, allow_unused=True))


def lost(out: list[torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> Any:
    """A result that others depend on, after these are gone."""
    first = out[0]
    out.clear()
    yield attempt(lambda: first.sum().backward())
    yield seen([x.grad, w.grad])


USES = [
    pairs,
    retained,
    last_only,
    hooked,
    one_after_another,
    one_before_another,
    of_one_argument,
    twice,
    twice_between,
    lost,
]


def arguments() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)


def observed(function: Program, use: Callable) -> Any:
    x, w = arguments()
    torch.manual_seed(1)
    out = function(x, w)
    return [seen(out), *use(list(out), x, w)]


def compiled(how: str, program: Program) -> Program:
    if how == "compile":
        fast = saker.compile(program)
        fast(*arguments())
        return fast
    return saker.aot_function(program, partition_fn=how)


def assert_same(got: Any, want: Any, use: Callable) -> None:
    """Equal to the bit; what is differentiated twice is added up in another order."""
    if use not in {twice, twice_between}:
        assert got == want
    elif isinstance(want, list):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other, use)
    elif isinstance(want, (float, complex)):
        assert got == pytest.approx(want, rel=1e-3, abs=1e-3)
    elif not isinstance(want, tuple):  # strides
        assert got == want


@pytest.mark.parametrize("how", ["compile", "min_cut", "default"])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("use", USES)
def test_use(use: Callable, program: Program, how: str) -> None:
    saker.reset(counts=True)
    fast = compiled(how, program)
    want = observed(program, use)
    before = saker.stats()
    assert_same(observed(fast, use), want, use)
    assert_same(observed(fast, use), want, use)
    now = saker.stats()
    if how == "compile":
        assert now["replays"] == before["replays"] + 2
        assert bool(now["instead"]) == (program in EAGER)
    else:
        assert now["fallbacks"] - before["fallbacks"] == (2 if program in EAGER else 0)


@pytest.mark.parametrize("how", ["compile", "min_cut", "default"])
def test_sums_over_a_loop_of_calls(how: str) -> None:
    """A weight that each call uses twice: eager mode adds up its gradient one by one, over all calls."""

    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return ((x @ w).tanh() @ w).sin()

    def gradient(function: Program) -> torch.Tensor:
        torch.manual_seed(1)
        w, average = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3) + 0
        for _ in range(4):
            average = 0.9 * average + 0.1 * function(average, w)
        average.pow(2).sum().backward()
        return w.grad

    want = gradient(step)
    fast = saker.compile(step) if how == "compile" else saker.aot_function(step, partition_fn=how)
    for _ in range(3):
        assert torch.equal(gradient(fast), want)
    assert how != "compile" or saker.stats()["replays"] > 0


def test_hooks_on_a_view_made_without_autograd() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            t = x.view(-1)
        return t.view(-1), t

    def called(call: Callable) -> list[int]:
        x, log = torch.ones(3, requires_grad=True), []
        for i, t in enumerate(call(x)):
            t.register_hook(lambda grad, i=i: log.append(i))
            t.sum().backward()
        return log

    compiled = saker.compile(f)
    for _ in range(3):
        assert called(compiled) == called(f)
