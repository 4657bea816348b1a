"""Back ends and compilers whose callables give something wrong: each gets a sentence, and none ends the process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import saker


def two(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sin() * x.cos(), x + 1


def made_by(change: Callable[[list[Any]], Any]) -> Callable:
    """A compiler that runs the graph, and gives what ``change`` makes of its results."""
    return lambda module, examples: lambda *inputs: change(list(module(*inputs)))


def plain(module: Any, examples: Any) -> Any:
    return module


WRONG = {
    "one too few": (lambda r: r[:-1], r"gave \d+ results? for a graph that has \d+"),
    "two too few": (lambda r: r[:-2], r"gave \d+ results? for a graph that has \d+"),
    "none at all": (lambda r: [], "gave 0 results"),
    "one too many": (lambda r: [*r, r[0]], r"gave \d+ results for a graph that has \d+"),
    "no list": (lambda r: None, "gave a NoneType in place of"),
    "a number": (lambda r: 3, "gave a int in place of"),
    "a dict": (lambda r: dict(enumerate(r)), "gave a dict in place of"),
    "a string among them": (lambda r: ["a", *r[1:]], "gave a str as result 0, which is a tensor in the graph"),
    "None among them": (lambda r: [None, *r[1:]], "gave None as result 0, which is a tensor in the graph"),
    "a list among them": (lambda r: [[r[0]], *r[1:]], "gave a list as result 0"),
    "another dtype": (lambda r: [r[0].double(), *r[1:]], "gave a tensor of Double .* as result 0"),
    "another shape": (lambda r: [r[0][None], *r[1:]], r"with sizes \[1, 3\] .* as result 0"),
    "another size": (lambda r: [r[0][:-1], *r[1:]], r"with sizes \[2\] .* as result 0"),
}
wrong = pytest.mark.parametrize(("change", "told"), WRONG.values(), ids=WRONG.keys())


@wrong
def test_forward(change: Callable, told: str) -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(saker.BackendError, match=told) as raised:
        saker.aot_function(two, fw_compiler=made_by(change), bw_compiler=plain)(x)
    assert "the fw_compiler made" in str(raised.value)


@wrong
def test_forward_of_inference(change: Callable, told: str) -> None:
    with pytest.raises(saker.BackendError, match=told) as raised:
        saker.aot_function(two, fw_compiler=plain, inference_compiler=made_by(change))(torch.ones(3))
    assert "the inference_compiler made" in str(raised.value)


@wrong
def test_backward(change: Callable, told: str) -> None:
    x, w = (torch.rand(3, requires_grad=True) for _ in range(2))
    y = saker.aot_function(lambda x, w: x * w, fw_compiler=plain, bw_compiler=made_by(change))(x, w)
    with pytest.raises(saker.BackendError, match=told) as raised:
        y.sum().backward()
    assert "the bw_compiler made" in str(raised.value)


@wrong
def test_backward_for_some_tangents(change: Callable, told: str) -> None:
    x, w = (torch.rand(3, requires_grad=True) for _ in range(2))
    y, _ = saker.aot_function(lambda x, w: (x * w, x.exp() + w), fw_compiler=plain, bw_compiler=made_by(change))(x, w)
    with pytest.raises(saker.BackendError, match=told):
        y.sum().backward()


@wrong
@pytest.mark.parametrize("grad", [False, True])
def test_compile(change: Callable, told: str, grad: bool) -> None:
    x = torch.ones(3, requires_grad=grad)
    compiled = saker.compile(two, backend=made_by(change))
    compiled(x)  # runs eagerly, and is recorded
    for _ in range(2):
        with pytest.raises(saker.BackendError, match=told) as raised:
            compiled(x)
        assert "the backend made" in str(raised.value)


def test_compile_with_sizes_that_change() -> None:
    compiled = saker.compile(two, backend=made_by(lambda r: r[:-1]), dynamic=True)
    with pytest.raises(saker.BackendError, match="gave 1 result for a graph that has 2"):
        compiled(torch.ones(5))


def test_wrong_results_are_told_where_something_was_written() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    compiled = saker.compile(step, backend=made_by(lambda r: []))
    compiled(torch.ones(3))
    with pytest.raises(saker.BackendError):
        compiled(torch.ones(3))


@pytest.mark.parametrize("made", [None, 3, "fast"])
def test_what_cannot_be_called_is_refused_when_it_is_made(made: Any) -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(saker.BackendError, match="the backend must give something to call, not a"):
        saker.compile(two, backend=lambda module, examples: made)(x)
    with pytest.raises(saker.BackendError, match="the fw_compiler must give something to call, not a"):
        saker.aot_function(two, fw_compiler=lambda module, examples: made)(x)
    with pytest.raises(saker.BackendError, match="the inference_compiler must give something to call, not a"):
        saker.aot_function(two, fw_compiler=plain, inference_compiler=lambda module, examples: made)(x.detach())
    y, _ = saker.aot_function(two, fw_compiler=plain, bw_compiler=lambda module, examples: made)(x)
    with pytest.raises(saker.BackendError, match="the bw_compiler must give something to call, not a"):
        y.sum().backward()


@pytest.mark.parametrize("name", ["fw_compiler", "bw_compiler", "inference_compiler"])
def test_compilers_that_cannot_be_called(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be a callable, not a int"):
        saker.aot_function(two, **{name: 3})
    with pytest.raises(TypeError, match=f"{name} must be a callable, not a int"):
        saker.aot_module(torch.nn.Linear(2, 2), **{name: 3})


def test_passes_that_give_no_module() -> None:
    with pytest.raises(saker.BackendError, match="pre_grad_passes must give a module, not a NoneType"):
        saker.aot_module_simplified(torch.nn.Linear(2, 2), (torch.ones(2),), pre_grad_passes=lambda mod, args: None)


def test_a_backend_that_is_no_callable() -> None:
    with pytest.raises(TypeError, match="backend must be a name or a callable, not a int"):
        saker.compile(two, backend=3)


GOOD = {
    "a list": lambda r: r,
    "a tuple": tuple,
    "an iterator": iter,
}


@pytest.mark.parametrize("change", GOOD.values(), ids=GOOD.keys())
def test_what_is_right_is_taken(change: Callable) -> None:
    x = torch.rand(3, requires_grad=True)
    expected = two(x)
    (gradient,) = torch.autograd.grad(sum(r.sum() for r in expected), x)
    for compiled in (
        saker.compile(two, backend=made_by(change)),
        saker.aot_function(two, fw_compiler=made_by(change)),
    ):
        for _ in range(2):
            found = compiled(x)
            assert all(map(torch.equal, found, expected))
            assert torch.allclose(torch.autograd.grad(sum(r.sum() for r in found), x)[0], gradient)


def test_sizes_that_data_decides_are_the_backends() -> None:
    compiled = saker.compile(lambda x: x[x > 0] * 2, backend=plain)
    for values in ([1.0, -1, 2], [1.0, 1, 1], [-1.0, -1, -1]):
        x = torch.tensor(values)
        assert torch.equal(compiled(x), x[x > 0] * 2)


ENDED = """
import torch, saker
x = torch.ones(3, requires_grad=True)
def short(module, examples):
    return lambda *inputs: list(module(*inputs))[:-2]
for call in (
    lambda: saker.aot_function(lambda a: (a.sin(), a.cos(), a.exp()), fw_compiler=short)(x),
    lambda: saker.aot_function(lambda a: (a.sin(), a.cos()), inference_compiler=short)(x.detach()),
):
    try:
        call()
    except saker.BackendError as error:
        print("told")
"""


def test_the_process_lives() -> None:
    ran = subprocess.run([sys.executable, "-c", ENDED], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["told", "told"]
