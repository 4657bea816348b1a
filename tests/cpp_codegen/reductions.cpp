// Reductions: rows, columns and all, of every kind and type, long sums within the accuracy of eager mode, and the order
// of sums, which does not depend on how the work is split.
#include <bit>
#include <numeric>
#include <random>

#include "harness.h"
#include "kernel/interpret.h"

namespace saker::codegen {
namespace {

std::string rowSum(const char* vector) {
  return std::string("kernel(b0: f32, b1: out f32, s0: size, s1: size) {\n  parallel i0 < s0\n  reduced i1 < s1\n") +
         vector +
         "  loop {\n    %0: f32 = load b0[s1*i0 + i1]\n    %1: f32 = reduce.sum %0\n  }\n  once {\n    store b1[i0], "
         "%1\n  }\n}\n";
}
const char* const kColumnSum =
    "kernel(b0: f32, b1: out f32, s0: size, s1: size) {\n  parallel i0 < s1\n  reduced i1 < s0\n  vector i0\n  loop {\n"
    "    %0: f32 = load b0[s1*i1 + i0]\n    %1: f32 = reduce.sum %0\n  }\n  once {\n    store b1[i0], %1\n  }\n}\n";

// Relative error of sums of numbers that are all positive.
double worstError(const std::string& text, Target target, int64_t rows, int64_t columns, bool alongRows) {
  kernel::Kernel kernel = kernelOf(text);
  std::mt19937 random(3);
  std::vector<float> x(static_cast<size_t>(rows * columns));
  for (float& each : x) each = static_cast<float>(random() % 1000003) * 1e-6f;
  size_t results = static_cast<size_t>(alongRows ? rows : columns);
  std::vector<double> exact(results);
  for (size_t i = 0; i < x.size(); ++i)
    exact[alongRows ? i / static_cast<size_t>(columns) : i % static_cast<size_t>(columns)] += x[i];
  std::vector<float> sums(results);
  void* buffers[] = {x.data(), sums.data()};
  int64_t arguments[] = {rows, columns};
  compiled(kernel, target).function(buffers, arguments, 0, static_cast<int64_t>(results));
  double worst = 0;
  for (size_t i = 0; i < results; ++i) worst = std::max(worst, std::fabs(sums[i] - exact[i]) / exact[i]);
  return worst;
}

// One chain of a million sums would be wrong by about 1e-4; taken in blocks it is some units in the last place.
TEST(Reductions, LongSumsAreAccurate) {
  for (Target target : targetsHere()) {
    EXPECT_LT(worstError(rowSum("  vector i1\n"), target, 1, 3000017, true), 1e-6) << info(target).name;
    EXPECT_LT(worstError(rowSum(""), target, 1, 3000017, true), 1e-6) << info(target).name;
    EXPECT_LT(worstError(kColumnSum, target, 1000003, 3, false), 1e-6) << info(target).name;
  }
}

TEST(Reductions, DoNotDependOnTheSplit) {
  kernel::Kernel kernel = kernelOf(rowSum("  vector i1\n"));
  std::mt19937 random(4);
  std::vector<float> x(13 * 1009), whole(13), parts(13);
  for (float& each : x) each = static_cast<float>(random()) * 1e-7f;
  int64_t arguments[] = {13, 1009};
  for (Target target : targetsHere()) {
    Compiled code = compiled(kernel, target);
    void* first[] = {x.data(), whole.data()};
    code.function(first, arguments, 0, 13);
    void* second[] = {x.data(), parts.data()};
    for (int64_t i = 0; i < 13; ++i) code.function(second, arguments, i, i + 1);
    EXPECT_EQ(whole, parts) << info(target).name;
  }
}

TEST(Reductions, OfNothingAndOfNan) {
  for (const char* kind : {"sum", "prod", "max", "min"}) {
    std::string text =
        std::string(
            "kernel(b0: f32, b1: out f32, s0: size) {\n  parallel i0 < 1\n  reduced i1 < s0\n  vector i1\n"
            "  loop {\n    %0: f32 = load b0[i1]\n    %1: f32 = reduce.") +
        kind + " %0\n  }\n  once {\n    store b1[i0], %1\n  }\n}\n";
    kernel::Kernel kernel = kernelOf(text);
    for (Target target : targetsHere()) {
      Compiled code = compiled(kernel, target);
      for (int64_t count : {0, 1, 5, 16, 67, 200}) {
        std::vector<float> x(static_cast<size_t>(count), 1.5f);
        float found = -77, expected = -77;
        void* buffers[] = {x.data(), &found};
        code.function(buffers, &count, 0, 1);
        void* others[] = {x.data(), &expected};
        kernel::interpret(kernel, others, &count, 0, 1);
        bool same = found == expected || std::fabs(found - expected) <= 1e-3f * std::fabs(expected);
        EXPECT_TRUE(same) << kind << " of " << count << ": " << found << " and not " << expected;
        for (int64_t at = 0; at < count; at += 13) {
          std::vector<float> y = x;
          y[static_cast<size_t>(at)] = NAN;
          void* withNan[] = {y.data(), &found};
          code.function(withNan, &count, 0, 1);
          EXPECT_TRUE(std::isnan(found)) << info(target).name << ' ' << kind << " with a nan at " << at << " of "
                                         << count;
        }
      }
    }
  }
}

TEST(Reductions, OfEveryType) {
  for (kernel::DType dtype : {kernel::DType::UInt8, kernel::DType::Int8, kernel::DType::Int16, kernel::DType::Int32,
                              kernel::DType::Int64, kernel::DType::Float64, kernel::DType::Bool}) {
    std::string type(ir::name(dtype));
    size_t size = static_cast<size_t>(ir::byteSize(dtype));
    bool bools = dtype == kernel::DType::Bool;
    for (const char* kind : {"sum", "prod", "max", "min", "any", "all"}) {
      if (bools != (kind[0] == 'a')) continue;
      for (const char* vector : {"vector i0", "vector i1"}) {
        kernel::Kernel kernel =
            kernelOf("kernel(b0: " + type + ", b1: out " + type + ") {\n  parallel i0 < 37\n  reduced i1 < 53\n  " +
                     vector + "\n  loop {\n    %0: " + type + " = load b0[53*i0 + i1]\n    %1: " + type + " = reduce." +
                     kind + " %0\n  }\n  once {\n    store b1[i0], %1\n  }\n}\n");
        std::mt19937_64 random(5);
        std::vector<char> x(37 * 53 * size), expected(37 * size), found(37 * size);
        for (size_t i = 0; i < 37 * 53; ++i) {
          uint64_t bits = bools ? (i / 53 % 3 == 0 ? 0 : i / 53 % 3 == 1 ? 1 : random() & 1) : random() % 7;
          if (dtype == kernel::DType::Float64) bits = std::bit_cast<uint64_t>(1.0 + static_cast<double>(bits % 2));
          std::memcpy(&x[i * size], &bits, size);
        }
        void* buffers[] = {x.data(), expected.data()};
        kernel::interpret(kernel, buffers, nullptr, 0, 37);
        buffers[1] = found.data();
        for (Target target : targetsHere()) {
          compiled(kernel, target).function(buffers, nullptr, 0, 37);
          EXPECT_EQ(found, expected) << info(target).name << ' ' << type << ' ' << kind << ' ' << vector;
        }
      }
    }
  }
}

}  // namespace
}  // namespace saker::codegen
