// Elementwise operators, losses, copies and list operators: symbolic sizes, refusals and effects.
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "ir/torch_facts.h"
#include "ops/infer.h"

namespace saker::ops {
namespace {

class OpsPointwise : public ::testing::Test {
 protected:
  ir::Context context{lookup};
  Int s0 = context.symbols().symbol("s0", sym::Range::size(), 6);
  Int s1 = context.symbols().symbol("s1", sym::Range::size(), 5);

  Arg tensor(std::initializer_list<Int> sizes, DType dtype = DType::Float32) {
    TensorSpec spec;
    spec.dtype = dtype;
    spec.sizes = Dims(sizes);
    spec.strides = ir::contiguousStrides(spec.sizes);
    return Arg::type(context.types().tensor(spec));
  }
  Arg strided(std::initializer_list<Int> sizes, std::initializer_list<Int> strides, DType dtype = DType::Float32) {
    TensorSpec spec;
    spec.dtype = dtype;
    spec.sizes = Dims(sizes);
    spec.strides = Dims(strides);
    return Arg::type(context.types().tensor(spec));
  }
  Inferred run(std::string_view name, std::initializer_list<Arg> args) {
    const Operator* op = find(name);
    EXPECT_NE(op, nullptr) << name;
    return infer(*op, context, std::span<const Arg>(args.begin(), args.size()));
  }
  std::string one(std::string_view name, std::initializer_list<Arg> args) {
    Inferred out = run(name, args);
    if (!out.ok()) return "refused: " + out.refusal->message;
    std::string text;
    for (const ir::Type* result : out.results) text += (text.empty() ? "" : ", ") + ir::toString(result);
    return text;
  }
  Reason reason(std::string_view name, std::initializer_list<Arg> args) {
    Inferred out = run(name, args);
    EXPECT_FALSE(out.ok()) << name;
    return out.ok() ? Reason::Overflow : out.refusal->reason;
  }
  size_t guards() const { return context.symbols().guards().size(); }
};

Arg number(double value) { return Arg::number(value); }
Arg integer(int64_t value) { return Arg::integer(value); }
const Arg kNoArg = Arg::none();

TEST_F(OpsPointwise, SymbolicSizesPassThroughWithoutAGuard) {
  Arg x = tensor({s0, s1}), mask = tensor({s0, s1}, DType::Bool);
  EXPECT_EQ(one("aten::gelu", {x, Arg::string("tanh")}), "f32[s0, s1]");
  EXPECT_EQ(one("aten::clamp", {x, number(0), kNoArg}), "f32[s0, s1]");
  EXPECT_EQ(one("aten::where.self", {mask, x, tensor({})}), "f32[s0, s1]");
  EXPECT_EQ(one("aten::masked_fill.Scalar", {x, tensor({s1}, DType::Bool), number(0)}), "f32[s0, s1]");
  EXPECT_EQ(one("aten::addcmul", {x, tensor({s1}), x, number(2)}), "f32[s0, s1]");
  EXPECT_EQ(one("aten::eq.Scalar", {x, integer(1)}), "bool[s0, s1]");
  EXPECT_EQ(one("aten::_to_copy", {x, Arg::dtype(DType::Float16)}), "f16[s0, s1]");
  EXPECT_EQ(one("aten::mse_loss", {x, x, integer(1)}), "f32[]");
  EXPECT_EQ(one("aten::native_dropout", {x, number(0.5), Arg::boolean(true)}), "f32[s0, s1], bool[s0, s1]");
  EXPECT_EQ(one("aten::threshold_backward", {x, x, integer(0)}), "f32[s0, s1]");
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsPointwise, HalvingASymbolLeavesOneGuard) {
  EXPECT_EQ(one("aten::glu", {tensor({4, s0}), integer(1)}), "f32[4, s0//2]");
  EXPECT_EQ(guards(), 1u);
  EXPECT_EQ(reason("aten::glu", {tensor({4, s1}), integer(1)}), Reason::BadArgument) << "5 is odd";
}

TEST_F(OpsPointwise, ANumberThatIsNotKnownTakesPartByItsKind) {
  Arg symbol = Arg::symInt(s0);
  EXPECT_EQ(one("aten::mul.Scalar", {tensor({3}, DType::Int32), symbol}), "i32[3]");
  EXPECT_EQ(one("aten::mul.Scalar", {tensor({3}, DType::Bool), symbol}), "i64[3]");
  EXPECT_EQ(one("aten::fill_.Scalar", {tensor({3}, DType::UInt8), symbol}), "u8[3]");
  EXPECT_EQ(one("aten::pow.Tensor_Scalar", {tensor({3}), symbol}), "f32[3]");
  EXPECT_EQ(reason("aten::pow.Tensor_Scalar", {tensor({3}, DType::Int64), symbol}), Reason::Unsupported);
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsPointwise, NumbersMustFitWhereTheyAreStored) {
  Arg bytes = tensor({3}, DType::UInt8), halfs = tensor({3}, DType::Float16), mask = tensor({3}, DType::Bool);
  EXPECT_TRUE(run("aten::fill_.Scalar", {bytes, integer(255)}).ok());
  EXPECT_TRUE(run("aten::fill_.Scalar", {bytes, integer(-255)}).ok()) << "wraps around";
  EXPECT_FALSE(run("aten::fill_.Scalar", {bytes, integer(256)}).ok());
  EXPECT_FALSE(run("aten::fill_.Scalar", {bytes, number(-1)}).ok()) << "floats do not wrap around";
  EXPECT_TRUE(run("aten::masked_fill.Scalar", {halfs, mask, number(-std::numeric_limits<double>::infinity())}).ok());
  EXPECT_FALSE(run("aten::masked_fill.Scalar", {halfs, mask, number(-1e9)}).ok());
  EXPECT_FALSE(run("aten::clamp", {halfs, kNoArg, number(1e9)}).ok());
  EXPECT_TRUE(run("aten::eq.Scalar", {bytes, integer(300)}).ok()) << "compared as a tensor";
}

TEST_F(OpsPointwise, WhatClampsIntegersIsAMatterOfTheVersion) {
  Arg bytes = tensor({3}, DType::UInt8), wide = tensor({3}, DType::UInt16);
  EXPECT_EQ(one("aten::clamp", {bytes, kNoArg, integer(300)}), "u8[3]");
  EXPECT_EQ(one("aten::hardtanh", {bytes, integer(-1), integer(300)}), "u8[3]");
  EXPECT_EQ(one("aten::maximum", {wide, wide}), "u16[3]");
  EXPECT_EQ(one("aten::relu", {wide}), "u16[3]");
  ir::TorchFacts before;
  before.clampTakesIntegers = false;
  context.ambient().torch = &before;
  EXPECT_EQ(reason("aten::clamp", {bytes, kNoArg, integer(300)}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::hardtanh", {bytes, integer(-1), integer(1)}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::maximum", {wide, wide}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::relu", {wide}), Reason::BadArgument);
}

TEST_F(OpsPointwise, AConvertedInputIsDenseInItsOwnOrder) {
  // The expanded integers become a row-major copy, which no longer follows the other operand.
  Arg expanded = strided({4, 3}, {0, 1}, DType::Int64), transposed = strided({4, 3}, {1, 4});
  EXPECT_EQ(one("aten::add.Tensor", {expanded, transposed, integer(1)}), "f32[4, 3]");
  Arg same = strided({4, 3}, {0, 1});
  EXPECT_EQ(one("aten::add.Tensor", {same, transposed, integer(1)}), "f32[4, 3]{strides: [1, 4]}");
}

TEST_F(OpsPointwise, RefusesWhatEagerRefuses) {
  Arg f = tensor({3}), i = tensor({3}, DType::Int64), b = tensor({3}, DType::Bool), c = tensor({3}, DType::Complex64);
  EXPECT_EQ(reason("aten::sub.Tensor", {b, f, integer(1)}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::add.Tensor", {i, i, number(0.5)}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::div_.Tensor", {i, f}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::div.Tensor_mode", {f, f, Arg::string("up")}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::pow.Tensor_Scalar", {i, integer(-1)}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::lt.Tensor", {c, c}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::abs_", {c}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::bitwise_and.Tensor", {f, i}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::clamp", {f, kNoArg, kNoArg}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::lerp.Tensor", {f, tensor({3}, DType::Float64), f}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::where.self", {i, f, f}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::masked_fill_.Scalar", {f, tensor({2, 3}, DType::Bool), integer(0)}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::copy_", {f, tensor({2, 3}), Arg::boolean(false)}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::copy_", {strided({4}, {0}), f, Arg::boolean(false)}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::bernoulli_.float", {f, number(1.5)}), Reason::BadArgument);
  EXPECT_EQ(reason("aten::clone", {f, Arg::memoryFormat(MemoryFormat::ChannelsLast)}), Reason::BadArgument);
}

TEST_F(OpsPointwise, FillsMayWriteOneElementSeveralTimes) {
  Arg expanded = strided({4}, {0});
  EXPECT_TRUE(run("aten::fill_.Scalar", {expanded, integer(1)}).ok());
  EXPECT_TRUE(run("aten::zero_", {expanded}).ok());
  EXPECT_TRUE(run("aten::masked_fill_.Scalar", {expanded, tensor({4}, DType::Bool), integer(1)}).ok());
  EXPECT_FALSE(run("aten::uniform_", {expanded, number(0), number(1)}).ok());
}

TEST_F(OpsPointwise, CopiesKeepTheOrderOfMemory) {
  Arg transposed = strided({4, 3}, {1, 4}), sliced = strided({4, 3}, {2, 8}), image = tensor({2, 3, 4, 5});
  EXPECT_EQ(one("aten::clone", {transposed}), "f32[4, 3]{strides: [1, 4]}");
  EXPECT_EQ(one("aten::clone", {sliced}), "f32[4, 3]{strides: [1, 4]}");
  EXPECT_EQ(one("aten::clone", {transposed, Arg::memoryFormat(MemoryFormat::Contiguous)}), "f32[4, 3]");
  EXPECT_EQ(one("aten::_to_copy", {image, Arg::dtype(DType::Float64), kNoArg, kNoArg, kNoArg, Arg::boolean(false),
                                   Arg::memoryFormat(MemoryFormat::ChannelsLast)}),
            "f64[2, 3, 4, 5]{strides: [60, 1, 15, 3]}");
  EXPECT_EQ(one("aten::pow.Scalar", {integer(2), transposed}), "f32[4, 3]") << "always row-major";
}

TEST_F(OpsPointwise, OutThatIsCopiedIntoIsExactAndRowMajor) {
  Arg transposed = strided({4, 3}, {1, 4}), empty = tensor({0}), wide = tensor({4, 3}, DType::Float64);
  EXPECT_EQ(one("aten::relu.out", {transposed, empty}), "f32[4, 3]");
  EXPECT_EQ(one("aten::sin.out", {transposed, empty}), "f32[4, 3]{strides: [1, 4]}");
  EXPECT_FALSE(run("aten::relu.out", {transposed, wide}).ok());
  EXPECT_TRUE(run("aten::sin.out", {transposed, wide}).ok());
}

TEST_F(OpsPointwise, ListsGiveOneResultForEachItem) {
  std::array<Arg, 2> first = {tensor({s0}), tensor({2, 3})}, second = {tensor({s0}), tensor({3}, DType::Float64)};
  std::array<Arg, 2> numbers = {number(2), integer(3)};
  Arg a = Arg::list(first), b = Arg::list(second);
  EXPECT_EQ(one("aten::_foreach_add.List", {a, b, integer(1)}), "f32[s0], f64[2, 3]");
  EXPECT_EQ(one("aten::_foreach_mul.ScalarList", {a, Arg::list(numbers)}), "f32[s0], f32[2, 3]");
  EXPECT_EQ(one("aten::_foreach_norm.Scalar", {a, integer(2)}), "f32[], f32[]");
  EXPECT_EQ(one("aten::_foreach_addcdiv_.Scalar", {a, a, a, number(-0.1)}), "") << "returns nothing";
  EXPECT_EQ(reason("aten::_foreach_add.List", {a, Arg::list(std::span(second).first(1)), integer(1)}),
            Reason::BadArgument);
  EXPECT_EQ(reason("aten::_foreach_sqrt", {Arg::list({})}), Reason::BadArgument);
  EXPECT_EQ(guards(), 0u);
}

TEST_F(OpsPointwise, EffectsAndCosts) {
  EXPECT_TRUE(find("aten::mul.Tensor")->isPure());
  EXPECT_TRUE(find("aten::_foreach_mul.List")->isPure());
  EXPECT_EQ(find("aten::gelu")->cost, Cost::Pointwise);
  EXPECT_EQ(find("aten::fill_.Scalar")->cost, Cost::Fill);
  for (const char* name : {"aten::bernoulli_.float", "aten::native_dropout", "aten::uniform", "aten::poisson"}) {
    EXPECT_TRUE(find(name)->isRandom()) << name;
    EXPECT_FALSE(find(name)->isRemovable()) << name;
  }
  EXPECT_EQ(find("aten::_foreach_add_.List")->writes, 1u);
  EXPECT_EQ(find("aten::_fused_adam_")->writes, 0b11111u) << "parameters, gradients and averages; the steps are read";
  EXPECT_EQ(find("aten::rrelu_with_noise")->writes, 0b10u) << "the noise";
  EXPECT_TRUE(find("aten::remainder.Tensor")->has(kFailsOnData)) << "integers divided by zero";
  EXPECT_TRUE(find("aten::masked_fill.Tensor")->has(kFailsOnData)) << "the value may not fit";
  EXPECT_FALSE(find("aten::div.Tensor")->has(kFailsOnData));
}

}  // namespace
}  // namespace saker::ops
