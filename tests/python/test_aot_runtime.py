"""How compiled functions run inside of autograd: hooks, modes, partial gradients, second derivatives."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import saker


@pytest.fixture(autouse=True)
def counts() -> None:
    saker.reset(counts=True)


def fallbacks() -> int:
    return saker.stats()["fallbacks"]


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return g * 7 * x  # not the derivative: it must be this code that runs


def both(fn: Callable[..., Any], *shapes: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Gradients by eager mode and by the compiled function, for the sum of squares of the results."""
    found = []
    for call in (fn, saker.aot_function(fn)):
        torch.manual_seed(0)
        args = [torch.randn(shape, requires_grad=True) for shape in shapes]
        results = call(*args)
        results = results if isinstance(results, tuple) else (results,)
        loss = sum(r.square().sum() for r in results)
        found.append([*results, *torch.autograd.grad(loss, args, allow_unused=True)])
    return found[0], found[1]


# --- code of the user in the backward ---


def test_hook_inside_runs_once_a_backward() -> None:
    calls: list[int] = []

    def fn(x):
        y = x * 2
        y.register_hook(lambda g: calls.append(1) or g * 3)
        return y.sin()

    a = torch.randn(3, requires_grad=True)
    compiled = saker.aot_function(fn)
    for _ in range(2):
        calls.clear()
        (got,) = torch.autograd.grad(compiled(a).sum(), a)
        assert calls == [1]
        torch.testing.assert_close(got, (2 * a).cos() * 6)
    assert fallbacks() == 2


def test_function_written_in_python() -> None:
    eager, compiled = both(lambda x: Cube.apply(x.sin()) * 2, (4,))
    torch.testing.assert_close(compiled, eager)
    assert fallbacks() == 1


def test_hooks_on_arguments() -> None:
    def run(call: Callable[..., Any]) -> tuple[list[float], torch.Tensor]:
        seen: list[float] = []
        leaf = torch.arange(3.0, requires_grad=True)
        middle = leaf * 2
        leaf.register_hook(lambda g: seen.append(g.sum().item()))
        middle.register_hook(lambda g: g * 10)
        call(middle, leaf).sum().backward()
        return seen, leaf.grad

    fn = lambda a, b: (a * b).sin()  # noqa: E731
    assert str(run(saker.aot_function(fn))) == str(run(fn))
    assert fallbacks() == 0


def test_hook_on_an_argument_registered_inside() -> None:
    def fn(x):
        x.register_hook(lambda g: g * 5)
        return x * 2

    eager, compiled = both(fn, (3,))
    torch.testing.assert_close(compiled, eager)


def test_saved_tensor_hooks_around_the_call() -> None:
    packed: list[torch.Tensor] = []
    unpacked: list[int] = []

    def pack(t: torch.Tensor) -> int:
        packed.append(t)
        return len(packed) - 1

    def unpack(i: int) -> torch.Tensor:
        unpacked.append(i)
        return packed[i]

    compiled = saker.aot_function(lambda a, b: (a * b).sin().exp())
    a, b = torch.randn(3, requires_grad=True), torch.randn(3)
    for _ in range(2):  # when it compiles and afterwards
        packed.clear()
        unpacked.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            result = compiled(a, b)
        assert packed and not unpacked
        (got,) = torch.autograd.grad(result.sum(), a)
        assert len(unpacked) == len(packed)
        torch.testing.assert_close(got, torch.autograd.grad((a * b).sin().exp().sum(), a)[0])


# --- gradients that are not asked for ---


