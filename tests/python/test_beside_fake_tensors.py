"""PyTorch's FakeTensors and the compilers that use them work in a process with Saker, which records on the dispatch key
that PyTorch has named after them; and Saker works beside them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, is_fake
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import saker
from alone import alone
from torch_versions import captures_see_python


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.first(x).relu())
        y = y + torch.zeros(8).add_(y.mean(0))
        return self.last(y).softmax(-1)


def net() -> Net:
    torch.manual_seed(3)
    return Net()


def example(rows: int = 4) -> torch.Tensor:
    return torch.randn(rows, 6, generator=torch.Generator().manual_seed(rows))


def gradients(module: nn.Module, result: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(result.square().sum(), list(module.parameters())))


def expect(module: nn.Module, call: Callable[[torch.Tensor], torch.Tensor], rows: tuple[int, ...] = (4, 4, 5)) -> None:
    """Results and gradients of eager mode, for these sizes."""
    for count in rows:
        x = example(count)
        wanted, found = module(x), call(x)
        torch.testing.assert_close(found, wanted)
        for one, other in zip(gradients(module, found), gradients(module, wanted), strict=True):
            torch.testing.assert_close(one, other)


# --- PyTorch's ways ---


def use_fake_mode() -> None:
    module = net()
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        x = mode.from_tensor(example())
        y = module(x)
        made = torch.ones(2, 3) @ torch.empty(3, 4)
    assert isinstance(y, FakeTensor) and isinstance(made, FakeTensor)
    assert (y.shape, y.stride(), y.dtype, y.device) == ((4, 3), (3, 1), torch.float32, torch.device("cpu"))
    assert made.shape == (2, 4)
    assert is_fake(y) and not is_fake(example())
    with pytest.raises(Exception, match=r"data-dependent|DataDependent|_local_scalar_dense"), mode:
        y.sum().item()


def use_fake_mode_with_symbols() -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    x = mode.from_tensor(example(), static_shapes=False)
    with mode:
        y = torch.cat([x, x]).sin().sum(1)
    assert isinstance(y.shape[0], torch.SymInt) and y.shape[0].node.hint == 8


def use_make_fx() -> None:
    graph = make_fx(lambda x: torch.zeros(6).add(x).cos(), tracing_mode="symbolic")(example())
    assert [str(node.target) for node in graph.graph.nodes if node.op == "call_function"].count("aten.cos.default") == 1
    torch.testing.assert_close(graph(example(5)), example(5).cos())


def use_torch_compile() -> None:
    torch._dynamo.reset()
    module = net()
    expect(module, torch.compile(module, backend="aot_eager"))


def use_torch_export() -> None:
    module, rows = net(), torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(module, (example(),), dynamic_shapes={"x": {0: rows}})
    for size in (4, 7):
        torch.testing.assert_close(program.module()(example(size)), module(example(size)))


# --- Saker's ways ---


def use_saker_compile() -> None:
    module = net()
    before = saker.stats()["replays"]
    expect(module, saker.compile(module))
    assert saker.stats()["replays"] > before


def use_saker_capture() -> None:
    module = net()
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    captured = saker.capture(module, example())
    torch.testing.assert_close(captured(example()), module(example()))


def use_saker_deferred() -> None:
    module = net()
    with saker.deferred():
        y = module(example())
        found = gradients(module, y)
    for one, other in zip(found, gradients(module, module(example())), strict=True):
        torch.testing.assert_close(one, other)


def use_saker_aot() -> None:
    module = net()
    compiled = saker.aot_module(module)
    expect(module, compiled, rows=(4, 4))


TORCHS = [use_fake_mode, use_fake_mode_with_symbols, use_make_fx, use_torch_compile, use_torch_export]
SAKERS = [use_saker_compile, use_saker_capture, use_saker_deferred, use_saker_aot]


@alone
def test_each_between_two_others() -> None:
    for torchs in TORCHS:
        for ours in SAKERS:
            ours()
            torchs()
    for ours in SAKERS:
        ours()


@alone
def test_torchs_compilers_first() -> None:
    for each in (*TORCHS, *SAKERS, *TORCHS):
        each()


@alone
def test_a_function_of_one_compiler_calls_one_of_the_other() -> None:
    torch._dynamo.reset()
    inner = torch.compile(lambda x: x.sin() * 2, backend="aot_eager")
    call = saker.compile(lambda x: inner(x) + 1)
    for rows in (4, 4, 5):
        torch.testing.assert_close(call(example(rows)), example(rows).sin() * 2 + 1)
    ours = saker.compile(lambda x: x.cos() * 3)
    call = torch.compile(lambda x: torch._dynamo.disable(ours)(x) - 1, backend="aot_eager")
    for rows in (4, 4, 5):
        torch.testing.assert_close(call(example(rows)), example(rows).cos() * 3 - 1)


@captures_see_python
@alone
def test_fake_tensors_inside_of_saker() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        with FakeTensorMode() as mode:
            size = mode.from_tensor(torch.empty(3, 2)).t().sum(1).shape[0]
        return x * size

    compiled = saker.compile(program)
    for _ in range(3):
        assert torch.equal(compiled(example()), example() * 2)
    with saker.deferred():
        y = program(example())
    assert torch.equal(y, example() * 2)


def test_stand_ins_are_no_fake_tensors() -> None:
    seen = []

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        seen.append((is_fake(x), is_fake(y), is_fake(y.view(-1))))
        return y

    saker.capture(program, example())
    with saker.deferred():
        program(example())
    saker.aot_function(program)(example().requires_grad_()).sum().backward()
    assert len(seen) >= 3
    assert set(seen) == {(False, False, False)}


def test_tensors_that_have_left_a_trace_are_printed() -> None:
    with saker.deferred():
        x = torch.arange(3.0)
        y = x + 1
        views = [y.view(-1), y.detach(), y[1:], y.data]
    for tensor in (x, y, *views):
        assert not is_fake(tensor)
        assert "..." not in repr(tensor)
