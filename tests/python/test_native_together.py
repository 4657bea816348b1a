"""Small groups of operators that do not depend on each other: their kernels are launched as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

import saker
from generated_code import fused, needs_code  # noqa: F401 (a fixture of each test)
from test_native import launches

Tensor = torch.Tensor
pytestmark = needs_code


@pytest.fixture(autouse=True, params=[1, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def launched(function: Callable, *arguments: object) -> tuple[object, int]:
    """The third call: code is there, and replays run."""
    compiled = saker.compile(function, dynamic=False)
    for _ in range(2):
        compiled(*arguments)
    return launches(lambda: compiled(*arguments))


def moments(gradients: list[Tensor], means: list[Tensor]) -> list[Tensor]:
    return [mean * 0.9 + gradient * gradient * 0.1 for gradient, mean in zip(gradients, means, strict=True)]


@pytest.mark.parametrize("count", [2, 100, 300])
@pytest.mark.parametrize("numbers", [1, 7, 20_000])
def test_many_small_groups_are_one_launch(count: int, numbers: int) -> None:
    lists = [[torch.rand(numbers + i % 3) for i in range(count)] for _ in range(2)]
    found, launches_made = launched(moments, *lists)
    assert launches_made == (2 if count > 256 else 1)
    for one, other in zip(found, moments(*lists), strict=True):
        assert torch.equal(one, other)


def test_different_kernels_are_one_launch() -> None:
    def function(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        return x * 2 + 1, (y - 1).relu().sum(1), torch.where(z > 0, z, 0) * 3

    arguments = torch.randn(100), torch.randn(30, 50), torch.randint(-9, 9, (3, 5))
    found, count = launched(function, *arguments)
    assert count == 1
    for one, other in zip(found, function(*arguments), strict=True):
        torch.testing.assert_close(one, other)


def test_what_one_makes_the_next_one_reads() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        rows = (x * 2 + 1).sum(1)
        return rows * y, (y + rows).tanh() * 2, (x + rows[:, None]).t().contiguous() * 3

    arguments = torch.randn(64, 32), torch.randn(64)
    compiled = saker.compile(function, dynamic=False)
    for _ in range(4):
        for one, other in zip(compiled(*arguments), function(*arguments), strict=True):
            torch.testing.assert_close(one, other)


def test_one_writes_what_another_reads() -> None:
    def function(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        made = (x * 2 + z).tanh()
        x.mul_(0.5).add_(y)
        y.add_(z * 3).mul_(2)
        return made

    right, ours = ([torch.ones(9) * i for i in range(3)] for _ in range(2))
    compiled = saker.compile(function, dynamic=False)
    for _ in range(5):
        torch.testing.assert_close(compiled(*ours), function(*right))
        assert all(torch.equal(one, other) for one, other in zip(ours, right, strict=True))
        assert [each._version for each in ours] == [each._version for each in right]


def test_they_share_what_they_read_between_library_calls() -> None:
    """Memory that ends in one group is not given to another one that runs at the same time."""

    def function(x: Tensor, w: Tensor) -> Tensor:
        total = torch.zeros(())
        for _ in range(4):
            a, b, c = x @ w, w @ x, x @ x
            a, b, c = (a * 2 - 1).tanh(), (b * 3 - a.mean()).tanh(), (c - 1).tanh() * 2
            total = total + (a @ b).sum() + (b @ c).sum() + (a - c).square().sum()
            x = (a + c) * 0.1
        return total

    arguments = torch.randn(96, 96) / 10, torch.randn(96, 96) / 10
    found, _ = launched(function, *arguments)
    torch.testing.assert_close(found, function(*arguments), rtol=1e-4, atol=1e-3)


def test_steps_of_an_optimizer() -> None:
    def trained(count: int) -> tuple[list[Tensor], torch.optim.Optimizer]:
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.rand(50 + i)) for i in range(count)]
        for each in parameters:
            each.grad = torch.rand_like(each)
        return parameters, torch.optim.AdamW(parameters, lr=0.01, foreach=True)

    (right, eager), (ours, optimizer) = trained(40), trained(40)
    step = saker.compile(lambda: optimizer.step())
    counts = []
    for i in range(8):
        for each in (eager, optimizer):
            each.param_groups[0]["lr"] = 0.01 / (1 + i % 3)
        eager.step()
        counts.append(launches(step)[1])
        for one, other in zip(ours, right, strict=True):
            torch.testing.assert_close(one, other)
    assert 0 < counts[-1] <= 4, "not one for each tensor"


def test_an_error_in_one_of_them() -> None:
    def function(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        return x * 2 + 1, y.remainder(z) * 2, x.exp() - 1

    x, y = torch.randn(8), torch.arange(8)
    compiled = saker.compile(function, dynamic=False)
    for _ in range(3):
        for one, other in zip(compiled(x, y, y + 1), function(x, y, y + 1), strict=True):
            torch.testing.assert_close(one, other)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(x, y, y * 0)
