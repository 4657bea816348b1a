// The interpreter that generated code is compared with, against what is known without it.
#include "kernel/interpret.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "kernel/half.h"
#include "kernel/parse.h"

namespace saker::kernel {
namespace {

TEST(KernelInterpreter, Softmax) {
  Kernel kernel = parse(R"(kernel(b0: f32, b1: out f32, s0: size) {
  parallel i0 < s0
  reduced i1 < 5
  loop {
    %0: f32 = load b0[5*i0 + i1]
    %1: f32 = reduce.max %0
  }
  loop {
    %2: f32 = load b0[5*i0 + i1]
    %3: f32 = sub %2, %1
    %4: f32 = exp %3
    %5: f32 = reduce.sum %4
  }
  loop {
    %6: f32 = load b0[5*i0 + i1]
    %7: f32 = sub %6, %1
    %8: f32 = exp %7
    %9: f32 = div %8, %5
    store b1[5*i0 + i1], %9
  }
}
)")
                      .kernel;
  std::vector<float> x = {1, 2, 3, 4, 5, -1, 0, 0, 0, 7, 2, 2, 2, 2, 2}, y(15);
  void* buffers[] = {x.data(), y.data()};
  int64_t rows = 3;
  interpret(kernel, buffers, &rows, 0, 3);
  for (size_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (size_t i = 0; i < 5; ++i) sum += std::exp(x[5 * row + i]);
    for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(y[5 * row + i], std::exp(x[5 * row + i]) / sum, 1e-6);
  }
}

TEST(KernelInterpreter, ChunksMasksAndGathers) {
  // Sums of chunks of 4 of 10 numbers, of those that a mask lets through, found by an index.
  Kernel kernel = parse(R"(kernel(b0: f32, b1: i64, b2: out f32) {
  parallel i0 < 3
  reduced i1 < 4 while 4*i0 + i1 < 10
  loop {
    %0: i64 = load b1[4*i0 + i1]
    %1: i64 = const 100
    %2: bool = lt %0, %1
    %3: f32 = load b0[2*%0] if %2
    %4: f32 = reduce.sum %3
  }
  once {
    store b2[i0], %4
  }
}
)")
                      .kernel;
  std::vector<float> x = {1, -9, 2, -9, 4, -9, 8, -9};
  std::vector<int64_t> indices = {0, 1, 2, 3, 3, 3, 1000, 0, 2, 1};
  std::vector<float> y(3);
  void* buffers[] = {x.data(), indices.data(), y.data()};
  interpret(kernel, buffers, nullptr, 0, 3);
  EXPECT_EQ(y, (std::vector<float>{15, 17, 6}));
}

#ifdef __FLT16_MAX__
TEST(KernelInterpreter, HalfPrecisionIsTheCompilers) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    _Float16 half = std::bit_cast<_Float16>(static_cast<uint16_t>(bits));
    float ours = float16ToFloat(static_cast<uint16_t>(bits)), expected = static_cast<float>(half);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(ours));
      continue;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(ours), std::bit_cast<uint32_t>(expected)) << bits;
    ASSERT_EQ(floatToFloat16(ours), bits);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    // Mostly numbers that half precision has neighbours for.
    float number = std::ldexp(static_cast<float>(random()), -32 - 30 + static_cast<int>(random() % 50));
    ASSERT_EQ(floatToFloat16(number), std::bit_cast<uint16_t>(static_cast<_Float16>(number))) << number;
  }
}
#endif

TEST(KernelInterpreter, Bfloat16RoundsToEven) {
  EXPECT_EQ(floatToBfloat16(1.0f), 0x3f80);
  EXPECT_EQ(floatToBfloat16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(floatToBfloat16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(floatToBfloat16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(floatToBfloat16(INFINITY), 0x7f80);
  EXPECT_EQ(floatToBfloat16(3.4e38f), 0x7f80);
  EXPECT_TRUE(std::isnan(bfloat16ToFloat(floatToBfloat16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace saker::kernel
