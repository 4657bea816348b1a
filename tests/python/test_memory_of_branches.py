"""What a branch gave is not kept until the branch is taken again."""

from __future__ import annotations

import itertools

import torch

import saker
from control_flow import operators as o
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

SIZE = 2**18  # a megabyte


def steps(ways):
    """Each step takes another one of so many branches, which give a new tensor each."""

    def choose(left, right, i, carry):
        if right - left == 1:
            return carry * (1 + left)
        middle = (left + right) // 2
        return o.cond(i < middle, lambda c: choose(left, middle, i, c), lambda c: choose(middle, right, i, c), (carry,))

    def program(x):
        return o.scan(lambda c, i: (choose(0, ways, i, c), i * 1), x, torch.arange(ways))[0]

    return program


def peak(call, x):
    call(x)
    call(x)
    with torch.profiler.profile(profile_memory=True) as profile:
        call(x)
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    sizes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return max(itertools.accumulate(sizes))


def test_memory_does_not_grow_with_the_number_of_branches():
    x = torch.ones(SIZE)
    found = []
    for ways in (2, 8):
        call = saker.compile(steps(ways))
        found.append(peak(call, x))
        expected = x.clone()
        for i in range(ways):
            expected = expected * (1 + i)
        assert torch.equal(call(x), expected)
    assert found[1] <= found[0] + 2 * x.nbytes, found


def test_a_result_that_is_given_twice_or_is_an_operand():
    def program(x, y):
        return o.cond(
            x.sum() > 0, lambda a, b: (lambda r: (r, r, a * 1))(a + b), lambda a, b: (b * 1, a * 1, a + b), (x, y)
        )

    compiled = saker.compile(program)
    for sign in (1, -1, 1, -1, -1, 1):
        x, y = torch.full((3,), float(sign)), torch.arange(3.0)
        expected = (x + y, x + y, x) if sign > 0 else (y, x, x + y)
        for one, other in zip(compiled(x, y), expected, strict=True):
            assert torch.equal(one, other)
