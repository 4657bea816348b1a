// Every operation in every type on every processor of this machine, on special and random numbers, against the
// interpreter: bit by bit, but for functions (functions.cpp has their bounds).
#include <algorithm>
#include <bit>
#include <random>

#include "harness.h"
#include "kernel/interpret.h"

namespace saker::codegen {
namespace {

using kernel::DType;
using kernel::Op;

constexpr DType kTypes[] = {DType::Bool,  DType::UInt8,   DType::Int8,    DType::Int16,   DType::Int32,
                            DType::Int64, DType::Float32, DType::Float64, DType::Float16, DType::BFloat16};
constexpr size_t kCount = 4099;  // a prime

std::vector<uint64_t> numbers(DType dtype, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> out(kCount);
  for (uint64_t& each : out) {
    uint64_t bits = random();
    bool special = random() % 4 == 0, small = random() % 2;
    switch (dtype) {
      case DType::Bool:
        each = bits & 1;
        break;
      case DType::Float32: {
        constexpr float kSpecial[] = {0.0f,           -0.0f,         1.0f,      -1.0f,  0.5f,    1.5f,    2.5f,
                                      -2.5f,          INFINITY,      -INFINITY, NAN,    1e-45f,  -1e-40f, 3e38f,
                                      -2147483648.0f, 2147483648.0f, 255.0f,    300.0f, -129.0f, 9.3e18f};
        float number = special ? kSpecial[bits % std::size(kSpecial)]
                       : small ? static_cast<float>(static_cast<int64_t>(bits)) * 0x1p-60f
                               : std::bit_cast<float>(static_cast<uint32_t>(bits));
        each = std::bit_cast<uint32_t>(number);
        break;
      }
      case DType::Float64: {
        constexpr double kSpecial[] = {0.0,          -0.0,     1.0,       -1.0,  0.5,    1.5,     2.5,
                                       -2.5,         INFINITY, -INFINITY, NAN,   5e-324, 1e308,   -2147483649.0,
                                       2147483647.5, 9.3e18,   -9.3e18,   255.9, -129.0, 70000.0, 1e-8};
        double number = special ? kSpecial[bits % std::size(kSpecial)]
                        : small ? static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-60
                                : std::bit_cast<double>(bits);
        each = std::bit_cast<uint64_t>(number);
        break;
      }
      case DType::Float16: {
        constexpr uint16_t kSpecial[] = {0, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff};
        each = special ? kSpecial[bits % std::size(kSpecial)] : bits & 0xffff;
        if ((each & 0x7c00) == 0x7c00 && (each & 0x3ff)) each = 0x7e00;
        break;
      }
      case DType::BFloat16: {
        constexpr uint16_t kSpecial[] = {0, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0x0001, 0x8001, 0x007f, 0x0080, 0x7f7f};
        each = special ? kSpecial[bits % std::size(kSpecial)] : bits & 0xffff;
        break;
      }
      default: {
        int width = 8 * ir::byteSize(dtype);
        const uint64_t kSpecial[] = {
            0, 1, ~uint64_t{0}, uint64_t{1} << (width - 1), (uint64_t{1} << (width - 1)) - 1, 2, 3, 7, 8};
        each = special ? kSpecial[bits % std::size(kSpecial)] : small ? bits % 100 - 50 : bits;
        if (width < 64) each &= (uint64_t{1} << width) - 1;
      }
    }
  }
  return out;
}

std::vector<char> inMemory(DType dtype, const std::vector<uint64_t>& numbers) {
  size_t size = static_cast<size_t>(ir::byteSize(dtype));
  std::vector<char> out(size * numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) std::memcpy(out.data() + i * size, &numbers[i], size);
  return out;
}

bool isNan(DType dtype, const char* at) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(ir::byteSize(dtype)));
  switch (dtype) {
    case DType::Float32:
      return std::isnan(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case DType::Float64:
      return std::isnan(std::bit_cast<double>(bits));
    case DType::Float16:
      return (bits & 0x7fff) > 0x7c00;
    case DType::BFloat16:
      return (bits & 0x7fff) > 0x7f80;
    default:
      return false;
  }
}

// A kernel that loads operands of these types, computes and stores; the numbers are the same up to nan's bits.
void check(const std::string& operation, const std::vector<DType>& from, DType to, bool nonzero = false) {
  std::string text = "kernel(";
  std::string lines;
  for (size_t i = 0; i < from.size(); ++i) {
    text += "b" + std::to_string(i) + ": " + std::string(ir::name(from[i])) + ", ";
    lines += "    %" + std::to_string(i) + ": " + std::string(ir::name(from[i])) + " = load b" + std::to_string(i) +
             "[i0]\n";
  }
  std::string n = std::to_string(from.size());
  text += "b" + n + ": out " + std::string(ir::name(to)) + ") {\n  parallel i0 < " + std::to_string(kCount) +
          "\n  vector i0\n  once {\n" + lines;
  text += "    %" + n + ": " + std::string(ir::name(to)) + " = " + operation + "\n    store b" + n + "[i0], %" + n +
          "\n  }\n}\n";
  kernel::Kernel kernel = kernelOf(text);
  std::vector<std::vector<char>> memory;
  for (size_t i = 0; i < from.size(); ++i) {
    std::vector<uint64_t> operands = numbers(from[i], static_cast<unsigned>(7 * i + 1));
    if (nonzero && i == 1) {
      for (uint64_t& each : operands) each = each ? each : 5;
    }
    memory.push_back(inMemory(from[i], operands));
  }
  size_t size = static_cast<size_t>(ir::byteSize(to));
  std::vector<char> expected(size * kCount), found(size * kCount);
  std::vector<void*> buffers;
  for (std::vector<char>& each : memory) buffers.push_back(each.data());
  buffers.push_back(expected.data());
  kernel::interpret(kernel, buffers.data(), nullptr, 0, kCount);
  buffers.back() = found.data();
  for (Target target : targetsHere()) {
    std::fill(found.begin(), found.end(), 0x55);
    Compiled code = compiled(kernel, target);
    ASSERT_TRUE(code.function);
    code.function(buffers.data(), nullptr, 0, kCount);
    int wrong = 0;
    for (size_t i = 0; i < kCount && wrong < 3; ++i) {
      if (std::memcmp(&expected[i * size], &found[i * size], size) == 0) continue;
      if (isNan(to, &expected[i * size]) && isNan(to, &found[i * size])) continue;
      uint64_t a = 0, b = 0, x = 0, y = 0;
      std::memcpy(&a, &expected[i * size], size), std::memcpy(&b, &found[i * size], size);
      std::memcpy(&x, &memory[0][i * static_cast<size_t>(ir::byteSize(from[0]))],
                  static_cast<size_t>(ir::byteSize(from[0])));
      if (from.size() > 1)
        std::memcpy(&y, &memory[1][i * static_cast<size_t>(ir::byteSize(from[1]))],
                    static_cast<size_t>(ir::byteSize(from[1])));
      ADD_FAILURE() << info(target).name << " " << operation << " of " << ir::name(from[0]) << " to " << ir::name(to)
                    << std::hex << " operands " << x << ", " << y << " expected " << a << " found " << b;
      ++wrong;
    }
  }
}

// What is left over at the end of a vector is stored, and nothing behind it: of every type, for every number of lanes.
TEST(Operations, StoreWhatTheyShould) {
  for (DType dtype : kTypes) {
    size_t size = static_cast<size_t>(ir::byteSize(dtype));
    for (int64_t count : {1, 2, 5, 9, 16, 17, 33, 65}) {
      std::string type(ir::name(dtype)), n = std::to_string(count);
      bool half = !kernel::isComputed(dtype);
      // Through a wider type where there is one: LLVM stores and truncates at once.
      std::string wide = half ? "f32" : dtype == DType::Float64 || dtype == DType::Int64 ? "f64" : "i64";
      kernel::Kernel kernel =
          kernelOf("kernel(b0: " + type + ", b1: out " + type + ") {\n  parallel i0 < 3\n  parallel i1 < " + n +
                   "\n  vector i1\n  once {\n    %0: " + type + " = load b0[" + n + "*i0 + i1]\n    %1: " + wide +
                   " = convert %0\n    %2: " + type + " = convert %1\n    store b1[" + n + "*i0 + i1], %2\n  }\n}\n");
      size_t bytes = size * static_cast<size_t>(count);
      std::vector<char> x(3 * bytes), y(4 * bytes + 64, 0x55);
      for (size_t i = 0; i < 3 * static_cast<size_t>(count); ++i) {
        uint64_t bits = dtype == DType::Float32   ? 0x3f800000
                        : dtype == DType::Float64 ? 0x3ff0000000000000
                        : half                    ? 0x3c00
                                                  : 1;
        std::memcpy(&x[i * size], &bits, size);
      }
      for (Target target : targetsHere()) {
        std::fill(y.begin(), y.end(), 0x55);
        void* buffers[] = {x.data(), y.data()};
        compiled(kernel, target).function(buffers, nullptr, 0, 2);
        EXPECT_EQ(std::memcmp(x.data(), y.data(), 2 * bytes), 0) << info(target).name << ' ' << type << ' ' << count;
        EXPECT_EQ(std::count(y.begin() + static_cast<int64_t>(2 * bytes), y.end(), 0x55),
                  static_cast<int64_t>(2 * bytes + 64))
            << info(target).name << ' ' << type << ' ' << count;
      }
    }
  }
}

// Where several vectors are computed at a time, each of their stores has a part of the mask.
TEST(Operations, StoreWhatTheyShouldInReductions) {
  for (int64_t count : {17, 33, 49, 65, 81}) {
    std::string n = std::to_string(count);
    for (const char* vector : {"i0", "i1"}) {
      kernel::Kernel kernel =
          kernelOf("kernel(b0: bf16, b1: out bf16, b2: out f32) {\n  parallel i0 < " + n + "\n  reduced i1 < " + n +
                   "\n  vector " + vector + "\n  loop {\n    %0: bf16 = load b0[i0 + i1]\n    %1: f32 = convert %0\n" +
                   "    %2: f32 = add %1, %1\n    %3: bf16 = convert %2\n    store b1[" +
                   (vector[1] == '0' ? "i0 + " + n + "*i1" : n + "*i0 + i1") + "], %3\n" +
                   "    %5: f32 = reduce.sum %2\n  }\n  once {\n    store b2[i0], %5\n  }\n}\n");
      size_t size = static_cast<size_t>(count);
      std::vector<uint16_t> x(2 * size, 0x3f80), expected(size * size, 0x4000), found(size * size + 32, 0x5555);
      std::vector<float> sums(size);
      for (Target target : targetsHere()) {
        Compiled code = compiled(kernel, target);
        // Backwards: what is written behind the end of a row stays there.
        std::fill(found.begin(), found.end(), 0x5555);
        void* buffers[] = {x.data(), found.data(), sums.data()};
        if (vector[1] == '0') {
          code.function(buffers, nullptr, 0, count);
        } else {
          for (int64_t row = count - 1; row >= 0; --row) code.function(buffers, nullptr, row, row + 1);
        }
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin()))
            << info(target).name << ' ' << count << vector;
        EXPECT_EQ(std::count(found.end() - 32, found.end(), 0x5555), 32) << info(target).name << ' ' << count << vector;
        EXPECT_EQ(sums, std::vector<float>(size, 2.0f * static_cast<float>(count)));
      }
    }
  }
}

