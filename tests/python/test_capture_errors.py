"""Bad input to saker.capture: one clear error each, that names the reason and the line; a following capture works."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import saker
from differential import dispatch_state

X = torch.randn(3, 4)
# What is known not to be refused as it should.
KNOWN = {}
HERE = "test_capture_errors.py"

# What reads data. Each is refused with the reason DataDependent, the line of the program, and a hint.
READS: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: 1 if x.sum() > 0 else 2,
    "float": lambda x: float(x.sum()),
    "int": lambda x: int(x.sum()),
    "index": lambda x: [1, 2][(x.sum() * 0).long()],
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: (x + 1).numpy(),
    "array": lambda x: np.asarray(x + 1),
    "data_ptr": lambda x: (x + 1).data_ptr(),
    "dlpack": lambda x: torch.from_dlpack(x + 1),
    "print": lambda x: str(x + 1),
    "format": lambda x: f"{x.sum()}",
    "mask": lambda x: x[x > 0],
    "equal": lambda x: torch.equal(x, x + 1),
    "storage": lambda x: (x + 1).untyped_storage().tolist(),
    "tensor": lambda x: torch.tensor([x.sum(), 1.0]),
    "in": lambda x: 1.0 in x,
}


def params(names: Iterable[str], prefix: str = "") -> list[Any]:
    def marks(name: str) -> list[pytest.MarkDecorator]:
        why = KNOWN.get(prefix + name)
        return [pytest.mark.xfail(strict=True, reason=why)] if why else []

    return [pytest.param(name, marks=marks(name)) for name in names]


def still_works() -> None:
    graph = saker.capture(lambda x: x.sin() + 1, X)
    torch.testing.assert_close(graph(X), X.sin() + 1)


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = dispatch_state()
    yield
    assert dispatch_state() == before
    assert saker._C.trace_mode() is None
    assert not torch.compiler.is_compiling()
    still_works()


@pytest.mark.parametrize("name", params(READS))
def test_reading_data_is_refused(name: str) -> None:
    with pytest.raises(saker.CaptureError) as raised:
        saker.capture(READS[name], X)
    error = raised.value
    assert error.reason == "DataDependent"
    assert error.file.endswith(HERE)
    assert error.line == READS[name].__code__.co_firstlineno
    assert f"{HERE}:{error.line}" in str(error)
    assert error.operator


def test_a_number_of_a_size_that_is_data_is_refused() -> None:
    def fn(x):
        return torch.zeros(int(x.nonzero().shape[0]))

    with pytest.raises(saker.CaptureError, match="no number is known") as raised:
        saker.capture(fn, X)
    assert raised.value.reason == "Undecided"
    assert raised.value.file.endswith(HERE)
    assert raised.value.line == fn.__code__.co_firstlineno + 1


def test_item_of_a_closed_over_tensor_is_refused() -> None:
    w = torch.ones(())
    with pytest.raises(saker.CaptureError) as raised:
        saker.capture(lambda x: x * w.item(), X)
    assert raised.value.reason == "DataDependent"


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(3, 4)


class Sub(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("is not called")


ARGUMENTS: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "fake": (fake, "FakeTensor"),
    "subclass": (lambda: torch.Tensor._make_subclass(Sub, torch.ones(2)), "subclass"),
    "sparse": (lambda: torch.eye(3).to_sparse(), "dense"),
    "csr": (lambda: torch.eye(3).to_sparse_csr(), "dense"),
    "quantized": (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "dequantize"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_other_kinds_are_refused(name: str) -> None:
    make, text = ARGUMENTS[name]
    with pytest.raises(saker.CaptureError, match=text) as raised:
        saker.capture(lambda x: x, make())
    assert raised.value.reason == "Unsupported"
    assert "argument 0" in str(raised.value)


@pytest.mark.parametrize("name", params((name for name in ARGUMENTS if name != "subclass"), "closed-over "))
def test_closed_over_tensors_of_other_kinds_are_refused(name: str) -> None:
    other = ARGUMENTS[name][0]()
    with pytest.raises(saker.CaptureError) as raised:
        saker.capture(lambda x: torch.add(x, other), torch.ones(other.shape))
    assert raised.value.reason == "Unsupported"
    assert raised.value.file.endswith(HERE)


def test_argument_of_a_transform_is_refused() -> None:
    with pytest.raises(saker.CaptureError, match=r"torch\.func"):
        torch.func.vmap(lambda row: saker.capture(torch.sin, row)(row))(X)


def test_wrong_devices_are_named() -> None:
    other = torch.ones(4, 2, device="meta")
    with pytest.raises(saker.CaptureError, match=r"device|meta"):
        saker.capture(lambda x: x @ other, X)
    with pytest.raises(saker.CaptureError, match="meta"):
        saker.capture(lambda x: x @ torch.ones(4, 2, device="meta"), X)


def test_wrong_shapes_name_the_line() -> None:
    with pytest.raises(saker.CaptureError) as raised:
        saker.capture(lambda x: x @ x, X)
    assert raised.value.reason == "BadArgument"
    assert raised.value.file.endswith(HERE)


def test_tensor_of_another_capture_is_refused() -> None:
    kept = []
    saker.capture(lambda x: kept.append(x + 1) or x, X)
    with pytest.raises(saker.CaptureError, match="has ended"):
        saker.capture(lambda x: x + kept[0], X)

    def nested(x):
        return saker.capture(lambda y: y + x, torch.ones(3, 4))(x)

    with pytest.raises(saker.CaptureError, match="of one capture is used inside of another"):
        saker.capture(nested, X)


def test_tensor_used_on_another_thread_is_refused() -> None:
    import threading

    def fn(x):
        errors = []

        def use():
            try:
                x + 1
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        raise errors[0]

    with pytest.raises(saker.CaptureError, match="thread"):
        saker.capture(fn, X)


DYNAMIC: list[tuple[dict, str]] = [
    ({3: 0}, "not given"),
    ({"name": 0}, "not given"),
    ({0: 5}, "no dimension 5"),
    ({1: 0}, "no tensor"),
    ({0: {0: "not a name"}}, "not a name"),
    ({0: {0: "n", 1: "n"}}, "n is 3 in one argument and 4 in another"),
]


@pytest.mark.parametrize(("dynamic", "text"), DYNAMIC)
def test_bad_dynamic_sizes(dynamic: dict, text: str) -> None:
    with pytest.raises(saker.CaptureError, match=text):
        saker.capture(lambda x, n: x * n, X, 2, dynamic=dynamic)


RUNS: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "sizes": (lambda: torch.ones(2, 4), r"sizes \(2, 4\).*\(3, 4\)"),
    "rank": (lambda: torch.ones(4), "argument 0|dimensions"),
    "dtype": (lambda: torch.ones(3, 4, dtype=torch.float64), "Double"),
    "strides": (lambda: torch.ones(4, 3).t(), "strides"),
    "device": (lambda: torch.ones(3, 4, device="meta"), "meta"),
    "no tensor": (lambda: 3.0, "must be a tensor"),
    "fake": (fake, "FakeTensor|subclass"),
    "sparse": (lambda: torch.ones(3, 4).to_sparse(), "sparse|dense|layout"),
}


@pytest.mark.parametrize("name", params(RUNS, "run "))
def test_running_a_graph_on_something_else(name: str) -> None:
    graph = saker.capture(lambda x: x.sin(), X)
    make, text = RUNS[name]
    with pytest.raises(saker.RunError, match=text):
        graph(make())
    torch.testing.assert_close(graph(X), X.sin())


def test_function_that_is_none() -> None:
    with pytest.raises(TypeError):
        saker.capture(None, X)


def test_module_in_a_capture_keeps_working_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    def fn(x):
        y = model(x)
        y.sum().backward()
        return y.tolist()

    with pytest.raises(saker.CaptureError):
        saker.capture(fn, X)
    assert all(p.grad is None for p in model.parameters())
    assert model[1].num_batches_tracked.item() == 0
    model(X).sum().backward()
    assert model[0].weight.grad is not None
