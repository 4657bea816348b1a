#include "ops/functional_form.h"

#include <gtest/gtest.h>

#include <set>

#include "ops/view_inverse.h"

namespace saker::ops {
namespace {

const Operator& op(std::string_view name) {
  const Operator* found = find(name);
  EXPECT_TRUE(found) << name;
  return *found;
}

std::string formOf(std::string_view name) {
  const FunctionalForm& form = functionalForm(op(name));
  return form.op ? form.op->qualified : "none";
}

TEST(FunctionalForm, IsFoundByNameAndArguments) {
  EXPECT_EQ(formOf("aten::add_.Tensor"), "aten::add.Tensor");
  EXPECT_EQ(formOf("aten::add_.Scalar"), "aten::add.Scalar");
  EXPECT_EQ(formOf("aten::mul.out"), "aten::mul.Tensor");
  EXPECT_EQ(formOf("aten::sum.IntList_out"), "aten::sum.dim_IntList");
  EXPECT_EQ(formOf("aten::pow_.Tensor"), "aten::pow.Tensor_Tensor");
  EXPECT_EQ(formOf("aten::bernoulli_.float"), "aten::bernoulli.p");
  EXPECT_EQ(formOf("aten::bernoulli_.Tensor"), "aten::bernoulli.Tensor");
  EXPECT_EQ(formOf("aten::native_batch_norm"), "aten::_native_batch_norm_legit_functional");
  EXPECT_EQ(formOf("aten::_foreach_add_.List"), "aten::_foreach_add.List");
  EXPECT_EQ(formOf("aten::_fused_adamw_"), "aten::_fused_adamw");
  EXPECT_EQ(formOf("aten::_fused_sgd_.tensor_lr"), "aten::_fused_sgd.tensor_lr");
  EXPECT_EQ(formOf("aten::t_"), "none");  // a view, not a value
  EXPECT_EQ(formOf("aten::add.Tensor"), "none");
}

// The operator's own arguments come to their places; out= is not among them.
TEST(FunctionalForm, PlacesOfArguments) {
  const FunctionalForm& form = functionalForm(op("aten::add.out"));
  EXPECT_EQ(form.arguments, (std::vector<int>{0, 1, 2}));
}

TEST(FunctionalForm, MetadataWritesAreViews) {
  EXPECT_EQ(viewForm(op("aten::t_")), find("aten::t"));
  EXPECT_EQ(viewForm(op("aten::transpose_")), find("aten::transpose.int"));
  EXPECT_EQ(viewForm(op("aten::squeeze_.dims")), find("aten::squeeze.dims"));
  EXPECT_EQ(viewForm(op("aten::as_strided_")), find("aten::as_strided"));
  EXPECT_EQ(viewForm(op("aten::resize_")), nullptr);
  EXPECT_EQ(viewForm(op("aten::add_.Tensor")), nullptr);
}

// Those that have none run on private copies of what they write.
TEST(FunctionalForm, WritersWithoutOne) {
  const std::set<std::string> expected = {
      "aten::_cummax_helper",
      "aten::_cummin_helper",
      "aten::_fused_moving_avg_obs_fq_helper",
      "aten::_native_batch_norm_legit.out",
      "aten::_unsafe_view.out",
      "aten::batch_norm_update_stats",
      "aten::linalg_eigvals.out",
      "aten::native_batch_norm.out",
      "aten::rrelu_with_noise",
      "aten::rrelu_with_noise_",
  };
  std::set<std::string> without;
  std::string names;
  size_t writers = 0;
  for (const Operator* writer : all()) {
    if (!writer->writes || writer->cost == Cost::View) continue;
    ++writers;
    const FunctionalForm& form = functionalForm(*writer);
    if (!form.op) {
      without.insert(writer->qualified);
      names += " " + writer->qualified;
      continue;
    }
    EXPECT_EQ(form.op->writes, 0u) << writer->qualified;
    EXPECT_EQ(form.op->isRandom(), writer->isRandom()) << writer->qualified;
    EXPECT_EQ(form.arguments.size(), form.op->parsed.arguments.size());
  }
  std::printf("%zu of %zu writing operators have no functional form:%s\n", without.size(), writers, names.c_str());
  EXPECT_EQ(without, expected);
}

TEST(ViewInverse, EveryViewOfTheTableHasOne) {
  for (const Operator* view : all()) {
    if (view->variant != Variant::View) continue;
    EXPECT_TRUE(hasViewInverse(*view)) << view->qualified;
  }
}

}  // namespace
}  // namespace saker::ops