std::string call(Op op) {
  std::string text(kernel::name(op));
  for (int i = 0; i < kernel::operandCount(op); ++i) text += (i ? ", %" : " %") + std::to_string(i);
  return text;
}

bool isComputed(DType dtype) { return kernel::isComputed(dtype); }

TEST(Operations, Conversions) {
  for (DType from : kTypes) {
    for (DType to : kTypes) check("convert %0", {from}, to);
  }
}

TEST(Operations, Bitcasts) {
  for (DType from : kTypes) {
    for (DType to : kTypes) {
      bool fits = ir::byteSize(from) == ir::byteSize(to) && from != DType::Bool && to != DType::Bool;
      if (fits) check("bitcast %0", {from}, to);
    }
  }
}

TEST(Operations, Arithmetic) {
  for (DType dtype : kTypes) {
    if (!isComputed(dtype) || dtype == DType::Bool) continue;
    for (Op op : {Op::Add, Op::Sub, Op::Mul, Op::Min, Op::Max}) check(call(op), {dtype, dtype}, dtype);
    for (Op op : {Op::Neg, Op::Abs}) check(call(op), {dtype}, dtype);
    for (Op op : {Op::Div, Op::Rem}) check(call(op), {dtype, dtype}, dtype, !ir::isFloat(dtype));
  }
}

