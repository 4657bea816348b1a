// Views with symbolic sizes, refusals, and what the table says about aliasing and writes.
#include "movement_fixture.h"

namespace saker::ops {
namespace {

using OpsViews = Movement;

TEST_F(OpsViews, ViewOfSymbolsNeedsNoGuard) {
  Int b = size("b", 4), s = size("s", 7);
  Arg x = tensor({b, s, 768});
  EXPECT_EQ(one("aten::view", {x, ints({b, s, 12, 64})}), "f32[b, s, 12, 64]");
  EXPECT_EQ(one("aten::view", {x, ints({-1, 768})}), "f32[b*s, 768]");
  EXPECT_EQ(one("aten::view", {x, ints({b * s, 768})}), "f32[b*s, 768]");
  EXPECT_EQ(one("aten::_unsafe_view", {tensor({b * s, 768}), ints({b, s, 768})}), "f32[b, s, 768]");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsViews, ViewOfATransposedSymbolicTensorIsCutWhereMemoryIs) {
  Int b = size("b", 4), s = size("s", 7);
  // [b, s, 12, 64] with dimensions 1 and 2 swapped: b*12 rows cannot be joined, the last dimension can be split.
  Arg x = strided({b, 12, s, 64}, {s * Int(768), 64, 768, 1});
  EXPECT_EQ(one("aten::view", {x, ints({b, 12, s, 8, 8})}), "f32[b, 12, s, 8, 8]{strides: [768*s, 64, 768, 8, 1]}");
  EXPECT_EQ(guards(), 0u);
  EXPECT_EQ(refusal("aten::view", {x, ints({b, 12 * s, 64})}), Reason::BadArgument);
}

TEST_F(OpsViews, SizesThatDoNotFitAreRefused) {
  EXPECT_EQ(refusal("aten::view", {tensor({4, 3}), ints({5, -1})}), Reason::BadArgument);
  EXPECT_EQ(refusal("aten::view", {tensor({4, 3}), ints({-1, -1})}), Reason::BadArgument);
  EXPECT_EQ(refusal("aten::view", {tensor({0, 3}), ints({-1, 0})}), Reason::BadArgument);
  EXPECT_EQ(refusal("aten::view", {strided({4, 3}, {1, 4}), ints({12})}), Reason::BadArgument);
  EXPECT_EQ(refusal("aten::expand", {tensor({3}), ints({4})}), Reason::BadArgument);
  EXPECT_EQ(refusal("aten::permute", {tensor({4, 3}), ints({0, 0})}), Reason::BadArgument);
}

TEST_F(OpsViews, ExpandKeepsSymbols) {
  Int s = size("s", 7);
  EXPECT_EQ(one("aten::expand", {tensor({s, 1}), ints({s, 5})}), "f32[s, 5]{strides: [1, 0]}");
  EXPECT_EQ(one("aten::expand", {tensor({s, 1}), ints({-1, s})}), "f32[s, s]{strides: [1, 0]}");
  EXPECT_EQ(one("aten::expand", {tensor({}), ints({s, 2})}), "f32[s, 2]{strides: [0, 0]}");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsViews, SlicesOfSymbols) {
  Int s = size("s", 7);
  Arg x = tensor({3, s});
  EXPECT_EQ(one("aten::slice.Tensor", {x, i(1), i(0), i(INT64_MAX), i(1)}), "f32[3, s]");
  EXPECT_EQ(one("aten::slice.Tensor", {x, i(1), i(0), i(-1), i(1)}), "f32[3, s - 1]{strides: [s, 1]}");
  EXPECT_EQ(one("aten::slice.Tensor", {x, i(1), i(1), i(INT64_MAX), i(1)}),
            "f32[3, s - 1]{strides: [s, 1], offset: 1}");
  EXPECT_EQ(one("aten::select.int", {x, i(1), i(-1)}), "f32[3]{strides: [s], offset: s - 1}");
  EXPECT_EQ(guards(), 0u);
  // Whether five elements are there is not known: one guard.
  EXPECT_EQ(one("aten::slice.Tensor", {x, i(1), i(0), i(5), i(1)}), "f32[3, 5]{strides: [s, 1]}");
  EXPECT_EQ(guards(), 1u);
}

TEST_F(OpsViews, SplitGuardsOnTheNumberOfPartsOnly) {
  Int s = size("s", 7);
  EXPECT_EQ(one("aten::split.Tensor", {tensor({s, 2}), i(4), i(0)}), "f32[4, 2]; f32[s - 4, 2]{offset: 8}");
  EXPECT_EQ(guards(), 1u);
  Int h = size("h", 8);
  EXPECT_EQ(one("aten::split.Tensor", {tensor({3 * h}), sym(h), i(0)}),
            "f32[h]; f32[h]{offset: h}; f32[h]{offset: 2*h}");
  EXPECT_EQ(one("aten::unbind.int", {tensor({2, s}), i(0)}), "f32[s]; f32[s]{offset: s}");
  EXPECT_EQ(guards(), 1u);
}

TEST_F(OpsViews, SqueezeKeepsSymbols) {
  Int s = size("s", 7);
  EXPECT_EQ(one("aten::squeeze", {tensor({1, s, 1})}), "f32[s]");
  EXPECT_EQ(one("aten::squeeze.dim", {tensor({1, s, 1}), i(1)}), "f32[1, s, 1]");
  EXPECT_EQ(one("aten::unsqueeze", {tensor({s, 3}), i(0)}), "f32[1, s, 3]");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsViews, DiagonalOfSymbols) {
  Int s = size("s", 7);
  EXPECT_EQ(one("aten::diagonal", {tensor({s, s}), i(0), i(0), i(1)}), "f32[s]{strides: [s + 1]}");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsViews, BitsAndDtypes) {
  Inferred conj = run("aten::_conj", {tensor({2}, DType::Complex64)});
  ASSERT_TRUE(conj.ok());
  EXPECT_TRUE(ir::asTensor(conj.results[0])->flags.conj);
  EXPECT_EQ(refusal("aten::_conj", {tensor({2})}), Reason::BadArgument);
  EXPECT_EQ(one("aten::view_as_real", {tensor({2, 3}, DType::Complex128)}), "f64[2, 3, 2]");
  EXPECT_EQ(one("aten::view.dtype", {tensor({2, 6}), Arg::dtype(DType::Float64)}), "f64[2, 3]");
  EXPECT_EQ(refusal("aten::view.dtype", {tensor({2, 3}), Arg::dtype(DType::Float64)}), Reason::BadArgument);
}

TEST_F(OpsViews, AsStridedStaysInsideTheTensor) {
  Arg x = tensor({4, 6});
  EXPECT_EQ(one("aten::as_strided", {x, ints({3, 2}), ints({6, 1}), i(1)}), "f32[3, 2]{strides: [6, 1], offset: 1}");
  EXPECT_EQ(refusal("aten::as_strided", {x, ints({5, 6}), ints({6, 1}), Arg::none()}), Reason::Unsupported);
  EXPECT_EQ(refusal("aten::as_strided", {x, ints({2}), ints({-1}), Arg::none()}), Reason::BadArgument);
}

TEST_F(OpsViews, MetadataWritesKeepTheTensorsFlags) {
  TensorSpec spec;
  spec.sizes = {Int(4), Int(3)};
  spec.strides = {Int(3), Int(1)};
  spec.flags.requiresGrad = true;
  Inferred out = run("aten::t_", {Arg::type(context.types().tensor(spec))});
  ASSERT_TRUE(out.ok());
  const TensorType* t = ir::asTensor(out.results[0]);
  EXPECT_TRUE(t->flags.requiresGrad);
  EXPECT_TRUE(t->size(0).isConst(3));
  Inferred view = run("aten::t", {Arg::type(context.types().tensor(spec))});
  EXPECT_FALSE(ir::asTensor(view.results[0])->flags.requiresGrad);
  EXPECT_EQ(one("aten::resize_", {strided({3, 4}, {1, 3}), ints({3, 4}), Arg::none()}), "f32[3, 4]{strides: [1, 3]}");
  EXPECT_EQ(one("aten::resize_", {strided({3, 4}, {1, 3}), ints({2, 2}), Arg::none()}), "f32[2, 2]");
}

TEST_F(OpsViews, Aliasing) {
  EXPECT_EQ(find("aten::view")->variant, Variant::View);
  EXPECT_EQ(find("aten::split.Tensor")->resultAlias[0], 0);
  EXPECT_FALSE(find("aten::view")->isPure());
  EXPECT_TRUE(find("aten::view_copy")->isPure());
  EXPECT_FALSE(find("aten::_unsafe_view")->isPure()) << "of the same memory, whatever the schema says";
  EXPECT_EQ(find("aten::t_")->writes, 1u);
  EXPECT_EQ(find("aten::permute_copy.out")->writes, 1u << 2);
  EXPECT_EQ(find("aten::view")->cost, Cost::View);
}

TEST_F(OpsViews, QueriesAnswerWithExpressions) {
  Int b = size("b", 4), s = size("s", 7);
  Arg x = tensor({b, s, 3});
  EXPECT_EQ(one("aten::sym_size.int", {x, i(-2)}), "int(s)");
  EXPECT_EQ(one("aten::sym_stride.int", {x, i(0)}), "int(3*s)");
  EXPECT_EQ(one("aten::sym_numel", {x}), "int(3*b*s)");
  EXPECT_EQ(one("aten::sym_storage_offset", {x}), "int(0)");
  EXPECT_EQ(one("aten::is_same_size", {x, x}), "bool(True)");
  EXPECT_EQ(guards(), 0u);
  EXPECT_EQ(refusal("aten::_local_scalar_dense", {tensor({})}), Reason::DataDependent);
  EXPECT_TRUE(find("aten::_local_scalar_dense")->has(kDataDependent));
  EXPECT_TRUE(find("aten::_assert_async.msg")->has(kEffect));
}

TEST_F(OpsViews, ScattersAndBackwardsOfViews) {
  Int s = size("s", 7);
  EXPECT_EQ(one("aten::slice_backward", {tensor({3, s - Int(1)}), ints({3, s}), i(1), i(0), i(-1), i(1)}), "f32[3, s]");
  EXPECT_EQ(one("aten::select_scatter", {strided({4, 3}, {1, 4}), tensor({3}), i(0), i(1)}),
            "f32[4, 3]{strides: [1, 4]}");
  EXPECT_EQ(guards(), 0u);
  EXPECT_EQ(refusal("aten::select_scatter", {tensor({4, 3}), tensor({4}), i(0), i(1)}), Reason::BadArgument);
}

}  // namespace
}  // namespace saker::ops
