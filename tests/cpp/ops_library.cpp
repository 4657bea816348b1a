// Products, convolutions, pooling, resampling and attention: what comparing with eager mode does not show, as symbolic
// sizes, guards and effects.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "ops/infer.h"
#include "ops/shape.h"

namespace saker::ops {
namespace {

class OpsLibrary : public ::testing::Test {
 protected:
  ir::Context context{lookup};
  std::deque<std::vector<Arg>> lists;

  Int symbol(const char* name, int64_t example) { return context.symbols().symbol(name, sym::Range::size(), example); }
  Arg tensor(std::initializer_list<Int> sizes, DType dtype = DType::Float32,
             MemoryFormat format = MemoryFormat::Contiguous) {
    TensorSpec spec;
    spec.dtype = dtype;
    spec.sizes = Dims(sizes);
    spec.strides = stridesIn(spec.sizes, format);
    return Arg::type(context.types().tensor(spec));
  }
  Arg last(std::initializer_list<Int> sizes) { return tensor(sizes, DType::Float32, MemoryFormat::ChannelsLast); }
  Arg ints(std::initializer_list<int64_t> values) {
    std::vector<Arg>& list = lists.emplace_back();
    for (int64_t value : values) list.push_back(Arg::integer(value));
    return Arg::list(list);
  }
  Arg bools(std::initializer_list<bool> values) {
    std::vector<Arg>& list = lists.emplace_back();
    for (bool value : values) list.push_back(Arg::boolean(value));
    return Arg::list(list);
  }
  std::string run(std::string_view name, const std::vector<Arg>& args) {
    const Operator* op = find(name);
    EXPECT_NE(op, nullptr) << name;
    Inferred out = infer(*op, context, args);
    if (!out.ok()) return "refused: " + out.refusal->message;
    std::string text;
    for (const ir::Type* type : out.results) text += (text.empty() ? "" : "; ") + ir::toString(type);
    return text;
  }
  size_t guards() const { return const_cast<ir::Context&>(context).symbols().guards().size(); }
  std::string convolve(Arg x, Arg w, int64_t stride, int64_t padding, bool transposed = false, int64_t groups = 1) {
    return run("aten::convolution", {x, w, Arg::none(), ints({stride}), ints({padding}), ints({1}),
                                     Arg::boolean(transposed), ints({0}), Arg::integer(groups)});
  }
};

TEST_F(OpsLibrary, ProductsOfSymbolicMatricesNeedNoGuard) {
  Int b = symbol("b", 4), s = symbol("s", 7), d = symbol("d", 16);
  EXPECT_EQ(run("aten::mm", {tensor({s, d}), tensor({d, 8})}), "f32[s, 8]");
  EXPECT_EQ(run("aten::bmm", {tensor({b, s, d}), tensor({b, d, s})}), "f32[b, s, s]");
  EXPECT_EQ(run("aten::addmm", {tensor({8}), tensor({s, d}), tensor({d, 8})}), "f32[s, 8]");
  EXPECT_EQ(run("aten::matmul", {tensor({b, 1, s, d}), tensor({3, d, 5})}), "f32[b, 3, s, 5]");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsLibrary, ProductsAskForTheirInnerSizes) {
  Int s = symbol("s", 7), t = symbol("t", 7);
  EXPECT_EQ(run("aten::mm", {tensor({2, s}), tensor({t, 3})}), "f32[2, 3]");
  EXPECT_EQ(guards(), 1u);
  EXPECT_TRUE(run("aten::mm", {tensor({2, 3}), tensor({4, 3})}).starts_with("refused"));
  EXPECT_TRUE(run("aten::mm", {tensor({2, 3}), tensor({3, 3}, DType::Float64)}).starts_with("refused"));
}

TEST_F(OpsLibrary, DotKeepsAConjugationItDidNotCarryOut) {
  TensorSpec spec;
  spec.dtype = DType::Complex64;
  spec.sizes = {Int(3)};
  spec.strides = {Int(1)};
  spec.flags.conj = true;
  Arg conj = Arg::type(context.types().tensor(spec)), plain = tensor({3}, DType::Complex64);
  EXPECT_EQ(run("aten::dot", {conj, conj}), "c64[]{conj}");
  EXPECT_EQ(run("aten::dot", {plain, conj}), "c64[]");
  EXPECT_EQ(run("aten::vdot", {plain, conj}), "c64[]{conj}");
  EXPECT_EQ(run("aten::vdot", {conj, conj}), "c64[]");
}

TEST_F(OpsLibrary, ConvolutionOfASymbolicBatchNeedsNoGuard) {
  Int n = symbol("n", 4);
  EXPECT_EQ(convolve(tensor({n, 3, 32, 32}), tensor({8, 3, 3, 3}), 2, 1), "f32[n, 8, 16, 16]");
  EXPECT_EQ(convolve(tensor({n, 3, 32}), tensor({8, 3, 3}), 1, 0), "f32[n, 8, 30]");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsLibrary, ConvolutionOfASymbolicImageAsksWhetherTheWindowFits) {
  Int h = symbol("h", 32);
  EXPECT_EQ(convolve(tensor({2, 3, h, 32}), tensor({8, 3, 3, 3}), 1, 1), "f32[2, 8, h, 32]");
  EXPECT_EQ(guards(), 0u) << "a padded image of two rows or more holds the window";
  EXPECT_EQ(convolve(tensor({2, 3, h, 32}), tensor({8, 3, 5, 5}), 1, 0), "f32[2, 8, h - 4, 28]");
  EXPECT_EQ(guards(), 1u);
}

TEST_F(OpsLibrary, ConvolutionsKeepChannelsLast) {
  const char* expected = "f32[2, 8, 5, 5]{strides: [200, 1, 40, 8]}";
  EXPECT_EQ(convolve(last({2, 3, 5, 5}), tensor({8, 3, 3, 3}), 1, 1), expected);
  EXPECT_EQ(convolve(tensor({2, 3, 5, 5}), last({8, 3, 3, 3}), 1, 1), expected);
  EXPECT_EQ(convolve(last({2, 3, 5, 5}), tensor({3, 8, 3, 3}), 1, 1, true), expected);
}

TEST_F(OpsLibrary, ConvolutionRefusesWhatDoesNotFit) {
  EXPECT_TRUE(convolve(tensor({2, 4, 5, 5}), tensor({8, 3, 3, 3}), 1, 1).starts_with("refused"));
  EXPECT_TRUE(convolve(tensor({2, 3, 2, 2}), tensor({8, 3, 3, 3}), 1, 0).starts_with("refused"));
  EXPECT_TRUE(convolve(tensor({2, 4, 5, 5}), tensor({6, 2, 3, 3}), 1, 0, false, 4).starts_with("refused"));
}

TEST_F(OpsLibrary, AGradientThatNobodyAskedForIsNone) {
  std::vector<Arg> args = {tensor({2, 8, 5, 5}, DType::Float64),
                           tensor({2, 3, 5, 5}, DType::Float64),
                           tensor({8, 3, 3, 3}, DType::Float64),
                           Arg::none(),
                           ints({1, 1}),
                           ints({1, 1}),
                           ints({1, 1}),
                           Arg::boolean(false),
                           ints({0, 0}),
                           Arg::integer(1),
                           bools({false, true, true})};
  EXPECT_EQ(run("aten::convolution_backward", args), "none; f64[8, 3, 3, 3]; f64[8]");
}

TEST_F(OpsLibrary, PooledSizesAreExpressions) {
  Int h = symbol("h", 32);
  auto pool = [&](int64_t kernel, int64_t stride, bool ceil) {
    return run("aten::avg_pool2d", {tensor({2, 3, h, 9}), ints({kernel}), ints({stride}), ints({0}), Arg::boolean(ceil),
                                    Arg::boolean(true), Arg::none()});
  };
  EXPECT_EQ(pool(2, 2, false), "f32[2, 3, h//2, 4]");
  EXPECT_EQ(guards(), 0u);
  EXPECT_EQ(pool(2, 2, true), "f32[2, 3, (h + 1)//2, 5]");
  EXPECT_EQ(guards(), 0u);
  EXPECT_EQ(pool(3, 1, false), "f32[2, 3, h - 2, 7]");
  EXPECT_EQ(guards(), 1u) << "two rows would not hold the window";
}

TEST_F(OpsLibrary, CeilModeAgreesWithCountingWindows) {
  for (int64_t size : {1, 2, 5, 6, 7, 8}) {
    for (int64_t kernel : {1, 2, 3, 4}) {
      for (int64_t stride : {1, 2, 3, 5}) {
        for (int64_t padding = 0; padding <= kernel / 2; ++padding) {
          // Windows start at -padding, step by step, and count if they start before the end of the input; at least one
          // more than fits is allowed only when it is partial.
          int64_t span = size + 2 * padding - kernel;
          if (span + stride - 1 < 0) continue;
          int64_t count = (span + stride - 1) / stride + 1;
          if ((count - 1) * stride >= size + padding) --count;
          std::string got =
              run("aten::avg_pool2d", {tensor({1, 1, Int(size), 4}), ints({kernel, 1}), ints({stride, 1}),
                                       ints({padding, 0}), Arg::boolean(true), Arg::boolean(true), Arg::none()});
          EXPECT_EQ(got, "f32[1, 1, " + std::to_string(count) + ", 4]") << size << kernel << stride << padding;
        }
      }
    }
  }
}

TEST_F(OpsLibrary, ResamplingTakesItsSizesFromTheArguments) {
  Int n = symbol("n", 4);
  EXPECT_EQ(run("aten::upsample_bilinear2d",
                {last({n, 3, 4, 4}), ints({8, 8}), Arg::boolean(false), Arg::none(), Arg::none()}),
            "f32[n, 3, 8, 8]{strides: [192, 1, 24, 3]}");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsLibrary, AttentionKeepsTheQuerysOrder) {
  Int s = symbol("s", 7);
  std::vector<Arg> args = {tensor({2, 4, s, 8}), tensor({2, 4, s, 8}), tensor({2, 4, s, 8}), Arg::number(0),
                           Arg::boolean(true),   Arg::none(),          Arg::none()};
  EXPECT_EQ(run("aten::_scaled_dot_product_flash_attention_for_cpu", args),
            "f32[2, 4, s, 8]; f32[2, 4, s]{strides: [4*s, 1, 4]}");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsLibrary, EffectsAndCosts) {
  EXPECT_TRUE(find("aten::mm")->isPure());
  EXPECT_EQ(find("aten::mm")->cost, Cost::Matmul);
  EXPECT_EQ(find("aten::addmm_")->writes, 1u);
  EXPECT_EQ(find("aten::convolution")->cost, Cost::Convolution);
  EXPECT_TRUE(find("aten::max_unpool2d")->has(kFailsOnData));
  EXPECT_FALSE(find("aten::mkldnn_rnn_layer")->isPure());
  const Operator* observer = find("aten::_fused_moving_avg_obs_fq_helper");
  EXPECT_EQ(observer->writes, 0b1111000u);
  EXPECT_FALSE(observer->isRemovable());
}

}  // namespace
}  // namespace saker::ops
