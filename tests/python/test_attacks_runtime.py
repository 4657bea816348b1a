"""Programs that once came out wrong in replays: kernels that resize what they compute into, tensors of the workspace
whose layout a program changes, gradients whose layout a kernel cannot read, graphs of text that are not whole."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import saker


def replays(fn: Callable[..., Any], *makers: Callable[[], torch.Tensor], grad: bool = False) -> None:
    """Equal in several replays, on other data each time, without a warning that eager mode does not give."""
    compiled = saker.compile(fn)
    before = saker.stats()["replays"]
    for _ in range(4):
        given = [make().requires_grad_(grad) for make in makers]
        again = [each.detach().clone().requires_grad_(grad) for each in given]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            expected, got = fn(*given), compiled(*again)
            torch.testing.assert_close(got, expected, equal_nan=True)
            if grad:
                a = torch.autograd.grad(expected.sum(), given, allow_unused=True)
                b = torch.autograd.grad(got.sum(), again, allow_unused=True)
                torch.testing.assert_close(b, a)
    assert saker.stats()["replays"] == before + 3


def rand(*sizes: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.rand(*sizes)


LOSSES = {
    "binary_cross_entropy": F.binary_cross_entropy,
    "mse_loss": F.mse_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": F.huber_loss,
    "l1_loss": F.l1_loss,
    "soft_margin_loss": F.soft_margin_loss,
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
    "kl_div": lambda a, b: F.kl_div(a, b, reduction="batchmean"),
    "poisson_nll_loss": F.poisson_nll_loss,
    "multilabel_soft_margin_loss": F.multilabel_soft_margin_loss,
    "nll_loss": lambda a, b: F.nll_loss(a, b.argmax(1)),
    "multi_margin_loss": lambda a, b: F.multi_margin_loss(a, b.argmax(1)),
    "cosine_embedding_loss": lambda a, b: F.cosine_embedding_loss(a, b, torch.ones(5)),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_inside_of_a_function(name: str, reduction: str, grad: bool) -> None:
    loss = LOSSES[name]
    takes = loss.__name__ != "<lambda>"
    if not takes and reduction != "mean":
        reduction = "mean"

    def fn(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return (loss(p, t, reduction=reduction) if takes else loss(p, t)) * 2 + 1

    compiled = saker.compile(fn)
    for _ in range(4):
        p, t = torch.rand(5, 3), torch.rand(5, 3)
        p.requires_grad_(grad)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            expected, got = fn(p, t), compiled(p, t)
        torch.testing.assert_close(got, expected)
        if grad:
            torch.testing.assert_close(torch.autograd.grad(got.sum(), p), torch.autograd.grad(expected.sum(), p))


def as_strided_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.as_strided_((2, 2), (1, 2), 3)
    return y + 1


def set_in_place(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y, z = x * 2, x * 3
    w = y + z
    y.set_(z)
    return w, y + 1


def transposed_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.t_()
    return y @ x


def squeezed_in_place(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).sum(0, keepdim=True)
    y.squeeze_().unsqueeze_(1)
    return y * 3


def resized_by_out(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.add(x[0], 1, out=y)
    return y * 2


@pytest.mark.parametrize(
    "fn", [as_strided_in_place, set_in_place, transposed_in_place, squeezed_in_place], ids=lambda f: f.__name__
)
def test_layouts_that_change_in_place(fn: Callable[..., Any]) -> None:
    replays(fn, rand(4, 4))


def test_out_that_is_resized() -> None:
    compiled = saker.compile(resized_by_out)
    for _ in range(5):
        x = torch.rand(4, 4)
        torch.testing.assert_close(compiled(x), resized_by_out(x))


@pytest.mark.parametrize("grad", [False, True])
def test_a_vector_and_a_matrix(grad: bool) -> None:
    replays(lambda v, m: v @ m + 1, rand(4), rand(4, 4), grad=grad)
    replays(lambda v, m, b: F.linear(v, m, b) * 2, rand(4), rand(3, 4), rand(3), grad=grad)
    replays(lambda v, m: m @ v * 2, rand(4), rand(4, 4), grad=grad)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "expanded": lambda y: y.sum(),
    "contiguous": lambda y: (y * y).sum(),
    "transposed": lambda y: (y.transpose(0, 1).contiguous() * 2).cos().sum(),
    "last dimension first": lambda y: (y.movedim(-1, 0).contiguous() * 2).cos().sum(),
    "strided": lambda y: torch.stack([y.sin(), y], -1)[..., 1].sum(),
}

MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "group norm": (lambda: nn.GroupNorm(2, 4), (8, 4, 3)),
    "group norm of an image": (lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4)), (2, 4, 3, 3)),
    "group norm and activation": (lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU()), (2, 4, 3, 3)),
    "weight norm": (lambda: nn.utils.weight_norm(nn.Linear(4, 4)), (3, 4)),
    "instance norm": (lambda: nn.InstanceNorm2d(4, affine=True), (2, 4, 3, 3)),
    "batch norm": (lambda: nn.BatchNorm2d(4), (2, 4, 3, 3)),
    "layer norm": (lambda: nn.LayerNorm(3), (8, 4, 3)),
    "convolution": (lambda: nn.Conv1d(4, 4, 3, padding=1), (2, 4, 5)),
    "softmax": (lambda: nn.Softmax(1), (2, 4, 5)),
    "pooling": (lambda: nn.MaxPool2d(2), (2, 4, 4, 4)),
    "upsampling": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (2, 4, 3, 3)),
    "attention": (lambda: nn.MultiheadAttention(4, 2), (3, 2, 4)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore:.*weight_norm.*")
def test_gradients_of_other_layouts(name: str, layout: str) -> None:
    make, sizes = MODULES[name]
    module = make()
    call = (lambda f, x: f(x, x, x)[0]) if name == "attention" else (lambda f, x: f(x))
    compiled = saker.compile(module)
    for _ in range(4):
        x = torch.randn(*sizes, requires_grad=True)
        wanted = [x, *module.parameters()]
        expected = torch.autograd.grad(LAYOUTS[layout](call(module, x)), wanted)
        got = torch.autograd.grad(LAYOUTS[layout](call(compiled, x)), wanted)
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


BROKEN = {
    "a body without return": """graph @main(%x: f32[4], %p: bool[]) {
  %r: f32[4] = saker::if(%p) { () { %0: f32[4] = aten::exp(%x) }, () { return %x } }
  return %r
}""",
    "a call with too few arguments": """graph @main(%x: f32[4]) {
  %r: f32[4] = aten::add.Tensor(%x)
  return %r
}""",
}


@pytest.mark.parametrize("name", BROKEN)
def test_graphs_that_are_not_whole_are_refused(name: str) -> None:
    try:
        graph = saker.parse(BROKEN[name])
    except saker.ParseError:
        return
    for use in (lambda: graph.run([torch.ones(4), torch.tensor(True)]), lambda: graph.run_passes("cse")):
        with pytest.raises(ValueError, match=r"\w"):
            use()
