"""Control flow operators inside of what Saker records: nodes with bodies, and the results of plain Python."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

import saker
from control_flow import operators, reference
from torch_versions import control_flow_in_one_place

pytestmark = control_flow_in_one_place

W = torch.randn(3, 3, generator=torch.Generator().manual_seed(3))
BIAS = torch.randn(3, generator=torch.Generator().manual_seed(4))


class Choice(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(3, 3)
        self.right = nn.Linear(3, 3)

    def forward(self, o, x):
        return o.cond(x.sum() > 0, lambda v: self.left(v).relu(), lambda v: self.right(v).tanh(), (x,)) * 2


torch.manual_seed(0)
CHOICE = Choice()


def branch(o, x):
    return o.cond(x.sum() > 0, lambda v: v.sin() + 1, lambda v: v.cos() * 2, (x,))


def branch_of_closure(o, x):
    scale = x * 3
    return o.cond(x.sum() > 0, lambda v: v * scale + BIAS, lambda v: v - scale, (x,)).exp()


def branch_of_nothing(o, x):
    y = x.sin()
    return o.cond(x.sum() > 0, lambda: y + 1, lambda: y @ W)


def branch_of_trees(o, x):
    given = ({"a": x, "b": [x + 1, x * 2]},)
    made = o.cond(
        x.mean() > 0, lambda d: {"s": d["a"] + d["b"][0], "n": None}, lambda d: {"s": d["b"][1], "n": None}, given
    )
    return made["s"] if made["n"] is None else None


def branch_that_returns_its_operand(o, x):
    return o.cond(x.sum() > 0, lambda v: v, lambda v: v + 1, (x,)) * 2


def branch_with_inner_writes(o, x):
    def up(v):
        made = v.clone()
        made[0] = 1
        made.mul_(2)
        return made

    return o.cond(x.sum() > 0, up, lambda v: v * 2, (x,))


def branches_in_branches(o, x):
    def inner(v):
        return o.cond(v.max() > 1, lambda w: w * x, lambda w: w + x.sin(), (v,))

    return o.cond(x.sum() > 0, inner, lambda v: inner(v * 2), (x + 1,))


def branch_in_a_loop(o, x):
    for i in range(3):
        x = o.cond(x.sum() > i, lambda v: v * 0.5, lambda v, i=i: v + i, (x,))
    return x


def branch_of_closure_plain(o, x):
    scale = x * 3
    return o.cond(x.sum() > 0, lambda v: v * scale, lambda v: v - scale, (x,)).exp()


def rows_plain(o, x):
    return o.scan(lambda c, r: (c * 0.5 + r.sum(), c * r), torch.zeros(()), x)


def layers(o, x):
    return CHOICE(o, x)


def recurrence(o, x):
    def step(carry, row):
        new = (row @ W + carry).tanh()
        return new, new * 2

    last, rows = o.scan(step, torch.zeros(3), x)
    return last, rows


def recurrence_from_behind(o, x):
    def step(carry, row):
        return carry + row, (carry * row, row.sin())

    last, rows = o.scan(step, x[0] * 2, x, reverse=True)
    return last, *rows


def recurrence_along_a_dim(o, x):
    def step(carry, row):
        return {"sum": carry["sum"] + row}, carry["sum"] * BIAS[: row.shape[0]].sum()

    last, rows = o.scan(step, {"sum": x[:, 0] * 0}, x, dim=1)
    return last["sum"], rows


def mapped(o, x):
    weight = x.sum(0)
    return o.map(lambda row, y: (row * weight).sin() + y, x, BIAS)


def mapped_trees(o, x):
    return o.map(lambda pair: {"sum": pair[0] + pair[1], "product": pair[0] * pair[1]}, (x, x * 2))["product"]


def scan_of_branches(o, x):
    def step(carry, row):
        new = o.cond(row.sum() > 0, lambda c, r: c + r, lambda c, r: c * r, (carry, row))
        return new, new.sin()

    return o.scan(step, torch.ones(3), x)


def branch_of_scans(o, x):
    def total(v):
        return o.scan(lambda c, r: (c + r * v.mean(), c * 1), v[0] * 0, v)[0]

    return o.cond(x.sum() > 0, total, lambda v: v.sum(0), (x,))


def scan_of_scans(o, x):
    def inner(c, r):
        return c * 0.5 + r, c + r

    def step(carry, row):
        last, rows = o.scan(inner, carry.sum(), row)
        return carry + last, rows

    return o.scan(step, torch.ones(3), x)


PROGRAMS = [
    *(branch, branch_of_closure, branch_of_nothing, branch_of_trees, branch_that_returns_its_operand),
    *(branch_with_inner_writes, branches_in_branches, branch_in_a_loop, layers),
    *(recurrence, recurrence_from_behind, recurrence_along_a_dim, mapped, mapped_trees),
    *(scan_of_branches, branch_of_scans, scan_of_scans),
]
INPUTS = [
    torch.tensor([[0.5, 1.0, -0.25], [1.5, 0.3, 0.2], [0.1, -0.2, 0.4]]),
    torch.tensor([[-0.5, -1.0, 0.25], [-1.5, 0.3, -0.2], [0.1, 0.2, -0.4]]),
    torch.tensor([[0.1, 2.0, 0.25], [1.5, -0.3, 0.2], [-0.1, 0.2, 0.4]]),
]


@pytest.fixture(autouse=True)
def _never_torch_compile(monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("PyTorch's compiler was started")

    monkeypatch.setattr(torch, "compile", fail)


def results_of(function, x, grad):
    x = x.clone().requires_grad_(grad)
    made = function(x)
    made = made if isinstance(made, tuple) else (made,)
    if not grad:
        return [*made]
    total = sum((tensor * (i + 1)).sin().sum() for i, tensor in enumerate(made))
    wanted = [x, *(p for p in CHOICE.parameters())]
    found = torch.autograd.grad(total, wanted, create_graph=True, allow_unused=True)
    again = torch.autograd.grad(found[0].sum(), x, allow_unused=True)
    return [*made, *found, *again]


def compare(expected, found):
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        if a is None or b is None:
            assert a is None or not a.any(), "a gradient is missing"
            assert b is None or not b.any(), "a gradient is not zero"
            continue
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "gradients"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_compiled(program, grad):
    saker.reset()
    compiled = saker.compile(lambda x: program(operators, x))
    for x in [*INPUTS, *INPUTS]:
        compare(results_of(lambda v: program(reference, v), x, grad), results_of(compiled, x, grad))
    assert saker.stats()["replays"] >= 4, saker.stats()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_captured(program):
    with torch.no_grad():
        graph = saker.capture(lambda x: program(operators, x), INPUTS[0])
        for x in INPUTS:
            compare(results_of(lambda v: program(reference, v), x, False), results_of(graph, x, False))
    assert any(name in str(graph) for name in ("saker::if", "saker::scan"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_ahead_of_time(program):
    compiled = saker.aot_function(lambda x: program(operators, x))
    for x in INPUTS:
        compare(results_of(lambda v: program(reference, v), x, True), results_of(compiled, x, True))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_deferred(program):
    for x in INPUTS:
        with torch.no_grad():
            expected = results_of(lambda v: program(reference, v), x, False)
            with saker.deferred():
                found = results_of(lambda v: program(operators, v), x, False)
        compare(expected, found)


def newton(o, x):
    def goes_on(value, step):
        return (step.abs() > 1e-4).any()

    def better(value, step):
        new = value - (value * value - x) / (2 * value)
        return new, new - value

    return o.while_loop(goes_on, better, (x.abs() + 1, torch.ones_like(x)))[0]


def no_iteration(o, x):
    return o.while_loop(lambda v: v.sum() > 1e6, lambda v: (v * 2,), (x,))[0] + 0


@pytest.mark.parametrize("program", [newton, no_iteration], ids=lambda p: p.__name__)
@pytest.mark.parametrize("grad", [False, True], ids=["plain", "gradients"])
def test_while_loop(program, grad):
    saker.reset()
    compiled = saker.compile(lambda x: program(operators, x))
    for x in [INPUTS[0].abs(), INPUTS[1].abs() * 3, INPUTS[2].abs(), INPUTS[0].abs() + 7]:
        compare(results_of(lambda v: program(reference, v), x, grad), results_of(compiled, x, grad))
    if not grad:
        assert saker.stats()["replays"] >= 3, saker.stats()


def test_a_loop_of_no_trip_gives_its_own_memory():
    compiled = saker.compile(lambda x: operators.while_loop(lambda v: v.sum() > 1e6, lambda v: (v * 2,), (x,)))
    with torch.no_grad():
        for _ in range(3):
            x = torch.ones(3)
            (found,) = compiled(x)
            assert found.data_ptr() != x.data_ptr() and found.equal(x)


def test_transforms_go_through():
    def f(x):
        return torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v.sin(), (x,))

    expected = torch.stack([row * 2 if row.sum() > 0 else row.sin() for row in INPUTS[1]])
    compiled = saker.compile(torch.vmap(f))
    gradients = saker.compile(torch.func.grad(lambda x: f(x).sum()))
    for _ in range(3):
        torch.testing.assert_close(compiled(INPUTS[1]), expected)
        torch.testing.assert_close(gradients(INPUTS[0]), torch.full((3, 3), 2.0))
        torch.testing.assert_close(gradients(INPUTS[1]), INPUTS[1].cos())


@pytest.mark.parametrize(
    ("false_fn", "text"),
    [
        (lambda v: v[0], "same dtype, device and sizes"),
        (lambda v: v.double(), "same dtype, device and sizes"),
        (lambda v: (v, v), "same structure"),
        (lambda v: "text", "returns a str"),
    ],
    ids=["sizes", "dtype", "structure", "no tensor"],
)
def test_branches_that_do_not_agree(false_fn, text):
    compiled = saker.compile(lambda x: torch.cond(x.sum() > 0, lambda v: v + 1, false_fn, (x,)))
    with pytest.raises(RuntimeError, match=text):
        compiled(INPUTS[0])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("yes", torch.sin, torch.cos), "pred must be a bool"),
        ((torch.ones(2) > 0, torch.sin, torch.cos), "one element"),
        ((torch.tensor(True), 3, torch.cos), "true_fn must be callable"),
        ((torch.tensor(True), torch.sin, torch.cos, torch.ones(2)), "a tuple or a list"),
        ((torch.tensor(True), torch.sin, torch.cos, ("x",)), "one is a str"),
    ],
    ids=["pred", "elements", "function", "operands", "leaf"],
)
def test_arguments_are_checked(arguments, text):
    with pytest.raises(RuntimeError, match=text):
        saker.compile(lambda: torch.cond(*arguments))()


def test_pytorchs_compiler_is_not_loaded():
    program = """
