"""Replays make views without asking the operators, where nobody sees them: what is computed through them is eager's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import saker


def heads(x: Tensor) -> Tensor:
    q, k, v = x.split(4, dim=-1)
    q, k, v = (t.view(t.shape[0], -1, 2, 2).transpose(1, 2) for t in (q, k, v))
    return (q @ k.transpose(-1, -2) @ v).transpose(1, 2).reshape(x.shape[0], -1)


def chains(x: Tensor) -> Tensor:
    y = x.t()[1:].unsqueeze(0).expand(3, -1, -1).permute(2, 0, 1)
    return (y * 2).select(0, 1).diagonal() + y[0, :, 0].squeeze()


def write_through(x: Tensor) -> Tensor:
    y = x * 2
    y.view(-1)[::2].add_(1)
    y.t()[0].mul_(3)
    return y.sin()


def write_input(x: Tensor) -> Tensor:
    x.view(-1)[1:3].zero_()
    return x.t().contiguous() + 1


def in_place_layout(x: Tensor) -> Tensor:
    y = x * 2
    z = y[1:]
    y.t_()
    return y[0] + z.sum()


def as_strided(x: Tensor) -> Tensor:
    return x[1:].as_strided((2, 2), (1, 3), 2).exp()


def conjugated(x: Tensor) -> Tensor:
    return torch.view_as_real(torch.complex(x, x + 1).conj().t()).sum(-1)


def many(x: Tensor) -> Tensor:
    return sum(part[0] * 2 for part in x.unbind(0)[0].view(-1, 2).chunk(3)) + x.unfold(1, 2, 1).sum()


PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    f.__name__: f for f in (chains, write_through, write_input, in_place_layout, as_strided, conjugated, many)
}
LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "plain": lambda: torch.randn(4, 6),
    "from the middle": lambda: torch.randn(8, 6)[3:7],
    "strided": lambda: torch.randn(4, 12)[:, ::2],
    "transposed": lambda: torch.randn(6, 4).t(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_computed_through_views(name: str, layout: str) -> None:
    fn = PROGRAMS[name]
    compiled = saker.compile(fn, dynamic=False)
    with torch.no_grad():
        try:
            fn(LAYOUTS[layout]())
        except RuntimeError:
            pytest.skip("not in this layout in eager mode")
        before = saker.stats()["replays"]
        for _ in range(4):
            x = LAYOUTS[layout]()
            base = x._base if x._base is not None else x
            twin = base.clone().as_strided(x.size(), x.stride(), x.storage_offset())
            got, expected = compiled(x), fn(twin)
            assert torch.equal(got, expected) and got.stride() == expected.stride()
            assert torch.equal(x, twin) and x._version == twin._version
        assert saker.stats()["replays"] - before == 3


def test_heads_with_sizes_that_change() -> None:
    compiled = saker.compile(heads, dynamic=True)
    with torch.no_grad():
        for rows in (2, 5, 3, 7):
            x = torch.randn(rows, 12)
            assert torch.equal(compiled(x.view(rows, 1, 12)), heads(x.view(rows, 1, 12)))


def test_a_compiled_function_inside_of_a_capture_is_recorded_with_its_views() -> None:
    compiled = saker.compile(chains)
    x = torch.randn(4, 6)
    with torch.no_grad():
        compiled(x)
        compiled(x)
        graph = saker.capture(compiled, x)
        y = torch.randn(4, 6)
        assert torch.equal(graph(y), chains(y))


def test_one_recording_in_deferred_blocks() -> None:
    compiled = saker.compile(chains)
    x = torch.randn(4, 6)
    with torch.no_grad():
        compiled(x)
        expected = chains(x * 3)
        with saker.deferred():
            y = compiled(x * 3)
        assert torch.equal(y, expected)
