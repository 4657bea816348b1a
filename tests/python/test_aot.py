"""saker.aot_function against eager mode: values, gradients, aliases, version counters, second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import saker
from differential import Halved

PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[fn.__name__] = fn
    return fn


@program
def pointwise(a, b):
    return (a.sin() * b).exp(), a + b


@program
def matrices(a, b):
    return F.layer_norm(a @ b.t(), (3,)).softmax(-1)


@program
def data_is_written(a, b):
    a.mul_(2)
    b.add_(a)
    return a + b


@program
def written_without_autograd(a, b):
    with torch.no_grad():
        b.mul_(3)
    return a * 2


@program
def written_through_a_view(a, b):
    a[0].mul_(b[1])
    return a.sum()


@program
def argument_is_a_result(a, b):
    return a, b * 2


@program
def views_of_arguments(a, b):
    return a.view(-1), b.t()[1], a[0]


@program
def view_of_a_written_argument(a, b):
    a.mul_(2)
    return a.view(-1), b + 1


@program
def views_of_results(a, b):
    c = a * b
    return c.t(), c[0], c


@program
def view_of_what_is_no_result(a, b):
    return (a * b).t()


@program
def several_views(a, b):
    return (a * b).unbind(0)


@program
def same_result_twice(a, b):
    c = a + b
    return c, c


@program
def detached(a, b):
    c = a * b
    return c, c.detach(), b.detach()


@program
def integers(a, b):
    return (a * b).argmax(1), a.mean()


@program
def gradient_inside(a, b):
    (g,) = torch.autograd.grad((a * a * b).sum(), a, create_graph=True)
    return g * b


@program
def nothing_to_differentiate(a, b):
    return (a.detach() * b.detach()).sum(), 7


@program
def dropout(a, b):
    return F.dropout(a * b, 0.5)


def leaves(kind: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Two arguments and the leaves behind them."""
    made = [torch.arange(12.0).reshape(3, 4) / 7 + 0.3, torch.arange(12.0).reshape(3, 4).cos()]
    if kind == "no grad":
        return made, []
    roots = [t.requires_grad_() for t in made]
    if kind == "one leaf":
        roots[1].requires_grad_(False)
        return roots, roots[:1]
    if kind == "leaves":
        return roots, roots
    return [root * 1.25 for root in roots], roots


def outcome(fn: Callable[..., Any], kind: str, second: bool) -> Any:
    torch.manual_seed(0)
    arguments, roots = leaves(kind)
    try:
        result = fn(*arguments)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    flat = [r for r in (result if isinstance(result, tuple) else (result,)) if isinstance(r, torch.Tensor)]
    state = [(t.detach().clone(), t.requires_grad, t.is_leaf, t._is_view(), t._version) for t in [*flat, *arguments]]
    bases = [[t._base is other for other in [*flat, *arguments]] for t in flat]
    same = [[t is other for other in [*flat, *arguments]] for t in flat]
    loss = sum(t.square().sum() for t in flat if t.requires_grad)
    gradients: Any = []
    if isinstance(loss, torch.Tensor) and roots:
        gradients = torch.autograd.grad(loss, roots, allow_unused=True, create_graph=second)
        if second:
            again = sum(g.square().sum() for g in gradients if g is not None and g.requires_grad)
            if isinstance(again, torch.Tensor):
                gradients = [*gradients, *torch.autograd.grad(again, roots, allow_unused=True)]
    return state, bases, same, [None if g is None else g.detach() for g in gradients], torch.get_rng_state()