import sys, torch, saker
compiled = saker.compile(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)))
for x in (torch.ones(2), -torch.ones(2), torch.ones(3)):
    compiled(x)
assert "torch._dynamo" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "gradients"])
@pytest.mark.parametrize("program", [branch, branch_of_closure_plain, rows_plain], ids=lambda p: p.__name__)
def test_sizes_that_change(program, grad):
    saker.reset()
    compiled = saker.compile(lambda x: program(operators, x))
    generator = torch.Generator().manual_seed(1)
    before = saker.stats()["recompiles"]
    for size in (2, 3, 4, 5, 6, 7):
        x = torch.randn(size, 3, generator=generator)
        compare(results_of(lambda v: program(reference, v), x, grad), results_of(compiled, x, grad))
    assert saker.stats()["recompiles"] - before <= 2, saker.stats()


def hides(o, x):
    return o.cond(x.sum() > 0, lambda v: v.detach() * v, lambda v: torch.no_grad()(torch.sin)(v) * v, (x,))


def layouts(o, x):
    return o.cond(x.sum() > 0, lambda v: v.t().sin(), lambda v: v.t().cos(), (x,))


@pytest.mark.parametrize("program", [hides, layouts], ids=lambda p: p.__name__)
def test_what_autograd_and_strides_are(program):
    compiled = saker.compile(lambda x: program(operators, x))
    for x in [*INPUTS, *INPUTS]:
        expected, found = results_of(lambda v: program(reference, v), x, True), results_of(compiled, x, True)
        compare(expected, found)
        assert expected[0].stride() == found[0].stride()


