// Loads that are contiguous along another axis than the one in vectors: squares of them are turned in registers.
#include "guarded_memory.h"
#include "harness.h"
#include "kernel/interpret.h"

namespace saker::codegen {
namespace {

using kernel::DType;

struct Case {
  std::string dtype;
  DType type;
  int64_t rows, columns, gap;  // of the result; `gap` elements lie between the rows of what is read
};

// result[i, j] = x[j, i], of two tensors at once, for several matrices one after the other.
std::string textOf(const Case& each) {
  std::string pitch = std::to_string(each.rows + each.gap), columns = std::to_string(each.columns);
  std::string matrix = std::to_string((each.rows + each.gap) * each.columns);
  std::string result = std::to_string(each.rows * each.columns), d = each.dtype;
  return "kernel(b0: " + d + ", b1: " + d + ", b2: out " + d + ", b3: out " + d +
         ") {\n  parallel i0 < 2\n  parallel i1 < " + std::to_string(each.rows) + "\n  parallel i2 < " + columns +
         "\n  vector i2\n  once {\n    %0: " + d + " = load b0[" + matrix + "*i0 + i1 + " + pitch +
         "*i2]\n    %1: " + d + " = load b1[i1 + " + pitch + "*i2]\n    store b2[" + result + "*i0 + " + columns +
         "*i1 + i2], %0\n    store b3[" + result + "*i0 + " + columns + "*i1 + i2], %1\n  }\n}\n";
}

void check(const Case& each) {
  std::string text = textOf(each);
  SCOPED_TRACE(text);
  kernel::Kernel kernel = kernelOf(text);
  auto size = static_cast<size_t>(ir::byteSize(each.type));
  auto read = static_cast<size_t>((each.rows + each.gap) * each.columns - each.gap) * size;
  auto matrix = static_cast<size_t>((each.rows + each.gap) * each.columns) * size;
  auto written = static_cast<size_t>(2 * each.rows * each.columns) * size;
  for (bool behind : {true, false}) {
    GuardedMemory x(matrix + read, behind), y(read, behind), out(written, behind), other(written, behind);
    for (GuardedMemory* memory : {&x, &y}) {
      for (size_t i = 0; i < memory->size(); ++i) memory->data()[i] = static_cast<char>((i * 7919 + i / 251) % 120);
    }
    if (each.type == DType::Bool) {
      for (GuardedMemory* memory : {&x, &y}) {
        for (size_t i = 0; i < memory->size(); ++i) memory->data()[i] &= 1;
      }
    }
    void* buffers[] = {x.data(), y.data(), out.data(), other.data()};
    kernel::interpret(kernel, buffers, nullptr, 0, 2);
    std::vector<char> first(out.data(), out.data() + written), second(other.data(), other.data() + written);
    for (Target target : targetsHere()) {
      std::memset(out.data(), 0x55, written), std::memset(other.data(), 0x55, written);
      Compiled code = compiled(kernel, target);
      ASSERT_TRUE(code.function);
      for (int64_t step : {1, 0}) code.function(buffers, nullptr, step, step + 1);
      EXPECT_EQ(std::memcmp(out.data(), first.data(), written), 0) << info(target).name;
      EXPECT_EQ(std::memcmp(other.data(), second.data(), written), 0) << info(target).name;
    }
  }
}

TEST(Tiles, HoldWhatWasTransposed) {
  const std::pair<const char*, DType> types[] = {{"f32", DType::Float32}, {"f64", DType::Float64},
                                                 {"i8", DType::Int8},     {"bf16", DType::BFloat16},
                                                 {"i64", DType::Int64},   {"bool", DType::Bool}};
  for (const auto& [name, type] : types) {
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{16, 16}, {33, 47}, {5, 70}, {64, 9}, {15, 17}}) {
      for (int64_t gap : {0, 3}) check({name, type, rows, columns, gap});
    }
  }
}

// The axis of the squares is the one that threads share: each part begins where it begins.
TEST(Tiles, BeginWhereThePartBegins) {
  kernel::Kernel kernel = kernelOf(
      "kernel(b0: f32, b1: out f32, s0: size) {\n  parallel i0 < s0\n  parallel i1 < 37\n  vector i1\n  once {\n"
      "    %0: f32 = load b0[i0 + s0*i1]\n    store b1[37*i0 + i1], %0\n  }\n}\n");
  int64_t rows = 41;
  GuardedMemory x(41 * 37 * 4, true), out(41 * 37 * 4, true);
  auto* numbers = reinterpret_cast<float*>(x.data());
  for (int i = 0; i < 41 * 37; ++i) numbers[i] = static_cast<float>(i);
  void* buffers[] = {x.data(), out.data()};
  for (Target target : targetsHere()) {
    for (int64_t part : {1, 7, 16, 23, 41}) {
      std::memset(out.data(), 0, out.size());
      Compiled code = compiled(kernel, target);
      for (int64_t begin = 0; begin < rows; begin += part) {
        code.function(buffers, &rows, begin, std::min(begin + part, rows));
      }
      for (int i = 0; i < 41 * 37; ++i) {
        ASSERT_EQ(reinterpret_cast<float*>(out.data())[i], static_cast<float>(i / 37 + 41 * (i % 37)))
            << info(target).name << ", parts of " << part << ", at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace saker::codegen
