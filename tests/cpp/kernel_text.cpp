// Kernels as text: what is printed reads back as the same kernel, wrong texts are refused with their place, and the
// verifier names what is wrong.
#include <gtest/gtest.h>

#include <bit>

#include "kernel/constant.h"
#include "kernel/kernel.h"
#include "kernel/parse.h"
#include "kernel/verify.h"

namespace saker::kernel {
namespace {

constexpr const char* kSoftmax = R"(kernel(b0: f32, b1: out f32, s0: size) {
  parallel i0 < s0
  reduced i1 < 1024
  vector i1
  loop {
    %0: f32 = load b0[1024*i0 + i1]
    %1: f32 = reduce.max %0
  }
  loop {
    %2: f32 = load b0[1024*i0 + i1]
    %3: f32 = sub %2, %1
    %4: f32 = exp %3
    %5: f32 = reduce.sum %4
  }
  loop {
    %6: f32 = load b0[1024*i0 + i1]
    %7: f32 = sub %6, %1
    %8: f32 = exp %7
    %9: f32 = div %8, %5
    store b1[1024*i0 + i1], %9
  }
}
)";

constexpr const char* kEverything =
    R"(kernel(b0: bf16, b1: i64, b2: bool, b3: out f16, b4: out f64, s0: size, s1: size) {
  parallel i0 < 12
  parallel i1 < s0
  reduced i2 < 4096 while 4096*i0 + i2 < s1
  vector i1
  once {
    %0: i64 = index i0
    %1: i64 = argument s1
    %2: bool = lt %0, %1
    %3: i64 = load b1[-3 + s1*i0 + -2*i1] if %2
    %4: f64 = const -0.0
    store b4[s0 + 0*i0], %4 if %2
  }
  loop {
    %6: bf16 = load b0[i2 + 5*%3 + s0*%0]
    %7: f32 = convert %6
    %8: f32 = const nan(0x7fc00001)
    %9: f32 = fma %7, %8, %7
    %10: bool = load b2[0]
    %11: f32 = select %10, %9, %7
    %12: f32 = reduce.sum %11
    %13: bool = reduce.any %10
  }
  once {
    %14: f16 = convert %12
    store b3[i0 + s1*i1], %14 if %13
  }
}
)";

TEST(KernelText, ReadsWhatItPrints) {
  for (const char* text : {kSoftmax, kEverything}) {
    Parsed parsed = parse(text);
    ASSERT_TRUE(parsed.ok()) << parsed.error->line << ':' << parsed.error->column << ": " << parsed.error->message;
    EXPECT_EQ(print(parsed.kernel), text);
    EXPECT_EQ(verify(parsed.kernel).size(), 0u) << verify(parsed.kernel)[0].message;
    EXPECT_EQ(parsed.nodePlaces.size(), parsed.kernel.nodes.size());
  }
}

TEST(KernelText, KeepsTheBitsOfConstants) {
  auto check = [](DType dtype, uint64_t bits, std::string_view expected) {
    std::string text;
    appendConstant(text, dtype, bits);
    EXPECT_EQ(text, expected);
    EXPECT_EQ(constantFromText(dtype, text), bits) << text;
  };
  check(DType::Float32, std::bit_cast<uint32_t>(0.1f), "0.1");
  check(DType::Float32, std::bit_cast<uint32_t>(-3.0f), "-3.0");
  check(DType::Float32, 0x80000000u, "-0.0");
  check(DType::Float32, 1, "1e-45");
  check(DType::Float32, 0x7f800000u, "inf");
  check(DType::Float32, 0xff800000u, "-inf");
  check(DType::Float32, 0x7fc00000u, "nan");
  check(DType::Float32, 0xffc00000u, "nan(0xffc00000)");
  check(DType::Float64, std::bit_cast<uint64_t>(1e300), "1e+300");
  check(DType::Int64, uint64_t{1} << 63, "-9223372036854775808");
  check(DType::Int8, 0x80, "-128");
  check(DType::UInt8, 0xff, "255");
  check(DType::Int32, 0xffffffffu, "-1");
  check(DType::Bool, 1, "true");
  for (std::string_view text : {"", "1.5", "-1", "256", "0x1"})
    EXPECT_FALSE(constantFromText(DType::UInt8, text)) << text;
  for (std::string_view text : {"", "nan(0x3f800000)", "one", "1.0f"})
    EXPECT_FALSE(constantFromText(DType::Float32, text));
}

