"""What saker.capture promises: the graph does what the function does, and capturing leaves nothing behind."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import saker
from differential import dispatch_state, error_of, same
from listed import Listed

PROGRAMS = Listed()
program = PROGRAMS.add


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(3, 4), torch.randn(4, 4, requires_grad=True)


@program
def views_and_writes(x, w):
    y = x + 1
    y[0].mul_(2)
    y.t()[1:].add_(x.sum())
    return y, y[1], y.view(-1)


@program
def writes_to_arguments(x, w):
    x.add_(1)
    x[1:].mul_(2)
    return x.sum()


@program
def argument_is_a_result(x, w):
    return x, w, x.t()


@program
def gradients(x, w):
    loss = (x @ w).tanh().pow(2).sum()
    return loss, torch.autograd.grad(loss, w)


@program
def backward_sets_grad(x, w):
    (x @ w).exp().sum().backward()


@program
def double_backward(x, w):
    (g,) = torch.autograd.grad((x @ w).tanh().sum(), w, create_graph=True)
    return torch.autograd.grad(g.pow(2).sum(), w)


@program
def random_numbers(x, w):
    return torch.rand(3), F.dropout(x, 0.5), torch.randn_like(x), x.clone().uniform_(), torch.randperm(5)


@program
def literals(x, w):
    t = torch.tensor([1.0, 2.0])
    t.add_(1)
    n = torch.tensor(3)
    return t, x * n.item(), x + torch.tensor(2.5), torch.arange(4), torch.eye(3)


@program
def autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
    return y, torch.autograd.grad(y.float().sum(), w)


@program
def modes_of_autograd(x, w):
    with torch.no_grad():
        a = w * 2
    return a, (w * a).sum()


@program
def transforms(x, w):
    from torch.func import grad, vmap

    return grad(lambda v: (x @ v).tanh().sum())(w.detach()), vmap(lambda row: row.sin() * 2)(x)


@program
def checkpointed(x, w):
    y = checkpoint(lambda t: (t @ w).tanh(), x, use_reentrant=False)
    return torch.autograd.grad(y.sum(), w)


def test_rule8_a_checkpoint_draws_the_same_again():
    """The state of the generator is read and set by the graph, as by the program."""
    w = torch.randn(4, 4, requires_grad=True)

    def fn(x):
        y = checkpoint(lambda t: F.dropout(t @ w, 0.5).tanh(), x, use_reentrant=False)
        return y, *torch.autograd.grad(y.sum(), w), torch.rand(2)

    x = torch.randn(3, 4)
    graph = saker.capture(fn, x)
    for run in (graph, graph.functional()):
        torch.manual_seed(3)
        expected, state = fn(x), torch.get_rng_state()
        torch.manual_seed(3)
        torch.testing.assert_close(run(x), expected, rtol=0, atol=0)
        assert torch.equal(torch.get_rng_state(), state)


def test_rule8_seeding_is_part_of_the_graph():
    def fn(x):
        kept = torch.get_rng_state()
        torch.manual_seed(11)
        first = x + torch.rand(3)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(12)
            second = torch.randn(3)
        third = torch.rand(3)
        torch.set_rng_state(kept)
        return first, second, third, F.dropout(x, 0.5)

    x = torch.randn(3)
    graph = saker.capture(fn, x)
    torch.manual_seed(4)
    expected, state = fn(x), torch.get_rng_state()
    torch.manual_seed(4)
    torch.testing.assert_close(graph(x), expected, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.nonzero(),
        lambda x: torch.masked_select(x, x > 0).sin(),
        lambda x: torch.unique(x.round(), return_inverse=True, return_counts=True),
        lambda x: torch.unique(x.round(), dim=1),
        lambda x: torch.unique_consecutive(x.round(), return_counts=True),
    ],
)
def test_sizes_that_are_data_are_symbols(fn: Callable) -> None:
    graph = saker.capture(fn, torch.randn(4, 5))
    for other in (torch.randn(4, 5), torch.zeros(4, 5), torch.arange(20.0).reshape(4, 5)):
        for run in (graph, graph.functional()):
            torch.testing.assert_close(run(other), fn(other), rtol=0, atol=0)


def test_seeding_by_chance_is_refused():
    before = torch.get_rng_state()
    with pytest.raises(saker.CaptureError, match="state of the generator"):
        saker.capture(lambda x: (torch.seed(), x + torch.rand(3))[1], torch.randn(3))
    torch.set_rng_state(before)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


@program
def custom_function_and_hooks(x, w):
    y = Cube.apply(w)
    y.register_hook(lambda g: g * 2)
    return torch.autograd.grad(y.sum(), w)


@program
def saved_tensors_hooks(x, w):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        y = (x @ w).exp()
    return torch.autograd.grad(y.sum(), w)


@program
def data_is_assigned(x, w):
    p = torch.zeros(2)
    y = x + 1
    p.data = y[0]
    y.mul_(2)
    return p * 3, y


@program
def metadata_and_out(x, w):
    y = x + 1
    y.t_()
    out = torch.empty(4, 3)
    torch.mul(y, 2, out=out)
    return y, out


@program
def complex_numbers(x, w):
    z = torch.complex(x, x + 1)
    return z.conj(), z.conj() * 2, z.abs(), torch.view_as_real(z), z.imag


@program
def several_results(x, w):
    return {"sort": x.sort(), "split": x.split(2), "nested": [(x.max(0), {"sum": x.sum()})], "number": 3, "none": None}


@program
def sizes_are_numbers(x, w):
    return x.shape[0], x.numel(), x.view(x.shape[1], -1), x.dim()


@program
def empty_tensors(x, w):
    return torch.empty(0, 3) + 1, x[:0].sum(), torch.cat([x[:0], x])


@program
def foreach_and_optimizer(x, w):
    p = [x + 1, x + 2]
    torch._foreach_mul_(p, 2.0)
    return p


@program
def loops_over_rows(x, w):
    return torch.stack([row * i for i, row in enumerate(x)]), [*x.unbind(1)]


def everything(fn: Callable, given: tuple) -> Any:
    torch.manual_seed(1)
    result = fn(*given)
    return result, given, given[1].grad, torch.get_rng_state()


@pytest.mark.parametrize("functional", [False, True], ids=["raw", "functional"])
@pytest.mark.parametrize("name", PROGRAMS.names({}))
def test_graph_does_what_the_function_does(name: str, functional: bool) -> None:
    fn, given = PROGRAMS[name], inputs()
    before, random_state = dispatch_state(), torch.get_rng_state()
    graph = saker.capture(fn, *given)
    # Rule 17: nothing is left behind.
    assert dispatch_state() == before
    assert torch.equal(torch.get_rng_state(), random_state)
    assert saker._C.trace_mode() is None
    assert given[1].grad is None
    same(given, inputs())
    torch.set_rng_state(random_state)
    if functional:
        graph = graph.functional()
    graph.ir.verify()
    expected, got = everything(fn, inputs()), everything(graph, given)
    torch.testing.assert_close(got, expected)
    for seen, wanted in zip(given, expected[1], strict=True):
        assert seen._version == wanted._version


def test_rule17_parameters_grads_and_versions_are_as_before() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(5, 4)
    state = copy.deepcopy(model.state_dict())
    versions = [t._version for t in model.state_dict(keep_vars=True).values()]

    def step(x):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    graph = saker.capture(step, x)
    same(dict(model.state_dict()), dict(state))
    assert [t._version for t in model.state_dict(keep_vars=True).values()] == versions
    assert all(p.grad is None and p.is_leaf for p in model.parameters())
    reference = copy.deepcopy(model)
    expected = reference(x).sum()
    expected.backward()
    torch.optim.SGD(reference.parameters(), lr=0.1).step()
    torch.testing.assert_close(graph(x), expected.detach(), check_stride=False)
    torch.testing.assert_close(dict(model.state_dict()), dict(reference.state_dict()))
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_rule17_tensor_kept_elsewhere_raises_when_used() -> None:
    kept = []

    def keeps(x):
        kept.append(x + 1)
        kept.append(x)
        return x * 2

    saker.capture(keeps, torch.ones(2))
    for tensor in kept:
        for use in (lambda t: t + 1, lambda t: t.sum().item(), lambda t: t.tolist(), lambda t: t.numpy(), repr):
            error = error_of(lambda: use(tensor))
            assert isinstance(error, RuntimeError), error
            assert "has ended" in str(error)
        assert isinstance(error_of(lambda: tensor + 1), saker.CaptureError)


def test_rule17_a_function_that_raises_leaves_nothing() -> None:
    before = dispatch_state()
    w = torch.ones(2, requires_grad=True)

    def raises(x):
        (x * w).sum().backward()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        saker.capture(raises, torch.ones(2))
    assert dispatch_state() == before
    assert w.grad is None
    assert saker.capture(torch.sin, torch.ones(2))(torch.zeros(2)).tolist() == [0.0, 0.0]
    assert not torch.compiler.is_compiling()


def test_rule10_is_compiling_inside_only() -> None:
    seen, other = [], []

    def asks(x):
        thread = threading.Thread(target=lambda: other.append(torch.compiler.is_compiling()))
        thread.start()
        thread.join()
        seen.append(torch.compiler.is_compiling())
        return x + 1

    saker.capture(asks, torch.ones(2))
    assert seen == [True]
    assert other == [False]
    assert not torch.compiler.is_compiling()


def test_rule12_two_threads_capture_at_once() -> None:
    graphs: dict[int, saker.Graph] = {}

    def work(number: int) -> None:
        for _ in range(10):
            w = torch.full((4, 4), float(number), requires_grad=True)

            def fn(x, w=w):
                return torch.autograd.grad((x @ w).tanh().sum(), w)[0] + number

            graphs[number] = saker.capture(fn, torch.ones(2, 4))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(graphs) == [0, 1, 2, 3]
    x = torch.full((2, 4), 0.01)
    for number, graph in graphs.items():
        w = torch.full((4, 4), float(number), requires_grad=True)
        expected = torch.autograd.grad((x @ w).tanh().sum(), w)[0] + number
        torch.testing.assert_close(graph(x), expected)


def test_capture_inside_of_deferred_and_the_reverse() -> None:
    with saker.deferred():
        y = torch.ones(2) + 1
        graph = saker.capture(lambda x: x * 3, y)
        z = graph(y)
    assert z.tolist() == [6.0, 6.0]

    def defers(x):
        with saker.deferred():
            made = torch.ones(2) + 1
        return x + made

    with contextlib.suppress(saker.CaptureError):
        assert saker.capture(defers, torch.ones(2))(torch.ones(2)).tolist() == [3.0, 3.0]
    assert saker._C.trace_mode() is None


def test_graph_of_a_graph() -> None:
    inner = saker.capture(lambda x: x.sin() * 2, torch.ones(3))
    outer = saker.capture(lambda x: inner(x) + 1, torch.ones(3))
    x = torch.randn(3)
    torch.testing.assert_close(outer(x), x.sin() * 2 + 1)
    assert "aten::sin" in outer.text


Point = namedtuple("Point", "x y")


def test_pytrees_keywords_and_constants() -> None:
    def fn(point, *, scale, options):
        return Point(point.x * scale, [point.y + options["shift"], options["name"]])

    x, y = torch.ones(2), torch.zeros(2)
    graph = saker.capture(fn, Point(x, y), scale=2.0, options={"shift": x, "name": "n"})
    out = graph(Point(x, y), scale=2.0, options={"shift": x, "name": "n"})
    assert isinstance(out, Point)
    assert out.x.tolist() == [2.0, 2.0]
    assert out.y[1] == "n"
    with pytest.raises(saker.RunError, match=r"2\.0.*3\.0"):
        graph(Point(x, y), scale=3.0, options={"shift": x, "name": "n"})
    with pytest.raises(saker.RunError, match="structure"):
        graph(x)


def test_results_carry_autograd_history() -> None:
    model = nn.Linear(3, 2)
    x = torch.randn(4, 3)
    graph = saker.capture(model, x)
    for run in (graph, graph.functional()):
        model.zero_grad()
        run(x).pow(2).sum().backward()
        got = [p.grad for p in model.parameters()]
        model.zero_grad()
        model(x).pow(2).sum().backward()
        torch.testing.assert_close(got, [p.grad for p in model.parameters()])
        with torch.no_grad():
            assert not run(x).requires_grad


def test_closed_over_tensors_are_read_when_the_graph_runs() -> None:
    w = torch.ones(2)
    graph = saker.capture(lambda x: x * w, torch.ones(2))
    w.mul_(3)
    assert graph(torch.ones(2)).tolist() == [3.0, 3.0]


def test_arguments_that_are_views_of_each_other() -> None:
    def fn(a, b):
        a.add_(1)
        return b * 2

    memory = torch.zeros(4)
    graph = saker.capture(fn, memory[:3], memory[1:])
    for run in (graph, graph.functional()):
        mine = torch.zeros(4)
        assert run(mine[:3], mine[1:]).tolist() == [2.0, 2.0, 0.0]
        assert mine.tolist() == [1.0, 1.0, 1.0, 0.0]


def test_text_and_length() -> None:
    graph = saker.capture(lambda x: (x + 1).relu(), torch.ones(2, 3))
    assert len(graph) == 2
    assert "aten::add.Tensor" in graph.text
    assert str(graph) == graph.text
    assert repr(graph) == "<saker.Graph with 2 operators>"
    assert saker.parse(graph.text).text == graph.text


def gradient(x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad((leaf / x.shape[0]).square().mul(x.shape[0]).sum(), leaf)
    return gradient


SIZE_AS_OPERAND = {
    "divided": lambda x: x.sum(0) / x.shape[0],
    "reversed": lambda x: x.shape[0] - x,
    "power": lambda x: x.abs() ** x.shape[0],
    "float": lambda x: x * (x.shape[0] * 0.5),
    "compared": lambda x: x > x.shape[0],
    "written": lambda x: x.clone().mul_(x.shape[0]),
    "differentiated": gradient,
}


@pytest.mark.parametrize("name", SIZE_AS_OPERAND)
def test_dynamic_size_is_an_operand(name: str) -> None:
    fn = SIZE_AS_OPERAND[name]
    graph = saker.capture(fn, torch.randn(5, 3), dynamic={0: 0})
    for rows in (5, 2, 9):
        x = torch.randn(rows, 3)
        for made in (graph, graph.functional()):
            torch.testing.assert_close(made(x), fn(x), rtol=0, atol=0)
