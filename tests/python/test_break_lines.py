"""The line that is told for a break is the one that looks at data, wherever the program goes on from there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import saker


def skipped_branch(x):
    if x.sum() > 100:  # here
        x = x + 1

    return x * 2


def taken_branch(x):
    if x.sum() > -100:  # here
        x = x + 1
    return x * 2


def negated(x):
    if not x.sum() > -100:  # here
        x = x + 1

    return x * 2


def negation_kept(x):
    small = not x.sum() > 100  # here
    y = x + 1
    return y if small else x


def loop(x):
    while x.sum() < 10:  # here
        x = x + 1

    return x


def both(x):
    big = x.sum() > 100 and x  # here
    y = x + 1
    return y, big


def either(x):
    return [  # a list over several lines
        x.sum() > 100 or x,  # here
        x + 1,
    ]


def chosen(x):
    y = (
        x + 1
        if x.sum() > 100  # here
        else x + 2
    )
    return y * 2


def contained(x):
    found = 3.0 in x  # here
    y = x + 1
    return y, found


def contained_in_list(x):
    found = x.sum() in [torch.tensor(7.0), torch.tensor(8.0)]  # here
    y = x + 1
    return y, found


def filtered(x):
    kept = [
        part
        for part in x.unbind()
        if part > 0  # here
    ]
    return torch.stack(kept)


def item(x):
    n = x.long().sum().item()  # here
    y = x + n
    return y


PROGRAMS = [
    skipped_branch,
    taken_branch,
    negated,
    negation_kept,
    loop,
    both,
    either,
    chosen,
    contained,
    contained_in_list,
    filtered,
    item,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_line_is_that_of_the_look(program: Callable) -> None:
    told = saker.explain(program)(torch.ones(4)).breaks
    assert [each.name for each in told] == ["depends-on-data"]
    assert told[0].source.endswith("# here"), told[0].source

    with pytest.raises(saker.CaptureError) as raised:
        saker.compile(program, fullgraph=True)(torch.ones(4))
    assert raised.value.line == told[0].line


def test_a_look_in_a_function_that_is_called() -> None:
    def outer(x):
        y = skipped_branch(x)
        return y + 1

    told = saker.explain(outer)(torch.ones(4)).breaks
    assert told[0].source.endswith("# here"), told[0].source
