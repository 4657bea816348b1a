"""Generated code of what puts elements at places that are data: scatter, index_add, index_put, the backward of an
embedding and of a gather. Sums that meet in one element are taken in eager mode's order, so results are its bits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

import saker
from generated_code import fused, needs_code  # noqa: F401 (a fixture of each test)
from saker import _C
from test_native import launches
from test_native_operators import FULL, HALVES, check

Tensor = torch.Tensor
aten = torch.ops.aten
pytestmark = needs_code

WHOLE = [torch.int64, torch.int32, torch.int8, torch.uint8]
DTYPES = [*FULL, *HALVES, *WHOLE]


def numbers(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(0, 9, shape).to(dtype)


SCATTERS: dict[str, Callable[[Tensor, int, Tensor, Tensor], Tensor]] = {
    "src": lambda x, dim, i, src: (x * 2).scatter(dim, i, src + 1) * 3,
    "value": lambda x, dim, i, src: (x * 2).scatter(dim, i, 3) * 3,
    "add": lambda x, dim, i, src: (x * 2).scatter_add(dim, i, src + 1) * 3,
    "sum": lambda x, dim, i, src: (x * 2).scatter_reduce(dim, i, src + 1, "sum") * 3,
    "prod": lambda x, dim, i, src: (x * 2).scatter_reduce(dim, i, src + 1, "prod") * 3,
    "amax": lambda x, dim, i, src: (x * 2).scatter_reduce(dim, i, src + 1, "amax") * 3,
    "amin": lambda x, dim, i, src: (x * 2).scatter_reduce(dim, i, src + 1, "amin") * 3,
    "old add": lambda x, dim, i, src: (x * 2).scatter(dim, i, src + 1, reduce="add") * 3,
    "old multiply": lambda x, dim, i, src: (x * 2).scatter(dim, i, 2, reduce="multiply") * 3,
}


# In half precision eager mode adds these up in f32, and rounds once: they are calls.
ONCE = ("add", "sum", "prod", "old add", "old multiply")


def called(program: Callable, *inputs: object) -> Tensor:
    compiled = saker.compile(program, dynamic=False)
    compiled(*inputs)
    return compiled(*inputs)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", SCATTERS)
def test_scatter(name: str, dim: int, dtype: torch.dtype) -> None:
    x = numbers((5, 7, 33), dtype)
    for shape in [(5, 7, 33), (4, 6, 17), (1, 1, 1)]:
        source = numbers(shape, dtype)
        index = torch.randint(0, x.shape[dim], shape)
        if name in ONCE and dtype in HALVES:
            assert torch.equal(called(SCATTERS[name], x, dim, index, source), SCATTERS[name](x, dim, index, source))
            continue
        check(lambda x, index, source: SCATTERS[name](x, dim, index, source), x, index, source)


@pytest.mark.parametrize("name", SCATTERS)
def test_scatter_with_other_layouts(name: str) -> None:
    x, source = torch.randn(9, 6, 4).permute(2, 0, 1), torch.randn(6, 18, 4).permute(2, 1, 0)[:, ::2]
    index = torch.randint(0, 4, (4, 9, 6), dtype=torch.int32 if "old" not in name else torch.int64)
    for dim in range(3):
        check(lambda x, index, source, dim=dim: SCATTERS[name](x, dim, index, source), x, index, source)


def test_scatter_of_nans() -> None:
    x, source = torch.tensor([[1.0, float("nan"), -0.0, 0.0]]), torch.tensor([[float("nan"), 2.0, 0.0, -0.0]])
    index = torch.tensor([[0, 1, 2, 3]])
    for name in ("amax", "amin", "prod", "add"):
        check(lambda x, source, name=name: SCATTERS[name](x, 1, index, source), x, source)


def test_scatter_of_bools() -> None:
    x, source = torch.rand(5, 9) < 0.5, torch.rand(5, 9) < 0.5
    index = torch.randint(0, 5, (5, 9))
    check(lambda x, source: ~(~x).scatter(0, index, ~source), x, source)
    compiled = saker.compile(lambda x, source: ~(~x).scatter_add(0, index, ~source), dynamic=False)
    for _ in range(2):
        assert torch.equal(compiled(x, source), ~(~x).scatter_add(0, index, ~source))


ROWS: dict[str, Callable[[Tensor, int, Tensor, Tensor], Tensor]] = {
    "add": lambda x, dim, i, src: (x * 2).index_add(dim, i, src + 1) * 3,
    "copy": lambda x, dim, i, src: (x * 2).index_copy(dim, i, src + 1) * 3,
    "fill": lambda x, dim, i, src: (x * 2).index_fill(dim, i, 5) * 3,
    "fill, tensor": lambda x, dim, i, src: (x * 2).index_fill(dim, i, src.flatten()[0]) * 3,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, dim: int, dtype: torch.dtype) -> None:
    x = numbers((6, 5, 67), dtype)
    for count in (11, 2, 1):
        shape = list(x.shape)
        shape[dim] = count
        source, index = numbers(tuple(shape), dtype), torch.randint(0, x.shape[dim], (count,))
        if name == "copy":
            index = torch.randperm(x.shape[dim])[: min(count, x.shape[dim])]
            source = source.narrow(dim, 0, index.shape[0])
        if name == "add" and dim == 0 and dtype in HALVES:
            assert torch.equal(called(ROWS[name], x, dim, index, source), ROWS[name](x, dim, index, source))
            continue
        check(lambda x, index, source: ROWS[name](x, dim, index, source), x, index, source)


def test_an_index_that_is_one_number() -> None:
    """The same row is added again and again, and the kernel sees that no loop decides the place."""
    x, source = torch.randn(4, 40), torch.randn(9, 40)
    check(lambda x, source: (x * 2).index_add(0, torch.zeros(9, dtype=torch.int64), source) * 3, x, source)
    check(lambda x: (x * 2).index_add(0, torch.full((9,), 2), torch.ones(9, 40)) * 3, x)
    check(lambda x: (x * 2).scatter_add(1, torch.zeros(4, 9, dtype=torch.int64), torch.ones(4, 9)) * 3, x)


put = aten.index_put
PUTS: dict[str, Callable[[Tensor, Tensor, Tensor, bool], Tensor]] = {
    "first": lambda x, i, j, add: put(x * 2, [i], torch.ones(()) * x.sum() + i[:, None, None], add),
    "rows": lambda x, i, j, add: put(x * 2, [i], x[i] + 1, add),
    "second": lambda x, i, j, add: put(x * 2, [None, i], x[:, i] + 1, add),
    "last": lambda x, i, j, add: put(x * 2, [None, None, i], x[..., i] + 1, add),
    "two": lambda x, i, j, add: put(x * 2, [i, j], x[i, j] + 1, add),
    "two, apart": lambda x, i, j, add: put(x * 2, [i, None, j], x[i, :, j] + 1, add),
    "two, later": lambda x, i, j, add: put(x * 2, [None, i, j], x[:, i, j] + 1, add),
    "a square": lambda x, i, j, add: put(x * 2, [i[:, None], j], x[i[:, None], j] + 1, add),
    "all": lambda x, i, j, add: put(x * 2, [i, j, i], x[i, j, i] + 1, add),
    "from behind": lambda x, i, j, add: put(x * 2, [-i - 1], x[-i - 1] + 1, add),
    "one number": lambda x, i, j, add: put(x * 2, [i[0]], x[0] + 1, add),
}


@pytest.mark.parametrize("dtype", [*FULL, *HALVES, torch.int64, torch.int8], ids=str)
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("name", PUTS)
def test_index_put(name: str, add: bool, dtype: torch.dtype) -> None:
    if name == "first" and dtype != torch.float32:
        pytest.skip("its values are f32")
    x, i, j = numbers((5, 6, 34), dtype), torch.randint(0, 5, (7,)), torch.randint(0, 6, (7,))
    near = {"rtol": 1e-5, "atol": 1e-4} if name == "first" else None  # a sum of floats
    check(lambda x, i, j: PUTS[name](x, i, j, add) * 3, x, i, j, near=near)


# ---- what comes out of derivatives ----


@pytest.mark.parametrize("dtype", [*FULL, *HALVES], ids=str)
@pytest.mark.parametrize("padding", [-1, 2])
@pytest.mark.parametrize("shape", [(9,), (4, 5), (1,), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("width", [1, 5, 64, 256])
def test_embedding_backward(width: int, shape: tuple[int, ...], padding: int, dtype: torch.dtype) -> None:
    gradient, indices = torch.randn(*shape, width).to(dtype), torch.randint(0, 7, shape)
    check(
        lambda gradient, indices: aten.embedding_dense_backward(gradient * 2, indices, 7, padding, False) * 3,
        gradient,
        indices,
    )


def test_embedding_backward_by_frequency() -> None:
    gradient, indices = torch.randn(9, 8), torch.randint(0, 3, (9,))
    compiled = saker.compile(lambda g: aten.embedding_dense_backward(g * 2, indices, 3, -1, True) * 3, dynamic=False)
    for _ in range(2):
        assert torch.equal(compiled(gradient), aten.embedding_dense_backward(gradient * 2, indices, 3, -1, True) * 3)


def gathered(x: Tensor, index: Tensor) -> Tensor:
    return (x.exp().gather(1, index) * 2).tanh()


def embedded(x: Tensor, index: Tensor) -> Tensor:
    return functional.layer_norm(functional.embedding(index, x) * 2, (x.shape[-1],)).exp()


def selected(x: Tensor, index: Tensor) -> Tensor:
    return (x.sin().index_select(0, index.flatten()) * 2).exp()


def indexed(x: Tensor, index: Tensor) -> Tensor:
    return (x.sin()[index] * 2).exp()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", [gathered, embedded, selected, indexed], ids=lambda each: each.__name__)
def test_gradients(program: Callable, dynamic: bool) -> None:
    compiled = saker.compile(program, dynamic=dynamic)
    count = 0
    for rows, width in [(9, 16), (9, 16), (7, 67), (33, 128)]:
        x, index = torch.randn(rows, width), torch.randint(0, min(rows, width), (rows, 5))
        ours, other = x.clone().requires_grad_(), x.clone().requires_grad_()

        def step(ours: Tensor = ours, index: Tensor = index) -> None:
            compiled(ours, index).square().sum().backward()

        count += launches(step)[1]
        program(other, index).square().sum().backward()
        torch.testing.assert_close(ours.grad, other.grad, rtol=1e-4, atol=1e-3)
    assert count > 0, _C.code_error()


# ---- errors, sizes that change, nothing ----

WRONG: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "scatter": lambda x, i: (x * 2).scatter(0, i[:, None].expand(-1, x.shape[1]), x[: i.shape[0]] + 1) * 3,
    "scatter_add": lambda x, i: (x * 2).scatter_add(0, i[:, None].expand(-1, x.shape[1]), x[: i.shape[0]] + 1) * 3,
    "index_add": lambda x, i: (x * 2).index_add(0, i, x[: i.shape[0]] + 1) * 3,
    "index_copy": lambda x, i: (x * 2).index_copy(0, i, x[: i.shape[0]] + 1) * 3,
    "index_put": lambda x, i: (x * 2).index_put((i,), x[: i.shape[0]] + 1) * 3,
    "index_put, added": lambda x, i: (x * 2).index_put((i,), x[: i.shape[0]] + 1, True) * 3,
}


@pytest.mark.parametrize("name", WRONG)
def test_indices_out_of_range_raise_what_eager_mode_raises(name: str) -> None:
    compiled, x = saker.compile(WRONG[name], dynamic=False), torch.randn(6, 20)
    good = torch.tensor([0, 3, 5])
    for _ in range(2):
        assert torch.equal(compiled(x, good), WRONG[name](x, good))
    for indices in ([0, 6, 1], [0, -7, 1], [2**40, 0, 1], [0, 1, -1]):
        bad = torch.tensor(indices)
        try:
            expected: Tensor | str = WRONG[name](x, bad)
        except (RuntimeError, IndexError) as error:
            expected = str(error)
        try:
            found: Tensor | str = compiled(x, bad)
        except (RuntimeError, IndexError) as error:
            found = str(error)
        if isinstance(expected, str):
            assert found == expected
        else:
            assert torch.equal(found, expected)
        found, count = launches(lambda: compiled(x, good))
        assert count > 0
        assert torch.equal(found, WRONG[name](x, good))


@pytest.mark.parametrize("name", WRONG)
def test_sizes_that_change(name: str) -> None:
    compiled = saker.compile(WRONG[name])
    for rows, width, count in [(6, 20, 3), (7, 33, 4), (9, 1, 2), (130, 65, 70), (4, 16, 0)]:
        x, index = torch.randn(rows, width), torch.randperm(rows)[:count]
        assert torch.equal(compiled(x, index), WRONG[name](x, index))


@pytest.mark.parametrize("cpu", ["avx2", "sse4", "scalar"])
def test_other_processors(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAKER_CPU", cpu)
    x, index = torch.randn(6, 70), torch.randint(0, 6, (50,))
    for dtype in (torch.float32, torch.bfloat16, torch.int8):
        source = numbers((50, 70), dtype)
        check(lambda x, index, source: (x * 2).index_copy(0, index[:1], source[:1]) * 3, x.to(dtype), index, source)
        if dtype == torch.bfloat16:
            continue
        check(lambda x, index, source: (x * 2).index_add(0, index, source + 1) * 3, x.to(dtype), index, source)
        check(
            lambda x, index, source: (x * 2).scatter_add(0, index[:, None].expand(-1, 70), source + 1) * 3,
            x.to(dtype),
            index,
            source,
        )


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_give_the_same(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x, index, source = torch.randn(50, 1024), torch.randint(0, 50, (4000,)), torch.randn(4000, 1024)
        check(lambda x, index, source: (x * 2).index_add(0, index, source * 2) * 3, x, index, source)
        index = index % 64
        check(lambda x, source: (x * 2).scatter_add(1, (index % 50).expand(50, -1), source.t()[:50] * 2), x, source)
    finally:
        torch.set_num_threads(before)


def test_what_a_group_reads_is_computed_before_it() -> None:
    """The group has two members that stay in order among what may raise, and reads another group."""

    def program(x: Tensor, i: Tensor, src: Tensor) -> tuple[Tensor, ...]:
        zero = src == 0
        counted = torch.zeros_like(x).index_add(1, i, zero.to(x.dtype)).index_select(1, i)
        return counted * 2, src.masked_fill(zero, 1)

    def product(x: Tensor, i: Tensor, src: Tensor) -> Tensor:
        return x.index_reduce(1, i, src, "prod").neg()

    x, i, src = torch.randn(5, 5), torch.randint(0, 5, (10,)), torch.randint(0, 3, (5, 10)).float()
    for found, expected in zip(called(program, x, i, src), program(x, i, src), strict=True):
        assert torch.equal(found, expected)
    compiled, leaves = saker.compile(product, dynamic=False), (x.requires_grad_(), src.requires_grad_())
    for _ in range(2):
        found = torch.autograd.grad(compiled(x, i, src).sum(), leaves)
    torch.testing.assert_close(found, torch.autograd.grad(product(x, i, src).sum(), leaves))
