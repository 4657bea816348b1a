"""Arguments that are not plain dense tensors, and higher-order operators, do what they do in eager mode."""

from __future__ import annotations

import socket
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import saker
from torch_versions import captures_see_python

COMPILERS = {"compile": saker.compile, "aot": saker.aot_function}
OF_SUBCLASSES = ["compile", pytest.param("aot", marks=captures_see_python)]


def nested(layout: torch.layout) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=layout)


def sparse_csr() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.eye(3).mul(torch.randn(3)).to_sparse_csr()


def quantized() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8)


def plain(tensor: torch.Tensor) -> list[torch.Tensor]:
    if tensor.is_nested:
        return list(tensor.unbind())
    return [tensor.dequantize() if tensor.is_quantized else tensor.to_dense()]


TENSORS: dict[str, tuple[Callable[[], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]] = {
    "nested strided": (lambda: nested(torch.strided), lambda x: x * 2),
    "nested strided, padded": (lambda: nested(torch.strided), lambda x: torch.nested.to_padded_tensor(x, 0.0)),
    "nested jagged": (lambda: nested(torch.jagged), lambda x: x * 2),
    "sparse": (lambda: torch.eye(3).mul(torch.randn(3)).to_sparse(), lambda x: x * 2),
    "sparse csr": (sparse_csr, lambda x: x * 2),
    "mkldnn": (lambda: torch.randn(3).to_mkldnn(), lambda x: x * x),
    "quantized": (quantized, lambda x: x.dequantize() * 2),
}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("kind", TENSORS)
def test_tensors_without_plain_memory(kind: str, compiler: str) -> None:
    make, fn = TENSORS[kind]
    compiled = COMPILERS[compiler](fn)
    for _ in range(3):
        x = make()
        got, expected = compiled(x), fn(x)
        assert got.layout == expected.layout
        for one, other in zip(plain(got), plain(expected), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_strided_nested_tensors_beside_others(compiler: str) -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nested.to_padded_tensor(x, 0.0) @ w

    compiled, w = COMPILERS[compiler](fn), torch.randn(3, 5, requires_grad=True)
    for _ in range(3):
        x = nested(torch.strided)
        (expected,) = torch.autograd.grad(fn(x, w).sum(), w)
        (got,) = torch.autograd.grad(compiled(x, w).sum(), w)
        assert torch.equal(got, expected)


@pytest.fixture
def mesh() -> Iterator[Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@pytest.mark.parametrize("compiler", OF_SUBCLASSES)
@pytest.mark.parametrize("placement", [Shard(0), Replicate()], ids=str)
def test_distributed_tensors(mesh: Any, placement: Any, compiler: str) -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x * 2) @ w

    compiled = COMPILERS[compiler](fn)
    for _ in range(3):
        x = distribute_tensor(torch.randn(4, 4), mesh, [placement])
        w = distribute_tensor(torch.randn(4, 4), mesh, [Replicate()]).requires_grad_()
        expected, got = fn(x, w), compiled(x, w)
        assert type(got) is type(expected)
        assert got.placements == expected.placements
        assert torch.equal(got.to_local(), expected.to_local())
        (gradient,) = torch.autograd.grad(expected.sum(), w)
        (other,) = torch.autograd.grad(got.sum(), w)
        assert other.placements == gradient.placements
        assert torch.equal(other.to_local(), gradient.to_local())


@captures_see_python
@pytest.mark.parametrize("compiler", COMPILERS)
def test_distributed_tensors_of_other_placements_are_compiled_again(mesh: Any, compiler: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    compiled = COMPILERS[compiler](fn)
    before = saker.stats()["graphs"]
    for placement in (Shard(0), Replicate(), Shard(1), Shard(0)):
        x = distribute_tensor(torch.randn(4, 4), mesh, [placement])
        got = compiled(x)
        assert got.placements == (placement,)
        assert torch.equal(got.to_local(), (x * 2).to_local())
    assert saker.stats()["graphs"] >= before + 3


# --- higher-order operators ---


def prints_sizes(x: torch.Tensor) -> torch.Tensor:
    torch.ops.higher_order.print("{} rows, {how}", x.shape[0], how="whole")
    return x + 1


def prints_data(x: torch.Tensor) -> torch.Tensor:
    torch.ops.higher_order.print("sum {}", x.sum())
    return x + 1


@pytest.mark.parametrize("fn", [prints_sizes, prints_data])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_higher_order_print(fn: Callable, compiler: str, capsys: pytest.CaptureFixture) -> None:
    compiled = COMPILERS[compiler](fn)
    for i in range(3):
        x = torch.full((2, 3), float(i))
        expected = fn(x)
        printed = capsys.readouterr().out
        assert torch.equal(compiled(x), expected)
        assert capsys.readouterr().out == printed


def test_higher_order_print_in_a_deferred_block(capsys: pytest.CaptureFixture) -> None:
    with saker.deferred():
        y = prints_data(torch.ones(2) * 3)
    assert torch.equal(y, torch.full((2,), 4.0))
    assert capsys.readouterr().out == "sum 6.0\n"


@pytest.mark.parametrize("fn", [prints_sizes, prints_data])
def test_a_captured_graph_prints(fn: Callable, capsys: pytest.CaptureFixture) -> None:
    graph = saker.capture(fn, torch.ones(2, 3))
    assert capsys.readouterr().out == ""  # nothing has been computed
    for i in range(3):
        x = torch.full((2, 3), float(i))
        expected = fn(x)
        printed = capsys.readouterr().out
        assert torch.equal(graph(x), expected)
        assert capsys.readouterr().out == printed
