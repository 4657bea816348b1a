// The table and the parts that every family uses: promotion, broadcasting, memory order, in-place and out= forms.
#include <gtest/gtest.h>

#include "ops/infer.h"
#include "ops/promote.h"
#include "ops/shape.h"

namespace saker::ops {
namespace {

class OpsCore : public ::testing::Test {
 protected:
  ir::Context context{lookup};

  const TensorType* tensor(std::initializer_list<Int> sizes, DType dtype = DType::Float32) {
    TensorSpec spec;
    spec.dtype = dtype;
    spec.sizes = Dims(sizes);
    spec.strides = ir::contiguousStrides(spec.sizes);
    return context.types().tensor(spec);
  }
  const TensorType* strided(std::initializer_list<Int> sizes, std::initializer_list<Int> strides) {
    TensorSpec spec;
    spec.sizes = Dims(sizes);
    spec.strides = Dims(strides);
    return context.types().tensor(spec);
  }
  Inferred run(std::string_view name, std::initializer_list<Arg> args) {
    const Operator* op = find(name);
    EXPECT_NE(op, nullptr) << name;
    return infer(*op, context, std::span<const Arg>(args.begin(), args.size()));
  }
  std::string one(std::string_view name, std::initializer_list<Arg> args) {
    Inferred out = run(name, args);
    if (!out.ok()) return "refused: " + out.refusal->message;
    return ir::toString(out.results[0]);
  }
};

Arg t(const TensorType* type) { return Arg::type(type); }

TEST_F(OpsCore, EveryOperatorHasARuleAndFindsItself) {
  ASSERT_FALSE(all().empty());
  for (const Operator* op : all()) {
    EXPECT_NE(op->infer, nullptr) << op->qualified;
    EXPECT_EQ(find(op->qualified), op);
  }
}

TEST_F(OpsCore, BroadcastsSizes) {
  EXPECT_EQ(one("aten::add.Tensor", {t(tensor({4, 1, 3})), t(tensor({5, 1})), Arg::integer(1)}), "f32[4, 5, 3]");
  EXPECT_FALSE(run("aten::add.Tensor", {t(tensor({4})), t(tensor({5})), Arg::integer(1)}).ok());
}

TEST_F(OpsCore, BroadcastsSymbolsWithoutAGuard) {
  Int s0 = context.symbols().symbol("s0"), s1 = context.symbols().symbol("s1");
  EXPECT_EQ(one("aten::add.Tensor", {t(tensor({s0, 1, s1})), t(tensor({s1})), Arg::integer(1)}), "f32[s0, 1, s1]");
  EXPECT_EQ(one("aten::mul.Tensor", {t(tensor({s0, s1})), t(tensor({})), Arg::none()}), "f32[s0, s1]");
  EXPECT_TRUE(context.symbols().guards().empty());
}

TEST_F(OpsCore, AQuestionAboutTwoSymbolsLeavesOneGuard) {
  Int s0 = context.symbols().symbol("s0", sym::Range::size(), 7),
      s1 = context.symbols().symbol("s1", sym::Range::size(), 7);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(run("aten::add.Tensor", {t(tensor({s0, 3})), t(tensor({s1, 3})), Arg::integer(1)}).ok());
  }
  EXPECT_EQ(context.symbols().guards().size(), 1u);
}

TEST_F(OpsCore, ASymbolWithoutExampleIsUndecided) {
  Int s0 = context.symbols().symbol("s0"), s1 = context.symbols().symbol("s1");
  Inferred out = run("aten::add.Tensor", {t(tensor({s0})), t(tensor({s1})), Arg::integer(1)});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.refusal->reason, Reason::Undecided);
}

TEST_F(OpsCore, ResultsKeepTheMemoryOrderOfTheInputs) {
  const TensorType* transposed = strided({4, 3}, {1, 4});
  EXPECT_EQ(one("aten::sin", {t(transposed)}), "f32[4, 3]{strides: [1, 4]}");
  EXPECT_EQ(one("aten::add.Tensor", {t(transposed), t(tensor({4, 3})), Arg::integer(1)}), "f32[4, 3]{strides: [1, 4]}");
  EXPECT_EQ(one("aten::add.Tensor", {t(tensor({4, 3})), t(transposed), Arg::integer(1)}), "f32[4, 3]");
}