def test_carried_values_stay_of_one_kind():
    compiled = saker.compile(lambda x: operators.scan(lambda c, r: (c.double(), r * 1), x[0] * 1, x))
    with pytest.raises(RuntimeError, match="carried"):
        compiled(INPUTS[0])


def test_bodies_change_nothing_outside():
    seen = []

    def noting(v):
        seen.append(1)
        return v + 1

    compiled = saker.compile(lambda x: torch.cond(x.sum() > 0, noting, lambda v: v, (x,)))
    with pytest.raises(RuntimeError, match="outside"):
        compiled(INPUTS[0])


def test_bodies_write_to_nothing_outside():
    buffer = torch.zeros(3, 3)

    def program(x):
        return torch.cond(x.sum() > 0, lambda v: v + buffer.add_(1), lambda v: v, (x,))

    with torch.no_grad(), pytest.raises(RuntimeError, match="not its own"):
        saker.capture(program, INPUTS[0])
    assert not buffer.any()
    compiled = saker.compile(program)  # which has data, and does what eager mode does
    with torch.no_grad():
        for count in (1, 2, 3):
            torch.testing.assert_close(compiled(INPUTS[0]), INPUTS[0] + count)
            assert buffer.eq(count).all()


def test_a_changed_closure_is_seen():
    scale = {"by": 2}
    compiled = saker.compile(lambda x: torch.cond(x.sum() > 0, lambda v: v * scale["by"], lambda v: v - 1, (x,)))
    with torch.no_grad():
        assert compiled(INPUTS[0]).equal(INPUTS[0] * 2)
        assert compiled(INPUTS[0]).equal(INPUTS[0] * 2)
        scale["by"] = 5
        assert compiled(INPUTS[0]).equal(INPUTS[0] * 5)


def test_random_bodies():
    def f(x):
        return torch.cond(x.sum() > 0, lambda v: torch.dropout(v, 0.5, True), lambda v: v * 2, (x,))

    compiled = saker.compile(f)
    for grad in (False, True):
        for _ in range(3):
            x = INPUTS[0].clone().requires_grad_(grad)
            torch.manual_seed(5)
            expected = torch.dropout(x, 0.5, True)
            torch.manual_seed(5)
            assert compiled(x).equal(expected)
