// Reductions and what is built on them: what the comparison with PyTorch does not see. Symbolic sizes and the guards
// they leave, effects, refusals.
#include <gtest/gtest.h>

#include "ops/infer.h"

namespace saker::ops {
namespace {

class OpsReduction : public ::testing::Test {
 protected:
  ir::Context context{lookup};
  Int s0 = context.symbols().symbol("s0");
  Int s1 = context.symbols().symbol("s1");

  Arg tensor(std::initializer_list<Int> sizes, DType dtype = DType::Float32) {
    TensorSpec spec;
    spec.dtype = dtype;
    spec.sizes = Dims(sizes);
    spec.strides = ir::contiguousStrides(spec.sizes);
    return Arg::type(context.types().tensor(spec));
  }
  Arg strided(std::initializer_list<Int> sizes, std::initializer_list<Int> strides) {
    TensorSpec spec;
    spec.sizes = Dims(sizes);
    spec.strides = Dims(strides);
    return Arg::type(context.types().tensor(spec));
  }
  // The results, one after the other; or the reason there are none.
  std::string results(std::string_view name, std::initializer_list<Arg> args) {
    const Operator* op = find(name);
    if (!op) return "not in the table";
    Inferred out = infer(*op, context, std::span<const Arg>(args.begin(), args.size()));
    if (!out.ok())
      return out.refusal->reason == Reason::BadArgument ? "refused" : std::string(meaning(out.refusal->reason));
    std::string text;
    for (const ir::Type* type : out.results) text += (text.empty() ? "" : " ") + ir::toString(type);
    return text;
  }
  size_t guards() { return context.symbols().guards().size(); }
};

const Arg kNothing = Arg::none();
const Arg kYes = Arg::boolean(true);
const Arg kNo = Arg::boolean(false);
Arg number(int64_t value) { return Arg::integer(value); }

TEST_F(OpsReduction, SumsOfSymbolsLeaveNoGuard) {
  Arg dims[] = {number(-1)};
  EXPECT_EQ(results("aten::sum", {tensor({s0, s1})}), "f32[]");
  EXPECT_EQ(results("aten::sum.dim_IntList", {tensor({s0, 3, s1}), Arg::list(dims), kYes}), "f32[s0, 3, 1]");
  EXPECT_EQ(results("aten::mean.dim", {tensor({s0, 3, s1}), Arg::list({}), kNo}), "f32[]");
  EXPECT_EQ(results("aten::amax", {tensor({s0, s1}), Arg::list(dims)}), "f32[s0]");
  EXPECT_EQ(results("aten::max.dim", {tensor({s0, s1}), number(0)}), "f32[s1] i64[s1]");
  EXPECT_EQ(results("aten::argmax", {tensor({s0, s1})}), "i64[]");
  EXPECT_EQ(results("aten::var_mean.correction", {tensor({s0, s1}), Arg::list(dims), kNothing, kYes}),
            "f32[s0, 1] f32[s0, 1]");
  EXPECT_EQ(results("aten::cumsum", {tensor({s0, s1}, DType::Bool), number(1)}), "i64[s0, s1]");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsReduction, NormalisationsOfSymbolsLeaveNoGuard) {
  Arg shape[] = {Arg::symInt(s1)};
  EXPECT_EQ(results("aten::_softmax", {tensor({s0, s1}), number(-1), kNo}), "f32[s0, s1]");
  EXPECT_EQ(results("aten::native_layer_norm", {tensor({s0, 4, s1}), Arg::list(shape), tensor({s1}), tensor({s1})}),
            "f32[s0, 4, s1] f32[s0, 4, 1] f32[s0, 4, 1]");
  EXPECT_EQ(results("aten::native_batch_norm",
                    {tensor({s0, 3, s1, s1}), tensor({3}), tensor({3}), tensor({3}), tensor({3}), kYes}),
            "f32[s0, 3, s1, s1] f32[3] f32[3]");
  EXPECT_EQ(results("aten::nll_loss_forward",
                    {tensor({s0, 10}), tensor({s0}, DType::Int64), kNothing, number(1), number(-100)}),
            "f32[] f32[]");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsReduction, GroupsOfSymbolsCompareAsExpressions) {
  EXPECT_EQ(results("aten::native_group_norm", {tensor({s0, 6, s1, s1}), kNothing, kNothing, Arg::symInt(s0), number(6),
                                                Arg::symInt(s1 * s1), number(3)}),
            "f32[s0, 6, s1, s1] f32[s0, 3] f32[s0, 3]");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsReduction, AQuestionAboutTheNumberOfValuesIsAsked) {
  EXPECT_EQ(results("aten::topk", {tensor({4, s0}), number(2)}), "f32[4, 2] i64[4, 2]") << "a symbol is at least 2";
  EXPECT_EQ(guards(), 0u);
  Int s2 = context.symbols().symbol("s2", sym::Range::size(), 9);
  EXPECT_EQ(results("aten::topk", {tensor({4, s2}), number(5)}), "f32[4, 5] i64[4, 5]");
  EXPECT_EQ(guards(), 1u);
}

TEST_F(OpsReduction, RefusesWhatEagerRefuses) {
  Arg dims[] = {number(0), number(-2)};
  EXPECT_EQ(results("aten::sum.dim_IntList", {tensor({2, 3}), Arg::list(dims)}), "refused") << "one dimension twice";
  EXPECT_EQ(results("aten::amax", {tensor({0, 3}), Arg::list({})}), "refused") << "nothing to compare";
  EXPECT_EQ(results("aten::mean", {tensor({2}, DType::Int64)}), "refused");
  EXPECT_EQ(results("aten::argmax", {tensor({2}, DType::Bool)}), "refused");
  EXPECT_EQ(results("aten::kthvalue", {tensor({4}), number(5)}), "refused");
  EXPECT_EQ(results("aten::_softmax", {tensor({4}, DType::Int64), number(0), kNo}), "refused");
  EXPECT_EQ(results("aten::linalg_qr", {tensor({4})}), "refused");
}

TEST_F(OpsReduction, SortKeepsTheOrderOfStridesAndReductionsDoNot) {
  EXPECT_EQ(results("aten::sort", {strided({4, 3}, {1, 4})}), "f32[4, 3]{strides: [1, 4]} i64[4, 3]{strides: [1, 4]}");
  Arg dims[] = {number(0)};
  EXPECT_EQ(results("aten::sum.dim_IntList", {strided({4, 3, 2}, {1, 4, 12}), Arg::list(dims)}), "f32[3, 2]");
}

TEST_F(OpsReduction, RunningStatisticsAreWritten) {
  const Operator* op = find("aten::native_batch_norm");
  EXPECT_EQ(op->writes, 0b11000u);
  EXPECT_FALSE(op->isRemovable());
  EXPECT_EQ(find("aten::_native_batch_norm_legit")->writes, 0b11000u);
  EXPECT_TRUE(find("aten::_native_batch_norm_legit_functional")->isPure());
  EXPECT_TRUE(find("aten::native_layer_norm")->isPure());
}

TEST_F(OpsReduction, MaskedGradientsAreNone) {
  Arg mask[] = {kYes, kNo, kYes};
  Arg shape[] = {number(5)};
  EXPECT_EQ(
      results("aten::native_layer_norm_backward", {tensor({4, 5}), tensor({4, 5}), Arg::list(shape), tensor({4, 1}),
                                                   tensor({4, 1}), tensor({5}), tensor({5}), Arg::list(mask)}),
      "f32[4, 5] none f32[5]");
}

TEST_F(OpsReduction, AnErrorCheckIsNeverDead) {
  const Operator* check = find("aten::_linalg_check_errors");
  EXPECT_FALSE(check->isRemovable());
  EXPECT_TRUE(check->has(kFailsOnData));
}

TEST_F(OpsReduction, OutDecidesTheDTypeOfASum) {
  Arg dims[] = {number(0)};
  EXPECT_EQ(
      results("aten::sum.IntList_out", {tensor({2, 3}), Arg::list(dims), kNo, kNothing, tensor({3}, DType::Int64)}),
      "i64[3]");
  EXPECT_EQ(results("aten::amax.out", {tensor({2, 3}), Arg::list(dims), kNo, tensor({3}, DType::Float64)}), "refused");
  EXPECT_EQ(results("aten::var.correction_out",
                    {tensor({2, 3}), Arg::list(dims), kNothing, kNo, tensor({0}, DType::Float64)}),
            "f64[3]");
}

}  // namespace
}  // namespace saker::ops