@pytest.mark.parametrize("used", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_only_some_results_get_a_gradient(used: tuple[int, ...]) -> None:
    def fn(a, b):
        return a.log(), a * b, b.exp()

    def gradients(call: Callable[..., Any]) -> list[Any]:
        a, b = torch.zeros(3, requires_grad=True), torch.ones(3, requires_grad=True)
        results = call(a, b)
        return list(torch.autograd.grad(sum(results[i].sum() for i in used), [a, b], allow_unused=True))

    compiled = saker.aot_function(fn)
    for _ in range(2):
        # log has an infinite gradient at 0: a zero for a missing one would make nan of it.
        assert str(gradients(compiled)) == str(gradients(fn))


def test_loss_beside_other_results() -> None:
    eager, compiled = both(lambda a, b: ((a @ b).softmax(-1), (a @ b).sum()), (3, 4), (4, 3))
    torch.testing.assert_close(compiled, eager)


# --- twice and more ---


def test_gradient_penalty() -> None:
    def run(call: Callable[..., Any]) -> torch.Tensor:
        torch.manual_seed(1)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        x = torch.randn(5, 4, requires_grad=True)
        score = call(x, *net.parameters())
        (g,) = torch.autograd.grad(score.sum(), x, create_graph=True)
        ((g.norm(2, dim=1) - 1) ** 2).mean().backward()
        return torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None])

    def fn(x, w1, b1, w2, b2):
        return F.linear(torch.tanh(F.linear(x, w1, b1)), w2, b2)

    torch.testing.assert_close(run(saker.aot_function(fn)), run(fn))
    assert fallbacks() == 0


def test_hessian_vector_products_to_the_third_order() -> None:
    def run(call: Callable[..., Any]) -> list[torch.Tensor]:
        x = torch.linspace(0.1, 1, 4, requires_grad=True)
        found, value = [], call(x)
        for _ in range(3):
            (value,) = torch.autograd.grad((value * torch.arange(1.0, 5)).sum(), x, create_graph=True)
            found.append(value.detach())
        return found

    fn = lambda x: (x**4).sin() * x.exp()  # noqa: E731
    torch.testing.assert_close(run(saker.aot_function(fn)), run(fn))


def test_second_derivative_respects_no_grad_inside() -> None:
    def fn(x):
        with torch.no_grad():
            scale = x.square()
        return (x * x * x * scale + x * x.detach()).sum()

    def second(call: Callable[..., Any]) -> torch.Tensor:
        x = torch.arange(1.0, 4, requires_grad=True)
        (g,) = torch.autograd.grad(call(x), x, create_graph=True)
        return torch.autograd.grad(g.sum(), x)[0]

    torch.testing.assert_close(second(saker.aot_function(fn)), second(fn))


