// Factories, concatenation, padding and indexing with symbolic sizes; refusals and flags.
#include "movement_fixture.h"

namespace saker::ops {
namespace {

using OpsFactories = Movement;
using OpsMovement = Movement;

Arg none() { return Arg::none(); }

TEST_F(OpsFactories, DefaultsComeFromTheContext) {
  EXPECT_EQ(one("aten::zeros", {ints({2, 3})}), "f32[2, 3]");
  context.ambient().defaultDType = DType::Float64;
  EXPECT_EQ(one("aten::zeros", {ints({2, 3})}), "f64[2, 3]");
  EXPECT_EQ(one("aten::full", {ints({2}), Arg::number(1.5)}), "f64[2]");
  EXPECT_EQ(one("aten::full", {ints({2}), i(1)}), "i64[2]");
  EXPECT_EQ(one("aten::full", {ints({2}), Arg::boolean(true)}), "bool[2]");
  EXPECT_EQ(one("aten::arange", {i(5)}), "i64[5]");
  EXPECT_EQ(one("aten::arange", {Arg::number(2.5)}), "f64[3]");
}

TEST_F(OpsFactories, SymbolicRanges) {
  Int s = size("s", 7);
  EXPECT_EQ(one("aten::arange", {sym(s)}), "i64[s]");
  EXPECT_EQ(one("aten::arange.start", {i(1), sym(s)}), "i64[s - 1]");
  EXPECT_EQ(one("aten::arange.start_step", {i(0), sym(s), i(1), Arg::dtype(DType::Float32)}), "f32[s]");
  EXPECT_EQ(one("aten::full", {ints({s, s}), i(0), Arg::dtype(DType::Float32)}), "f32[s, s]");
  EXPECT_EQ(one("aten::tril_indices", {i(3), i(4), i(-1)}), "i64[2, 3]");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsFactories, Refusals) {
  EXPECT_EQ(refusal("aten::arange.start_step", {i(5), i(0), i(1)}), Reason::BadArgument);
  EXPECT_EQ(refusal("aten::arange.start_step", {i(0), i(5), i(0)}), Reason::BadArgument);
  EXPECT_EQ(refusal("aten::zeros", {ints({-2})}), Reason::BadArgument);
  EXPECT_EQ(refusal("aten::full", {ints({2}), i(300), Arg::dtype(DType::UInt8)}), Reason::BadArgument);
  EXPECT_EQ(refusal("aten::rand", {ints({2}), Arg::dtype(DType::Int64)}), Reason::BadArgument);
  EXPECT_EQ(refusal("aten::zeros", {ints({2}), none(), none(), Arg::device({DeviceType::CUDA, -1})}),
            Reason::Unsupported)
      << "which of the devices is the current one";
  EXPECT_EQ(one("aten::zeros", {ints({2}), none(), none(), Arg::device({DeviceType::CUDA, 1})}),
            "f32[2]{device: cuda:1}");
}

TEST_F(OpsFactories, LikeKeepsTheMemoryOrder) {
  Arg x = strided({4, 3}, {1, 4}, DType::Int32);
  EXPECT_EQ(one("aten::zeros_like", {x}), "i32[4, 3]{strides: [1, 4]}");
  EXPECT_EQ(one("aten::zeros_like", {x, none(), none(), none(), none(), Arg::memoryFormat(MemoryFormat::Contiguous)}),
            "i32[4, 3]");
  EXPECT_EQ(one("aten::new_zeros", {x, ints({2, 2})}), "i32[2, 2]");
}

TEST_F(OpsFactories, RandomOnesAreNeverDead) {
  for (const char* name :
       {"aten::rand", "aten::randn_like", "aten::randint.low", "aten::randperm", "aten::multinomial"}) {
    ASSERT_NE(find(name), nullptr) << name;
    EXPECT_TRUE(find(name)->isRandom()) << name;
    EXPECT_FALSE(find(name)->isRemovable()) << name;
  }
  EXPECT_TRUE(find("aten::zeros")->isPure());
}

TEST_F(OpsMovement, CatAddsSymbols) {
  Int a = size("a", 3), b = size("b", 5);
  EXPECT_EQ(one("aten::cat", {list({tensor({a, 4}), tensor({b, 4})}), i(0)}), "f32[a + b, 4]");
  EXPECT_EQ(one("aten::cat", {list({tensor({0}), tensor({a, 4}), tensor({a, 4}, DType::Float64)}), i(-1)}),
            "f64[a, 8]");
  EXPECT_EQ(one("aten::stack", {list({tensor({a, b}), tensor({a, b})}), i(1)}), "f32[a, 2, b]");
  EXPECT_EQ(one("aten::stack", {list({tensor({a, b}), tensor({a, b})}), i(-1)}), "f32[a, b, 2]");
  EXPECT_EQ(guards(), 0u);
  EXPECT_EQ(refusal("aten::cat", {list({tensor({2, 3}), tensor({3, 3})}), i(1)}), Reason::BadArgument);
  EXPECT_EQ(refusal("aten::cat", {list({tensor({})}), i(0)}), Reason::BadArgument);
  EXPECT_EQ(refusal("aten::cat", {list({}), i(0)}), Reason::BadArgument);
}

TEST_F(OpsMovement, PadRepeatAndRoll) {
  Int s = size("s", 7);
  EXPECT_EQ(one("aten::constant_pad_nd", {tensor({2, s}), ints({1, 2}), i(0)}), "f32[2, s + 3]");
  EXPECT_EQ(one("aten::repeat", {tensor({s}), ints({3, 2})}), "f32[3, 2*s]");
  EXPECT_EQ(one("aten::roll", {tensor({2, s}), ints({1}), ints({1})}), "f32[2, s]");
  EXPECT_EQ(guards(), 0u);
  // Whether one column is left decides whether the rest is dense.
  EXPECT_EQ(one("aten::constant_pad_nd", {tensor({2, s}), ints({-1, 0}), i(0)}), "f32[2, s - 1]");
  EXPECT_LE(guards(), 1u);
}

TEST_F(OpsMovement, IndexingKeepsSymbols) {
  Int b = size("b", 4), s = size("s", 7);
  Arg index = tensor({b, 1}, DType::Int64), other = tensor({s}, DType::Int64);
  EXPECT_EQ(one("aten::index.Tensor", {tensor({10, 20, 30}), list({index, other})}), "f32[b, s, 30]");
  EXPECT_EQ(one("aten::index.Tensor", {tensor({10, 20, 30}), list({index, none(), other})}), "f32[b, s, 20]");
  EXPECT_EQ(one("aten::index.Tensor", {tensor({10, 20, s}), list({none(), other})}), "f32[10, s, s]");
  EXPECT_EQ(one("aten::embedding", {tensor({100, 16}), tensor({b, s}, DType::Int64), i(-1)}), "f32[b, s, 16]");
  EXPECT_EQ(one("aten::index_select", {tensor({10, s}), i(0), tensor({b}, DType::Int64)}), "f32[b, s]");
  EXPECT_EQ(one("aten::gather", {tensor({b, s}), i(1), tensor({b, 1}, DType::Int64)}), "f32[b, 1]");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsMovement, MasksDependOnData) {
  Arg mask = tensor({4, 3}, DType::Bool);
  EXPECT_EQ(refusal("aten::index.Tensor", {tensor({4, 3}), list({mask})}), Reason::DataDependent);
  EXPECT_EQ(refusal("aten::index.Tensor", {tensor({4, 2}), list({mask})}), Reason::BadArgument);
  EXPECT_EQ(one("aten::masked_select", {tensor({4, 3}), mask}), "f32[u0]");
  EXPECT_EQ(one("aten::nonzero", {tensor({4})}), "i64[u1, 1]{strides: [1, u1]}");
  EXPECT_TRUE(find("aten::nonzero")->has(kDynamicShape));
  EXPECT_EQ(one("aten::index_put_", {tensor({4, 3}), list({mask}), tensor({}), Arg::boolean(false)}), "f32[4, 3]");
}

TEST_F(OpsMovement, WritesThroughIndices) {
  Arg index = tensor({2}, DType::Int64);
  EXPECT_EQ(refusal("aten::index_put", {tensor({4, 3}), list({index}), tensor({5}), Arg::boolean(false)}),
            Reason::BadArgument);
  EXPECT_EQ(refusal("aten::index_add", {tensor({4, 3}), i(0), index, tensor({3, 3}), i(1)}), Reason::BadArgument);
  EXPECT_EQ(refusal("aten::scatter_.value", {strided({4, 3}, {0, 1}), i(0), tensor({1, 1}, DType::Int64), i(1)}),
            Reason::BadArgument)
      << "elements share an address";
  EXPECT_TRUE(find("aten::gather")->has(kFailsOnData));
  EXPECT_EQ(find("aten::scatter_add_")->writes, 1u);
}

}  // namespace
}  // namespace saker::ops