TEST_F(OpsCore, InplaceReturnsTheTensorItself) {
  const TensorType* x = strided({4, 3}, {1, 4});
  Inferred out = run("aten::add_.Tensor", {t(x), t(tensor({3})), Arg::integer(1)});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out.results[0], x);
  EXPECT_FALSE(run("aten::add_.Tensor", {t(tensor({3})), t(x), Arg::integer(1)}).ok()) << "would have to grow";
  EXPECT_FALSE(run("aten::sin_", {t(tensor({3}, DType::Int64))}).ok()) << "a float does not fit into an integer";
  EXPECT_FALSE(run("aten::sin_", {t(strided({4, 3}, {0, 1}))}).ok()) << "writes several elements at one address";
}

TEST_F(OpsCore, OutIsResizedOrKept) {
  EXPECT_EQ(one("aten::sin.out", {t(tensor({4, 3})), t(tensor({0}))}), "f32[4, 3]");
  EXPECT_EQ(one("aten::sin.out", {t(tensor({4, 3})), t(strided({4, 3}, {1, 4}))}), "f32[4, 3]{strides: [1, 4]}");
  EXPECT_FALSE(run("aten::sin.out", {t(tensor({4, 3})), t(tensor({4, 3}, DType::Int32))}).ok());
}

TEST_F(OpsCore, EffectsComeFromTheSchema) {
  const Operator* functional = find("aten::add.Tensor");
  const Operator* inplace = find("aten::add_.Tensor");
  const Operator* out = find("aten::add.out");
  EXPECT_EQ(functional->variant, Variant::Functional);
  EXPECT_TRUE(functional->isPure());
  EXPECT_EQ(inplace->variant, Variant::Inplace);
  EXPECT_EQ(inplace->writes, 1u);
  EXPECT_EQ(inplace->resultAlias[0], 0);
  EXPECT_FALSE(inplace->isRemovable());
  EXPECT_EQ(out->variant, Variant::Out);
  EXPECT_EQ(out->writes, 1u << 3);
}

TEST_F(OpsCore, Promotion) {
  EXPECT_EQ(promoteTypes(DType::UInt8, DType::Int8), DType::Int16);
  EXPECT_EQ(promoteTypes(DType::Float16, DType::BFloat16), DType::Float32);
  EXPECT_EQ(promoteTypes(DType::Int64, DType::Float16), DType::Float16);
  EXPECT_EQ(promoteTypes(DType::Float64, DType::Complex64), DType::Complex128);
  EXPECT_EQ(promoteTypes(DType::Bool, DType::UInt8), DType::UInt8);
  TensorSpec number;
  number.dtype = DType::Float64;
  number.flags.wrappedNumber = true;
  const TensorType* wrapped = context.types().tensor(number);
  const TensorType* halfs[] = {tensor({3}, DType::Float16), wrapped};
  EXPECT_EQ(resultType(context, halfs), DType::Float16);
  const TensorType* ints[] = {tensor({3}, DType::Int32), wrapped};
  EXPECT_EQ(resultType(context, ints), DType::Float32);
  const TensorType* zeroDim[] = {tensor({3}, DType::Float32), tensor({}, DType::Float64)};
  EXPECT_EQ(resultType(context, zeroDim), DType::Float32);
}

TEST_F(OpsCore, MemoryFormats) {
  EXPECT_EQ(suggestMemoryFormat(*strided({2, 3, 4, 5}, {60, 1, 15, 3})), MemoryFormat::ChannelsLast);
  EXPECT_EQ(suggestMemoryFormat(*tensor({2, 3, 4, 5})), MemoryFormat::Contiguous);
  EXPECT_EQ(suggestMemoryFormat(*tensor({2, 1, 4, 5})), MemoryFormat::Contiguous);
  EXPECT_TRUE(isNonOverlappingAndDense(*strided({4, 3}, {1, 4})));
  EXPECT_FALSE(isNonOverlappingAndDense(*strided({4, 3}, {6, 2})));
}

}  // namespace
}  // namespace saker::ops
