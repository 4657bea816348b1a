"""The operator table and the extension's interface to it."""

import pytest
import torch

import saker
from saker import _C
from torch_versions import ABSENT_OPERATORS, HAS_ALL_OPERATORS, RENAMED_ARGUMENTS


def installed_schema(name: str) -> str | None:
    base, _, overload = name.partition(".")
    try:
        return str(torch._C._get_schema(base, overload))
    except RuntimeError:
        return None


@pytest.mark.parametrize("op", saker.ops.operators(), ids=lambda op: op.name)
def test_schemas_are_those_of_the_installed_torch(op) -> None:
    installed = installed_schema(op.name)
    if installed is None and (op.name in ABSENT_OPERATORS or not HAS_ALL_OPERATORS):
        pytest.skip(f"{op.name} is not in this torch")
    now, before = RENAMED_ARGUMENTS.get(op.name, ("", ""))
    schema = op.schema.replace(f" {now},", f" {before},", 1) if now else op.schema
    assert str(torch._C.parse_schema(schema)) == installed


def test_operators_are_sorted_and_described() -> None:
    table = saker.ops.operators()
    assert [op.name for op in table] == sorted(op.name for op in table)
    add = next(op for op in table if op.name == "aten::add_.Tensor")
    assert (add.cost, add.variant, add.writes) == ("pointwise", "inplace", ("self",))


def test_infer_by_the_table() -> None:
    source, results = saker.ops.infer(torch.ops.aten.add.Tensor, torch.empty(2, 1), torch.empty(3, dtype=torch.int8))
    assert source == "table"
    assert results[0] == (torch.float32, (2, 3), (3, 1), 0, torch.device("cpu"), torch.strided, False, False)


def test_python_numbers_take_part_in_promotion_as_numbers() -> None:
    half = torch.empty(3, dtype=torch.float16)
    assert saker.ops.infer("aten::add.Tensor", half, 2.5).results[0].dtype == torch.float16
    wide = torch.tensor(2.5, dtype=torch.float64)
    assert saker.ops.infer("aten::add.Tensor", half, wide).results[0].dtype == torch.float16
    assert saker.ops.infer("aten::add.Tensor", half, wide.reshape(1)).results[0].dtype == torch.float64


def test_default_dtype_is_read_at_each_call() -> None:
    numbers = torch.empty(3, dtype=torch.int64)
    assert saker.ops.infer("aten::sin", numbers).results[0].dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert saker.ops.infer("aten::sin", numbers).results[0].dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_refusals_have_a_reason() -> None:
    with pytest.raises(saker.Refusal, match="broadcast") as caught:
        saker.ops.infer("aten::add.Tensor", torch.empty(2), torch.empty(3))
    assert caught.value.reason == "BadArgument"
    assert isinstance(caught.value, RuntimeError)


def test_unknown_operators_and_wrong_arguments_are_errors_of_the_caller() -> None:
    with pytest.raises(KeyError, match="no operator aten::nothing"):
        saker.ops.infer("aten::nothing", 1)
    with pytest.raises(TypeError, match="missing value for argument 'other'"):
        saker.ops.infer("aten::add.Tensor", torch.empty(2))
    with pytest.raises(TypeError, match="Expected a value of type 'Tensor'"):
        saker.ops.infer("aten::mm", "text", torch.empty(2, 2))


@pytest.fixture
def custom_library():
    library = torch.library.Library("saker_test", "DEF")
    yield library
    library._destroy()


def define(library: torch.library.Library, schema: str, meta) -> None:
    library.define(schema)
    library.impl(schema.partition("(")[0], meta, "Meta")


class TestFallback:
    def test_counts_and_gives_what_the_meta_kernel_gives(self, custom_library) -> None:
        define(custom_library, "twice(Tensor x) -> (Tensor, Tensor)", lambda x: (x.new_empty(x.shape), x.t()))
        _C.reset_counts()
        x = torch.empty(2, 3)
        source, (fresh, view) = saker.ops.infer("saker_test::twice", x)
        assert source == "fallback"
        assert (fresh.sizes, fresh.strides, fresh.device) == ((2, 3), (3, 1), torch.device("cpu"))
        assert (view.sizes, view.strides) == ((3, 2), (1, 3))
        assert saker.ops.fallback_counts() == {"saker_test::twice": 1}
        assert saker.ops.fallback_report().split() == ["1", "saker_test::twice"]
        _C.reset_counts()
        assert saker.ops.fallback_counts() == {}

    def test_a_failing_kernel_is_a_refusal(self, custom_library) -> None:
        def fails(x):
            raise ValueError("not like this")

        define(custom_library, "fails(Tensor x) -> Tensor", fails)
        with pytest.raises(saker.Refusal, match="not like this") as caught:
            saker.ops.infer("saker_test::fails", torch.empty(2))
        assert caught.value.reason == "BadArgument"

    def test_a_missing_kernel_is_a_refusal(self, custom_library) -> None:
        custom_library.define("missing(Tensor x) -> Tensor")
        with pytest.raises(saker.Refusal) as caught:
            saker.ops.infer("saker_test::missing", torch.empty(2))
        assert caught.value.reason == "Unsupported"

    def test_arguments_keep_their_strides_offset_and_aliasing(self, custom_library) -> None:
        seen = []

        def look(x, y):
            seen.append(
                (
                    x.device.type,
                    x.stride(),
                    x.storage_offset(),
                    x.untyped_storage()._cdata == y.untyped_storage()._cdata,
                )
            )
            return x

        define(custom_library, "look(Tensor x, Tensor y) -> Tensor", look)
        base = torch.empty(4, 6)
        saker.ops.infer("saker_test::look", base[1:, ::2], base[0])
        saker.ops.infer("saker_test::look", base[1:, ::2], torch.empty(1))
        assert seen == [("meta", (6, 2), 6, True), ("meta", (6, 2), 6, False)]

    def test_factories_get_the_device_they_name(self, custom_library) -> None:
        define(
            custom_library,
            "make(int n, *, Device? device=None, bool? pin_memory=None) -> Tensor",
            lambda n, *, device=None, pin_memory=None: torch.empty(n, device=device),
        )
        custom_library.impl(
            "make", lambda n, *, device=None, pin_memory=None: torch.empty(n, device=device), "BackendSelect"
        )
        assert saker.ops.infer("saker_test::make", 3).results[0].device == torch.device("cpu")
        assert saker.ops.infer("saker_test::make", 3, device=torch.device("cpu")).results[0].device.type == "cpu"
        assert saker.ops.infer("saker_test::make", 3, device=torch.device("meta")).results[0].device.type == "meta"

    def test_operators_that_are_deregistered_are_forgotten(self) -> None:
        for meta, sizes in ((lambda x: x.new_empty(1), (1,)), (lambda x: x.new_empty(2), (2,))):
            library = torch.library.Library("saker_again", "DEF")
            define(library, "op(Tensor x) -> Tensor", meta)
            assert saker.ops.infer("saker_again::op", torch.empty(0)).results[0].sizes == sizes
            library._destroy()
        with pytest.raises(KeyError):
            saker.ops.infer("saker_again::op", torch.empty(0))