def test_second_derivative_of_some_results_and_of_random_numbers() -> None:
    def fn(a, b):
        return F.dropout(a * a * b, 0.5), a.log(), (b * b).sum()

    def run(call: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(3)
        a, b = torch.ones(4, requires_grad=True), torch.full((4,), 2.0, requires_grad=True)
        first, _, _ = call(a, b)
        state = torch.get_rng_state()
        grads = torch.autograd.grad(first.sum(), [a, b], create_graph=True)
        again = torch.autograd.grad(sum(g.sum() for g in grads), [a, b])
        assert torch.equal(torch.get_rng_state(), state)
        return [*grads, *again]

    torch.testing.assert_close(run(saker.aot_function(fn)), run(fn))


def test_second_derivative_where_one_argument_is_computed_from_another() -> None:
    def run(call: Callable[..., Any]) -> list[Any]:
        x = torch.arange(1.0, 4, requires_grad=True)
        y = x * x
        (g,) = torch.autograd.grad(call(x, y).sum(), x, create_graph=True)
        return [g, *torch.autograd.grad(g.sum(), x)]

    fn = lambda x, y: x * y * y  # noqa: E731
    torch.testing.assert_close(run(saker.aot_function(fn)), run(fn))


def test_backward_under_vmap() -> None:
    compiled = saker.aot_function(lambda x: x.sin() * x)
    x = torch.arange(3.0, requires_grad=True)
    (got,) = torch.autograd.grad(compiled(x), x, torch.eye(3), is_grads_batched=True)
    (expected,) = torch.autograd.grad(x.sin() * x, x, torch.eye(3), is_grads_batched=True)
    torch.testing.assert_close(got, expected)


def test_backward_inside_of_a_transform() -> None:
    x = torch.arange(3.0, requires_grad=True)

    def run(fn: Callable[..., Any]) -> tuple[torch.Tensor, ...]:
        result = fn(x)

        def pulled(tangent: torch.Tensor) -> torch.Tensor:
            return torch.autograd.grad(result, x, tangent, retain_graph=True)[0]

        return torch.vmap(pulled)(torch.eye(3)), pulled(torch.ones(3))

    fn = lambda x: x.sin() * x  # noqa: E731
    torch.testing.assert_close(run(saker.aot_function(fn)), run(fn))


def test_inside_of_transforms() -> None:
    fn = lambda x: (x.sin() * x).sum()  # noqa: E731
    compiled = saker.aot_function(fn)
    x = torch.arange(6.0).reshape(2, 3)
    torch.testing.assert_close(torch.func.grad(compiled)(x), torch.func.grad(fn)(x))
    torch.testing.assert_close(torch.vmap(compiled)(x), torch.vmap(fn)(x))


# --- modes and states ---


def test_called_in_another_grad_mode() -> None:
    compiled = saker.aot_function(lambda x: x * x)
    a = torch.arange(3.0, requires_grad=True)
    with torch.no_grad():
        assert not compiled(a).requires_grad
    assert torch.equal(torch.autograd.grad(compiled(a).sum(), a)[0], 2 * a)
    with torch.inference_mode():
        assert compiled(a).is_inference()
    assert not compiled(a.detach()).requires_grad
    assert not compiled(torch.ones(3)).requires_grad
    assert fallbacks() == 0


def test_inference_tensors() -> None:
    with torch.inference_mode():
        given = torch.arange(6.0).reshape(2, 3)
    compiled = saker.aot_function(lambda x: (x * 2, x.t(), x))
    product, view, same = compiled(given)
    assert same is given and not product.is_inference() and view.is_inference()

    def write(x):
        x.mul_(2)
        return x + 1

    with torch.inference_mode():
        assert torch.equal(saker.aot_function(write)(given), given + 1)
        assert given[1, 2] == 10
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        saker.aot_function(write)(given)


def test_autocast() -> None:
    compiled = saker.aot_function(lambda a, b: a @ b)
    a, b = torch.randn(3, 3), torch.randn(3, 3)
    assert compiled(a, b).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(a, b).dtype == torch.bfloat16
    assert compiled(a, b).dtype == torch.float32


def test_anomaly_mode_names_the_line() -> None:
    def fn(x):
        return torch.sqrt(x * 0)

    compiled = saker.aot_function(fn)
    a = torch.ones(2, requires_grad=True)
    compiled(a)
    with torch.autograd.detect_anomaly(check_nan=True), pytest.warns(UserWarning, match=r"torch\.sqrt\(x \* 0\)"):
        result = compiled(a)
        with pytest.raises(RuntimeError, match=r"SqrtBackward0.*nan"):
            result.backward(torch.zeros(2))


def test_constants_and_structures() -> None:
    def fn(x, scale, *, options):
        return {"y": x * scale + options["shift"], "n": 3}

    compiled = saker.aot_function(fn)
    x = torch.arange(3.0)
    for scale in (2, 3, 2.0):
        for shift in (torch.ones(3), torch.zeros(3)):
            got = compiled(x, scale, options={"shift": shift})
            assert torch.equal(got["y"], x * scale + shift) and got["n"] == 3
    assert fallbacks() == 0


def test_method_and_attributes() -> None:
    class Model:
        scale = 3

        @saker.aot_function
        def forward(self, x):
            """Says something."""
            return x * self.scale

    assert torch.equal(Model().forward(torch.ones(2)), torch.full((2,), 3.0))
    assert Model.__dict__["forward"].__wrapped__.__name__ == "forward"


# --- memory and versions ---


def test_backward_that_fails_fails_in_the_backward() -> None:
    def fn(x):
        y = x.exp()
        y.mul_(2)
        return y

    a = torch.ones(3, requires_grad=True)
    result = saker.aot_function(fn)(a)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_write_to_a_result_that_is_saved() -> None:
    a = torch.ones(3, requires_grad=True)
    result = saker.aot_function(torch.exp, partition_fn="default")(a)
    with torch.no_grad():
        result.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_what_was_saved_is_let_go() -> None:
    compiled = saker.aot_function(lambda x: (x.sin() * x.exp()).sum(), partition_fn="default")
    a = torch.randn(1000, requires_grad=True)
    x = a * 2
    gone = weakref.ref(x)
    loss = compiled(x)
    del x
    assert gone() is not None
    loss.backward()
    gc.collect()
    assert gone() is None


def test_boxed_arguments() -> None:
    compiled, reason = saker._C.aot_compile(lambda x, y: [x.sin() + y], [torch.ones(3), torch.ones(3)])
    assert not reason
    arguments = [torch.ones(3), torch.ones(3)]
    (result,) = compiled.call_boxed(arguments)
    assert arguments == []
    assert torch.equal(result, torch.ones(3).sin() + 1)


def test_set_from_memory_that_is_not_the_captures_is_refused() -> None:
    outside = torch.zeros(3)

    def fn(x):
        x.set_(outside)
        return x * 2

    x = torch.ones(3)
    with pytest.raises(saker.CaptureError):
        saker.aot_function(fn)(x)
    torch.testing.assert_close(x, torch.ones(3))


def test_data_that_is_replaced() -> None:
    def fn(x, y):
        x.data = y
        return x * 2

    x, y = torch.ones(3), torch.zeros(3)
    result = saker.aot_function(fn)(x, y)
    assert torch.equal(result, y) and x.data_ptr() == y.data_ptr()


def test_closed_over_tensors() -> None:
    weight = torch.arange(3.0, requires_grad=True)
    counter = torch.zeros(())

    def fn(x):
        counter.add_(1)
        return (x * weight).sum(), weight

    compiled = saker.aot_function(fn)
    for i in range(3):
        loss, same = compiled(torch.full((3,), 2.0))
        assert same is weight
        assert torch.equal(torch.autograd.grad(loss, weight)[0], torch.full((3,), 2.0))
        assert counter == i + 1 and counter._version == i + 1
    assert fallbacks() == 0


def test_errors_leave_what_eager_leaves() -> None:
    def fn(x, y):
        y.add_(1)
        x.mul_(2)  # a leaf that requires grad
        return x

    def run(call: Callable[..., Any]) -> tuple[str, Any]:
        x, y = torch.ones(2, requires_grad=True), torch.ones(2)
        with pytest.raises(RuntimeError) as raised:
            call(x, y)
        return str(raised.value), (x.tolist(), y.tolist(), x._version, y._version)

    assert run(saker.aot_function(fn)) == run(fn)


def test_bad_arguments_raise_eagers_error() -> None:
    fn = lambda a, b: a @ b  # noqa: E731
    given = torch.ones(2, 3), torch.ones(2, 3)
    with pytest.raises(RuntimeError) as eager:
        fn(*given)
    with pytest.raises(RuntimeError) as compiled:
        saker.aot_function(fn)(*given)
    assert str(compiled.value) == str(eager.value) and type(compiled.value) is type(eager.value)


def test_deterministic_backward_of_a_foreign_back_end() -> None:
    a = torch.ones(3, requires_grad=True)
    foreign = saker.aot_function(lambda x: x.sin(), fw_compiler=lambda module, examples: module)(a)
    own = saker.aot_function(lambda x: x.sin())(a)
    torch.use_deterministic_algorithms(True)
    try:
        own.sum().backward()
        with pytest.raises(RuntimeError, match="deterministic"):
            foreign.sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