def check(got: Any, expected: Any) -> None:
    if isinstance(expected, str):
        assert got == expected
    else:
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("partition", ["default", "min_cut"])
@pytest.mark.parametrize("kind", ["no grad", "one leaf", "leaves", "with history"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, kind: str, partition: str) -> None:
    fn = PROGRAMS[name]
    if name == "gradient_inside" and kind == "no grad":
        pytest.skip("needs a gradient")
    expected = outcome(fn, kind, False)
    compiled = saker.aot_function(fn, partition_fn=partition)
    for _ in range(2):
        check(outcome(compiled, kind, False), expected)


@pytest.mark.parametrize("name", ["pointwise", "matrices", "views_of_results", "data_is_written", "gradient_inside"])
def test_differentiated_twice(name: str) -> None:
    fn = PROGRAMS[name]
    check(outcome(saker.aot_function(fn), "with history", True), outcome(fn, "with history", True))


def test_saved_tensor_that_was_written_raises() -> None:
    a = torch.randn(3, requires_grad=True)
    b = torch.randn(3)
    result = saker.aot_function(torch.mul)(a, b)
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_second_backward_needs_retain_graph() -> None:
    a = torch.randn(3, requires_grad=True)
    compiled = saker.aot_function(torch.exp)
    result = compiled(a)
    result.sum().backward(retain_graph=True)
    result.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        result.sum().backward()


def test_compilers_get_graph_modules() -> None:
    seen: list[Any] = []

    def compiler(module: torch.fx.GraphModule, examples: list[Any]) -> Callable:
        seen.append((type(module), len(examples)))
        return module

    a = torch.randn(3, requires_grad=True)
    compiled = saker.aot_function(lambda x: x.sin().cos(), fw_compiler=compiler)
    compiled(a).sum().backward()
    expected = torch.autograd.grad(a.sin().cos().sum(), a)[0]
    torch.testing.assert_close(a.grad, expected)
    assert len(seen) == 2
    assert all(issubclass(kind, torch.fx.GraphModule) for kind, _ in seen)


def test_module_and_counts() -> None:
    saker.reset(counts=True)
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
    other = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
    other.load_state_dict(module.state_dict())
    compiled = saker.aot_module(other)
    x = torch.randn(5, 4)
    for _ in range(3):
        module(x).sum().backward()
        compiled(x).sum().backward()
    torch.testing.assert_close(dict(other.named_buffers()), dict(module.named_buffers()))
    torch.testing.assert_close([p.grad for p in other.parameters()], [p.grad for p in module.parameters()])
    assert saker.stats()["graphs"] == 1


def test_module_simplified() -> None:
    module = torch.nn.Linear(4, 8)
    x = torch.randn(5, 4)
    compiled = saker.aot_module_simplified(module, (x,))
    expected = torch.autograd.grad(module(x).square().sum(), list(module.parameters()))
    torch.testing.assert_close(torch.autograd.grad(compiled(x).square().sum(), list(module.parameters())), expected)
    assert [name for name, _ in compiled.named_parameters()] == ["weight", "bias"]


def test_a_number_of_a_size_that_is_data_is_refused():
    x = torch.randn(5)
    compiled = saker.aot_function(lambda t: torch.zeros(int(t.nonzero().shape[0])))
    with pytest.raises(saker.CaptureError, match="no number is known") as raised:
        compiled(x)
    assert raised.value.file.endswith("test_aot.py")


def test_a_gradient_of_a_size_that_is_data():
    def fn(t):
        return torch.masked_select(t, t > 0).sin()

    compiled = saker.aot_function(fn)
    for seed in range(2):
        x = torch.randn(4, 5, generator=torch.Generator().manual_seed(seed)).requires_grad_()
        same = x.detach().requires_grad_()
        compiled(x).sum().backward()
        fn(same).sum().backward()
        torch.testing.assert_close(x.grad, same.grad, rtol=0, atol=0)


def test_a_function_that_gives_its_argument_has_its_own_gradient():
    x = torch.ones(2, 2, requires_grad=True)
    saker.aot_function(Halved.apply)(x).sum().backward()
    assert torch.equal(x.grad, torch.full((2, 2), 0.5))


def test_a_view_that_comes_to_require_grad():
    def fn(a, b):
        view = a.view(-1)
        view.requires_grad_(True)
        return view

    out = saker.aot_function(fn)(torch.ones(3, 3), torch.ones(3, 3, requires_grad=True))
    assert out.requires_grad
    assert out.is_leaf
