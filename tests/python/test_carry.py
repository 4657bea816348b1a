"""Compiled functions, compiled modules, graphs and explanations are copied and pickled; workers get them."""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import pickle
from typing import Any

import pytest
import torch
from torch import nn

import saker


def scaled(x: torch.Tensor, k: float = 2.0) -> torch.Tensor:
    return torch.sin(x) * k


scaled_fast = saker.compile(scaled, fullgraph=True)


@saker.compile(fullgraph=True)
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x.exp() + 1


class Adds:
    def __init__(self, by: torch.Tensor) -> None:
        self.by = by

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.by

    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return x + 2 * self.by


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return self.inner(x).tanh()


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def saved(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


WAYS = [pickled, copy.deepcopy, saved, copy.copy]


def replays_like(compiled: Any, eager: Any, *args: torch.Tensor) -> None:
    """Recorded at the first call, replayed at the second."""
    before = saker.stats()["replays"]
    for _ in range(3):
        torch.testing.assert_close(compiled(*args), eager(*args), rtol=0, atol=0)
    assert saker.stats()["replays"] >= before + 2


@pytest.mark.parametrize("way", WAYS)
def test_functions(way: Any) -> None:
    x = torch.randn(4)
    scaled_fast(x)
    replays_like(way(scaled_fast), scaled, x)
    assert way(decorated) is decorated
    local = saker.compile(scaled, recompile_limit=3, dynamic=False)
    again = way(local)
    assert isinstance(again, saker._C.Compiled)
    assert again._settings == local._settings
    assert again.__name__ == "scaled"
    replays_like(again, scaled, x)


@pytest.mark.parametrize("way", [pickled, copy.deepcopy])
def test_objects_and_methods(way: Any) -> None:
    x, adds = torch.randn(3), Adds(torch.ones(3))
    for compiled, eager in ((saker.compile(adds), adds), (saker.compile(adds.twice), adds.twice)):
        compiled(x)
        again = way(compiled)
        replays_like(again, eager, x)
        adds.by.add_(1)  # the copy has an object of its own
        assert not torch.equal(again(x), eager(x))
        assert torch.equal(compiled(x), eager(x))


@pytest.mark.parametrize("way", [pickled, copy.deepcopy, saved])
def test_modules_keep_their_parameters(way: Any) -> None:
    net = Net()
    compiled = saker.compile(net, fullgraph=True)
    x = torch.randn(2, 3)
    compiled(x).sum().backward()
    again = way(compiled)
    assert type(again) is type(compiled)
    assert list(again.state_dict()) == list(compiled.state_dict())
    for (name, mine), theirs in zip(again.named_parameters(), compiled.parameters(), strict=True):
        assert torch.equal(mine, theirs), name
        assert mine is not theirs
    other = Net()
    other.load_state_dict(net.state_dict())
    replays_like(again, other, x)
    assert again.seen == 4 and net.seen == 1
    assert again.inner.weight.grad is None or torch.equal(again.inner.weight.grad, net.inner.weight.grad)


@pytest.mark.parametrize("way", [pickled, copy.deepcopy, saved])
def test_modules_ahead_of_time(way: Any) -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    compiled = saker.aot_module(net, partition_fn="default")
    x = torch.randn(2, 3)
    compiled(x).sum().backward()
    again = way(compiled)
    assert list(again.state_dict()) == list(compiled.state_dict())
    torch.testing.assert_close(again(x), net(x), rtol=0, atol=0)
    again(x).sum().backward()
    again.orig_module[0].weight.data.zero_()
    assert not torch.equal(again(x), compiled(x))


@pytest.mark.parametrize("way", [pickled, copy.deepcopy])
@pytest.mark.parametrize("dynamic", [None, {0: {0: "rows"}}])
def test_graphs(way: Any, dynamic: Any) -> None:
    net = Net().eval()
    x = torch.randn(4, 3)
    graph = saker.capture(net.inner, x, dynamic=dynamic)
    again = way(graph)
    assert again.text == graph.text
    assert again.guards == graph.guards
    assert torch.equal(again(x), net.inner(x))
    again(x).sum().backward()
    if dynamic:
        assert torch.equal(again(torch.ones(6, 3)), net.inner(torch.ones(6, 3)))
    with pytest.raises(saker.RunError):
        again(torch.ones(4, 5))
    functional = way(graph.functional())
    with torch.no_grad():
        assert torch.equal(functional(x), net.inner(x))
    parsed = saker.parse(graph.text)
    assert way(parsed).text == parsed.text


@pytest.mark.parametrize("way", [pickled, copy.deepcopy])
def test_graphs_with_guards_on_sizes(way: Any) -> None:
    def cut(x: torch.Tensor) -> torch.Tensor:
        return x[: x.size(0) // 2] * 2 if x.size(0) > 5 else x + 1

    graph = saker.capture(cut, torch.ones(8), dynamic={0: {0: "n"}})
    again = way(graph)
    assert graph.guards and again.guards == graph.guards
    assert torch.equal(again(torch.ones(6)), cut(torch.ones(6)))
    with pytest.raises(saker.RunError):
        again(torch.ones(4))


def test_graphs_that_belong_to_the_process() -> None:
    generator = torch.Generator()
    graph = saker.capture(lambda x: x + torch.rand(2, generator=generator), torch.ones(2))
    with pytest.raises(TypeError, match="belongs to this process"):
        pickle.dumps(graph)


@pytest.mark.parametrize("way", [pickled, copy.deepcopy])
def test_explanations(way: Any) -> None:
    net = Net()
    told = saker.explain(net)(torch.randn(2, 3))
    again = way(told)
    assert str(again) == str(told)
    assert again.html() == told.html()
    assert torch.equal(again.result, told.result)
    broken = saker.explain(lambda x: x + x.sum().item())(torch.ones(2))
    assert str(way(broken)) == str(broken)


def _in_worker(compiled: Any, x: torch.Tensor, send: Any) -> None:
    before = saker.stats()["replays"]
    results = [compiled(x).detach() for _ in range(3)]
    send.send(([each.tolist() for each in results], saker.stats()["replays"] - before, os.getpid()))


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_workers(start: str) -> None:
    x = torch.randn(2, 3)
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    context = multiprocessing.get_context(start)
    for compiled, eager in ((scaled_fast, scaled), (saker.compile(net), net), (decorated, decorated.__wrapped__)):
        compiled(x)
        receive, send = context.Pipe(duplex=False)
        worker = context.Process(target=_in_worker, args=(compiled, x, send))
        worker.start()
        try:
            assert receive.poll(120), "the worker gave nothing"
            results, replays, process = receive.recv()
        finally:
            worker.join(30)
        assert worker.exitcode == 0 and process != os.getpid()
        for result in results:
            torch.testing.assert_close(torch.tensor(result), eager(x).detach())
        assert replays >= 2


class Rows(torch.utils.data.Dataset):
    """A dataset that computes its rows with a compiled function."""

    def __init__(self) -> None:
        self.rows = torch.arange(12.0).reshape(6, 2)
        self.transform = saker.compile(scaled)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(self.rows[index])


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_workers_of_a_data_loader(start: str) -> None:
    rows = Rows()
    rows[0]
    loader = torch.utils.data.DataLoader(rows, batch_size=2, num_workers=1, multiprocessing_context=start)
    torch.testing.assert_close(torch.cat(list(loader)), scaled(rows.rows))