TEST(KernelText, RefusesWrongTexts) {
  auto check = [](std::string_view text, size_t line, size_t column, std::string_view message) {
    Parsed parsed = parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error->message, message);
    EXPECT_EQ(parsed.error->line, line) << text;
    EXPECT_EQ(parsed.error->column, column) << text;
  };
  check("", 1, 1, "expected 'kernel', found the end of the text");
  check("kernel(b1: f32) {", 1, 8, "expected b0, found 'b1'");
  check("kernel(s0: size, b0: f32) {", 1, 18, "expected arguments behind the buffers, found 'b0'");
  check("kernel(b0: float) {}", 1, 12, "expected a type, found 'float'");
  check("kernel() {\n  parallel i1 < 3\n}", 2, 12, "expected i0, found 'i1'");
  check("kernel() {\n  parallel i0 < x\n}", 2, 17, "expected an integer or an argument, found 'x'");
  check("kernel() {\n  parallel i0 < 9\n  reduced i1 < 4 while 5*i0 + i1 < 9\n}", 3, 24,
        "expected the extent times an axis, plus this axis, found '5'");
  check("kernel() {\n  once {\n    %1: i64 = const 3\n  }\n}", 3, 5, "expected %0, found '%'");
  check("kernel() {\n  once {\n    %0: i64 = frob 3\n  }\n}", 3, 15, "expected an operation, found 'frob'");
  check("kernel() {\n  once {\n    %0: u8 = const 300\n  }\n}", 3, 20, "expected a constant of type u8, found '300'");
  check("kernel() {\n  loop {\n    %0: u8 = reduce.mean %0\n  }\n}", 3, 21, "expected a reduction, found 'mean'");
  check("kernel(b0: f32) {\n  once {\n    %0: f32 = load b0[i0 + 3]\n  }\n}", 3, 28,
        "expected the offset in front, found '3'");
  check("kernel() {\n} x", 2, 3, "expected the end of the text, found 'x'");
}

// The message for a kernel with these lines; buffers, arguments and axes are given.
std::string problem(const std::string& lines) {
  std::string text =
      "kernel(b0: f32, b1: out f32, b2: i64, b3: bf16, s0: size) {\n  parallel i0 < s0\n  reduced i1 < 8\n" + lines +
      "}\n";
  Parsed parsed = parse(text);
  if (!parsed.ok()) return "line " + std::to_string(parsed.error->line) + ": " + parsed.error->message;
  std::vector<Diagnostic> found = verify(parsed.kernel);
  return found.empty() ? "" : found[0].message;
}

