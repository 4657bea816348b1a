"""Saker's symbols in PyTorch's hands: its Python and C++ code computes with them as with numbers."""

import math
import operator
import random

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import (
    guard_or_false,
    guard_or_true,
    statically_known_false,
    statically_known_true,
)

import saker
from saker import SymbolSpace


@pytest.fixture
def space() -> SymbolSpace:
    return SymbolSpace()


@pytest.fixture
def s0(space: SymbolSpace) -> torch.SymInt:
    return space.symbol("s0", example=6)


@pytest.fixture
def s1(space: SymbolSpace) -> torch.SymInt:
    return space.symbol("s1", example=4)


def test_expressions_are_canonical_and_readable(space, s0, s1) -> None:
    assert str(s0 * 2 + 1) == "2*s0 + 1"
    assert str(s1 * s0) == str(s0 * s1) == "s0*s1"
    assert str((s0 + s1) - s1) == "s0"
    assert str(s0 // 3) == "s0//3"
    assert str(s0 % 4) == "s0 % 4"
    assert str(s0**3) == "s0*s0*s0"
    assert str(2 - s0) == "2 - s0"
    assert repr(s0) == "s0"
    assert space.guards() == []


def test_what_becomes_a_number_is_one(s0) -> None:
    assert s0 - s0 == 0 and isinstance(s0 - s0, int)
    assert isinstance(s0 + 1 == 1 + s0, bool)
    assert (s0 * 4) % 2 == 0


def test_integer_functions(space, s0, s1) -> None:
    assert str(torch.sym_max(s0, s1)) == "max(s0, s1)"
    assert str(torch.sym_min(s0, 3)) == "min(s0, 3)"
    assert str(torch.sym_sum([s0, s1, 3, s0])) == "2*s0 + s1 + 3"
    assert str(abs(-s0)) == "s0"
    assert str(+s0) == "s0"
    assert str(torch.sym_int(s0)) == "s0"
    assert str(math.floor(s0)) == str(math.ceil(s0)) == str(math.trunc(s0)) == str(round(s0)) == "s0"
    assert s0.as_integer_ratio()[1] == 1
    assert space.guards() == []


def test_floats(space, s0) -> None:
    half = s0 / 2
    assert isinstance(half, torch.SymFloat)
    assert space.evaluate(half) == 3.0
    assert space.evaluate(half, s0=7) == 3.5
    assert space.evaluate(math.floor(half), s0=7) == 3
    assert space.evaluate(math.ceil(half), s0=7) == 4
    assert space.evaluate(torch.sym_int(half), s0=7) == 3
    assert space.evaluate(round(half), s0=7) == 4  # half to even
    assert space.evaluate(half * 3 + 0.5 - half, s0=8) == 8.5
    assert space.evaluate(2.0**half) == 8.0
    assert space.evaluate(half**2.0) == 9.0
    assert space.evaluate(torch.sym_max(half, 2.5), s0=4) == 2.5
    assert space.evaluate(half // 2, s0=10) == 2.0
    assert space.evaluate(half % 2, s0=10) == 1.0
    assert space.evaluate(half.is_integer(), s0=7) is False
    assert space.evaluate(s0**-1) == 1 / 6


FUNCTIONS = ["sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "atan", "log2"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_floats(space, s0, name: str) -> None:
    value = getattr(torch, f"_sym_{name}")(s0)
    assert space.evaluate(value, s0=3) == getattr(math, name)(3)
    # Beyond that Python raises an OverflowError, which is a matter of another recording.
    assert space.guards() == (["s0 <= 709"] if name in ("cosh", "sinh") else [])


def test_domains_of_functions(space) -> None:
    x = space.float_symbol("x", example=0.5)
    assert space.evaluate(torch._sym_asin(x)) == math.asin(0.5)
    assert space.evaluate(torch._sym_acos(x)) == math.acos(0.5)
    with pytest.raises(ValueError, match="math domain error"):
        torch._sym_sqrt(-x)


def test_questions_that_facts_answer_leave_no_guard(space, s0, s1) -> None:
    assert [bool(s0 == n) for n in (0, 1)] == [False, False]
    assert s0 >= 2 and s0 * s1 > 3 and s0 + s1 != 0
    assert s0 * 2 % 2 == 0
    assert bool(s0)
    assert not (s0 < 0) and not (s0 < 2)
    assert space.guards() == []


def test_a_question_leaves_one_guard_and_what_it_implies_none(space, s0, s1) -> None:
    assert s0 > 4
    assert space.guards() == ["s0 >= 5"]
    assert s0 > 4 and s0 >= 3 and s0 != 4 and s0 + 1 > 5 and not (s0 < 5) and s0 * s1 >= 10
    assert space.guards() == ["s0 >= 5"]
    assert s0 != s1
    assert len(space.guards()) == 2


def test_a_symbol_asked_for_its_number_becomes_it(space, s0) -> None:
    assert int(s0) == 6
    assert space.guards() == ["s0 == 6"]
    assert operator.index(s0 + 1) == 7 and [10, 11, 12, 13, 14, 15, 16][s0] == 16
    assert list(range(s0)) == list(range(6))
    assert space.guards() == ["s0 == 6"]


def test_conditions(space, s0, s1) -> None:
    both = (s0 > 3) & (s1 > 3)
    either = (s0 > 100) | (s1 > 3)
    assert isinstance(both, torch.SymBool)
    assert space.guards() == []
    assert space.evaluate(both) is True and space.evaluate(both, s1=2) is False
    assert space.evaluate(either) is True
    assert space.evaluate(torch.sym_not(both)) is False
    assert bool(both)
    assert sorted(space.guards()) == ["s0 >= 4", "s1 >= 4"] or space.guards() == ["s0 >= 4 and s1 >= 4"]
    assert not torch.sym_not(both)


def test_boolean_and_float_symbols(space) -> None:
    flag, x = space.bool_symbol("flag", example=True), space.float_symbol("x", example=0.5)
    assert isinstance(flag, torch.SymBool) and isinstance(x, torch.SymFloat)
    assert bool(flag) and space.guards() == ["flag"]
    assert float(x) == 0.5
    assert len(space.guards()) == 2


def test_symbols_nobody_has_seen(space) -> None:
    u0 = space.symbol("u0")
    with pytest.raises(saker.Refusal) as caught:
        bool(u0 > 5)
    assert caught.value.reason == "Undecided"
    assert guard_or_false(u0 == 5) is False and guard_or_true(u0 == 5) is True
    assert space.guards() == []
    torch._check(u0 > 5)
    assert u0 > 5 and u0 != 3
    assert not u0.node.has_hint()
    with pytest.raises(saker.Refusal):
        int(u0)


def test_symbolic_shapes_helpers(space, s0) -> None:
    assert not statically_known_true(s0 > 5) and not statically_known_false(s0 > 5)
    assert statically_known_true(s0 > 1) and statically_known_false(s0 < 1)
    assert space.guards() == []
    assert guard_or_false(s0 > 5) and guard_or_true(s0 > 5)
    assert space.guards() == ["s0 >= 6"]
    assert s0.node.has_hint() and s0.node.is_symbolic() and not s0.node.is_constant()


def test_assumptions(space, s0) -> None:
    space.assume(s0 % 4 == 2)
    space.assume("s0 <= 64")
    assert (s0 % 4 == 2) and s0 < 65
    assert space.guards() == []
    assert "s0 <= 64" in space.facts()
    with pytest.raises(ValueError, match="contradicts"):
        space.assume("s0 > 64")
    with pytest.raises(ValueError, match="column"):
        space.assume("s0 >")


def test_errors_are_pythons(space, s0) -> None:
    for operation in (operator.floordiv, operator.mod, operator.truediv):
        with pytest.raises(ZeroDivisionError):
            operation(s0, 0)
    with pytest.raises(saker.Refusal) as caught:
        s0 * (2**62) * 8
    assert caught.value.reason == "Overflow"
    with pytest.raises(TypeError):
        s0 + "text"
    with pytest.raises(TypeError, match="unhashable"):
        hash(s0)


def test_spaces_do_not_mix(s0) -> None:
    other = SymbolSpace().symbol("s0", example=6)
    with pytest.raises(RuntimeError, match="different spaces"):
        s0 + other


def test_names_and_ranges_are_checked(space, s0) -> None:
    with pytest.raises(ValueError, match="already"):
        space.symbol("s0")
    with pytest.raises(ValueError, match="not a name"):
        space.symbol("s 0")
    with pytest.raises(ValueError, match="not in its range"):
        space.symbol("s1", low=2, high=4, example=5)
    with pytest.raises(ValueError, match="no value is possible"):
        space.symbol("s1", low=4, high=2)


def test_a_symbol_outlives_its_space() -> None:
    s0 = SymbolSpace().symbol("s0", example=6)
    assert str(s0 + 1) == "s0 + 1" and s0 > 4


class TestTensors:
    def test_sizes_and_strides(self, space, s0, s1) -> None:
        t = space.tensor([s0, s1, 3])
        assert str(t.shape) == "torch.Size([s0, s1, 3])"
        assert str(t.stride()) == "(3*s1, 3, 1)"
        assert str(t.numel()) == "3*s0*s1" and t.dim() == 3
        assert str(t.size(0)) == "s0"

    def test_layout_questions_leave_no_guard(self, space, s0, s1) -> None:
        t = space.tensor([s0, s1, 3])
        assert t.is_contiguous()
        assert not t.transpose(0, 1).is_contiguous()
        assert not space.tensor([s0, s1], strides=[1, s0]).is_contiguous()
        images = space.tensor([s0, 3, s1, s1])
        assert images.is_contiguous() and not images.is_contiguous(memory_format=torch.channels_last)
        last = space.tensor([s0, 3, s1, s1], strides=[3 * s1 * s1, 1, 3 * s1, 3])
        assert last.is_contiguous(memory_format=torch.channels_last) and not last.is_contiguous()
        assert torch.ops.aten.is_non_overlapping_and_dense(last)
        assert torch.ops.aten.is_non_overlapping_and_dense(t)
        assert not torch.ops.aten.is_non_overlapping_and_dense(space.tensor([s0, s1], strides=[2 * s1, 1]))
        assert space.guards() == []

    def test_views_of_pytorch(self, space, s0, s1) -> None:
        t = space.tensor([s0, s1, 3])
        assert str(t.transpose(0, 2).shape) == "torch.Size([3, s1, s0])"
        assert str(t.unsqueeze(0).stride()) == "(3*s0*s1, 3*s1, 3, 1)"
        assert str(t.select(0, 1).storage_offset()) == "3*s1"
        assert str(t[0].t().stride()) == "(1, 3)"

    def test_factories_of_pytorch(self, space, s0) -> None:
        t = torch.empty(s0, 2 * s0, device="meta")
        assert str(t.shape) == "torch.Size([s0, 2*s0])" and str(t.stride()) == "(2*s0, 1)"
        assert space.guards() == []

    def test_no_data(self, space, s0) -> None:
        with pytest.raises(RuntimeError):
            space.tensor([s0]).data_ptr()
        with pytest.raises(RuntimeError):
            space.tensor([s0], device="cpu").sin()

    def test_gradients_flow_through_views(self, space, s0, s1) -> None:
        t = space.tensor([s0, s1]).requires_grad_()
        assert str(t.transpose(0, 1).shape) == "torch.Size([s1, s0])"
        assert t.transpose(0, 1).grad_fn is not None

    def test_inference(self, space, s0, s1) -> None:
        a, b = space.tensor([s0, s1, 3], device="cpu"), space.tensor([s1, 1], device="cpu", dtype=torch.float64)
        source, (result,) = saker.ops.infer("aten::add.Tensor", a, b)
        assert source == "table"
        assert str(result.sizes) == "(s0, s1, 3)" and str(result.strides) == "(3*s1, 3, 1)"
        assert (result.dtype, result.device) == (torch.float64, torch.device("cpu"))
        assert space.guards() == []

    def test_inference_guards_when_sizes_must_agree(self, space, s0) -> None:
        other = space.symbol("other", example=6)
        (result,) = saker.ops.infer("aten::add.Tensor", space.tensor([s0]), space.tensor([other])).results
        assert space.evaluate(result.sizes[0]) == 6
        assert len(space.guards()) == 1
        with pytest.raises(saker.Refusal):
            saker.ops.infer("aten::add.Tensor", space.tensor([s0]), space.tensor([space.symbol("s9", example=9)]))

    def test_floats_and_conditions_as_arguments(self, space, s0) -> None:
        x = space.float_symbol("x", example=0.5)
        t = space.tensor([s0], dtype=torch.int64)
        (result,) = saker.ops.infer("aten::add.Tensor", t, torch.tensor(2), alpha=s0).results
        assert result.dtype == torch.int64
        with pytest.raises(saker.Refusal):
            saker.ops.infer("aten::add.Tensor", t, torch.tensor(2), alpha=x)
        text = saker._C.call_text("aten::add.Tensor", (t, torch.tensor(2)), {"alpha": x})
        assert text.endswith("x)")

    def test_kernels_in_python_are_asked_about_symbols(self, space, s0) -> None:
        library = torch.library.Library("saker_symbols", "DEF")
        for name, kernel, sizes, guards in [
            ("twice", lambda x: torch.cat([x, x]), 12, 0),
            ("as_it_is_now", lambda x: x.new_empty(int(x.shape[0])), 6, 1),
        ]:
            library.define(f"{name}(Tensor x) -> Tensor")
            library.impl(name, kernel, "Meta")
            inferred = saker.ops.infer(f"saker_symbols::{name}", space.tensor([s0]))
            assert inferred.source == "fallback"
            (size,) = inferred.results[0].sizes
            assert (size if isinstance(size, int) else space.evaluate(size)) == sizes
            assert len(space.guards()) == guards
        library._destroy()

    def test_symbols_of_someone_else_are_refused(self, s0) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        with FakeTensorMode(shape_env=ShapeEnv()) as mode:
            fake = mode.from_tensor(torch.empty(6, 4))
        if isinstance(fake.shape[0], torch.SymInt):
            with pytest.raises(saker.Refusal, match="not Saker's"):
                saker.ops.infer("aten::sin", fake)


BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "max": torch.sym_max,
    "min": torch.sym_min,
}
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("seed", range(60))
def test_random_arithmetic_equals_that_of_numbers(seed: int) -> None:
    """Random expressions: their value at the example, and at other values for which the guards hold, is Python's."""
    chance = random.Random(seed)
    examples = {f"s{i}": chance.randint(2, 12) for i in range(3)}
    space = SymbolSpace()
    symbols = {name: space.symbol(name, example=value) for name, value in examples.items()}
    program = []

    def run(values: dict) -> list:
        stack = [values[name] for name in sorted(values)] + [0, 1, 2, -3, 7]
        answers = []
        for op, a, b in program:
            try:
                result = op(stack[a % len(stack)], stack[b % len(stack)])
            except ZeroDivisionError:
                result = None
            answers.append(result)
            if op not in COMPARISONS:
                stack.append(1 if result is None else result)
        return answers

    for _ in range(12):
        op = chance.choice(list(BINARY.values()) + COMPARISONS)
        program.append((op, chance.randrange(100), chance.randrange(100)))
    symbolic = run(symbols)
    others = [{name: chance.randint(2, 12) for name in examples} for _ in range(20)]
    held = 0
    for values in [examples, *others]:
        if not all(holds(space, guard, values) for guard in space.guards()):
            assert values is not examples
            continue
        held += 1
        for ours, expected in zip(symbolic, run(values), strict=True):
            ours = space.evaluate(ours, **values) if isinstance(ours, (torch.SymInt, torch.SymBool)) else ours
            assert ours == expected
    assert held >= 1


def holds(space: SymbolSpace, guard: str, values: dict[str, int]) -> bool:
    return bool(eval(guard, {"max": max, "min": min}, dict(values)))