TEST(Operations, Floats) {
  for (DType dtype : {DType::Float32, DType::Float64}) {
    for (Op op : {Op::Sqrt, Op::Floor, Op::Ceil, Op::Trunc, Op::Round}) check(call(op), {dtype}, dtype);
    check(call(Op::CopySign), {dtype, dtype}, dtype);
    check(call(Op::Fma), {dtype, dtype, dtype}, dtype);
  }
}

TEST(Operations, ComparisonsAndChoices) {
  for (DType dtype : kTypes) {
    if (!isComputed(dtype)) continue;
    for (Op op : {Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge}) check(call(op), {dtype, dtype}, DType::Bool);
    check(call(Op::Select), {DType::Bool, dtype, dtype}, dtype);
  }
}

TEST(Operations, BitsOfIntegers) {
  for (DType dtype : kTypes) {
    if (!ir::isIntegral(dtype, true)) continue;
    for (Op op : {Op::And, Op::Or, Op::Xor}) check(call(op), {dtype, dtype}, dtype);
    check(call(Op::Not), {dtype}, dtype);
    if (dtype == DType::Bool) continue;
    for (Op op : {Op::Shl, Op::Shr}) check(call(op), {dtype, dtype}, dtype);
  }
}

}  // namespace
}  // namespace saker::codegen