TEST(KernelVerifier, NamesWhatIsWrong) {
  EXPECT_EQ(problem("loop {\n %0: f32 = load b0[i0 + 8*i1]\n}\n"), "");
  EXPECT_EQ(problem("once {\n %0: f32 = load b0[i1]\n}\n"),
            "%0 = load: i1 is reduced and has no index outside of loops");
  EXPECT_EQ(problem("loop {\n %0: f32 = load b2[i1]\n}\n"), "%0 = load: its type is not that of b2");
  EXPECT_EQ(problem("loop {\n %0: f32 = load b9[i1]\n}\n"), "%0 = load: there is no buffer b9");
  EXPECT_EQ(problem("loop {\n %0: f32 = const 1.0\n store b0[i0], %0\n}\n"), "store: b0 is not written");
  EXPECT_EQ(problem("loop {\n %0: f32 = const 1.0\n %1: f32 = reduce.sum %0\n %2: f32 = neg %1\n}\n"),
            "%2 = neg: %1 is known behind the loop only");
  EXPECT_EQ(problem("loop {\n %0: f32 = const 1.0\n}\nonce {\n %1: f32 = neg %0\n}\n"),
            "%1 = neg: %0 is a value of another loop");
  EXPECT_EQ(problem("once {\n %0: f32 = const 1.0\n %1: f32 = reduce.sum %0\n}\n"),
            "%1 = reduce: stands outside of loops");
  EXPECT_EQ(problem("once {\n %0: f32 = const 1.0\n %1: bool = const true\n %2: f32 = add %0, %1\n}\n"),
            "%2 = add: %1 has the type bool and not f32");
  EXPECT_EQ(problem("once {\n %0: bool = const true\n %1: bool = add %0, %0\n}\n"),
            "%1 = add: is not computed in bool");
  EXPECT_EQ(problem("once {\n %0: bf16 = load b3[0]\n %1: bf16 = add %0, %0\n}\n"),
            "%1 = add: is not computed in bf16");
  EXPECT_EQ(problem("once {\n %0: i64 = const 1\n %1: i64 = exp %0\n}\n"), "%1 = exp: is not computed in i64");
  EXPECT_EQ(problem("once {\n %0: f32 = const 1.0\n %1: f32 = lt %0, %0\n}\n"), "%1 = lt: a comparison gives a bool");
  EXPECT_EQ(problem("once {\n %0: f32 = const 1.0\n %1: i64 = bitcast %0\n}\n"), "%1 = bitcast: the sizes differ");
  EXPECT_EQ(problem("once {\n %0: i32 = const 1\n %1: f32 = load b0[%0]\n}\n"),
            "%1 = load: %0 has the type i32 and not i64");
  EXPECT_EQ(problem("once {\n %0: f32 = load b0[s1*i0]\n}\n"), "%0 = load: a stride is an argument that there is not");
  EXPECT_EQ(problem("once {\n %0: i64 = argument s7\n}\n"), "%0 = argument: there is no argument s7");
  EXPECT_EQ(problem("once {\n %0: f32 = const 1.0\n %1: f32 = neg %2\n}\n"), "%1 = neg: %2 does not stand before it");
  EXPECT_EQ(problem("once {\n %0: c64 = load b0[0]\n}\n"), "%0 = load: kernels do not know the type c64");
}

TEST(KernelVerifier, LooksAtAxesAndPhases) {
  auto first = [](std::string_view text) {
    Parsed parsed = parse(text);
    EXPECT_TRUE(parsed.ok()) << text;
    std::vector<Diagnostic> found = verify(parsed.kernel);
    return found.empty() ? std::string() : found[0].message;
  };
  EXPECT_EQ(first("kernel() {\n  once {\n  }\n}"), "axis 0 is no parallel axis");
  EXPECT_EQ(first("kernel() {\n  reduced i0 < 3\n  loop {\n  }\n}"), "axis 0 is no parallel axis");
  EXPECT_EQ(first("kernel() {\n  parallel i0 < 3\n  reduced i1 < 3\n  parallel i2 < 3\n  loop {\n  }\n}"),
            "axis 2 is parallel and stands behind a reduced one");
  EXPECT_EQ(first("kernel() {\n  parallel i0 < 3\n  loop {\n  }\n}"), "there is a loop, and no reduced axis");
  EXPECT_EQ(first("kernel() {\n  parallel i0 < 3\n  once {\n  }\n  once {\n  }\n}"),
            "a kernel without reduced axes has one phase");
  EXPECT_EQ(first("kernel() {\n  parallel i0 < 3\n  parallel i1 < 3\n  vector i0\n  once {\n  }\n}"),
            "the vector axis is neither the last parallel nor the last reduced one");
  EXPECT_EQ(first("kernel() {\n  parallel i0 < s3\n  once {\n  }\n}"), "axis 0 ends at an argument that there is not");
  EXPECT_EQ(first("kernel() {\n  parallel i0 < -3\n  once {\n  }\n}"), "axis 0 has a negative extent");
  EXPECT_EQ(first("kernel() {\n  parallel i0 < 3 while 3*i0 + i0 < 9\n  once {\n  }\n}"), "axis 0 is a chunk");
  EXPECT_EQ(first("kernel() {\n  parallel i0 < 3\n  reduced i1 < 3 while 3*i0 + i1 < 8\n  vector i0\n  loop {\n  }\n}"),
            "axis 1 is a chunk of the vector axis, whose steps would end apart");
  EXPECT_EQ(first("kernel(b0: c64) {\n  parallel i0 < 3\n  once {\n  }\n}"), "b0 has the type c64");
}

}  // namespace
}  // namespace saker::kernel
