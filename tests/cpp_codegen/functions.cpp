// Functions on every processor of this machine, over the whole range of floats, against libm with more digits: within 2
// units in the last place for f32 where we compute them, and within what the C library gives for f64.
#include <bit>
#include <random>

#include "harness.h"

namespace saker::codegen {
namespace {

using kernel::Op;

std::string text(Op op, const char* dtype, bool two) {
  std::string type = dtype;
  std::string out = "kernel(b0: " + type + ", " + (two ? "b1: " + type + ", b2" : std::string("b1")) + ": out " + type +
                    ", s0: size) {\n  parallel i0 < s0\n  vector i0\n  once {\n    %0: " + type + " = load b0[i0]\n";
  if (two) out += "    %1: " + type + " = load b1[i0]\n";
  std::string number = two ? "%2" : "%1";
  out += "    " + number + ": " + type + " = " + std::string(kernel::name(op)) + (two ? " %0, %1" : " %0") + "\n";
  return out + "    store " + (two ? "b2" : "b1") + "[i0], " + number + "\n  }\n}\n";
}

struct Row {
  Op op;
  long double (*exact)(long double, long double);
  double bound;    // f32
  double bound64;  // f64, where the C library is called
  bool two = false;
};

#define SAKER_EXACT(call) [](long double x, long double) -> long double { return call(x); }
const Row kRows[] = {
    {Op::Exp, SAKER_EXACT(std::exp), 2, 1},
    {Op::Exp2, SAKER_EXACT(std::exp2), 2, 1},
    {Op::Expm1, SAKER_EXACT(std::expm1), 2, 2},
    {Op::Log, SAKER_EXACT(std::log), 2, 1},
    {Op::Log2, SAKER_EXACT(std::log2), 2, 2},
    {Op::Log10, SAKER_EXACT(std::log10), 2, 2},
    {Op::Log1p, SAKER_EXACT(std::log1p), 2, 2},
    {Op::Sin, SAKER_EXACT(std::sin), 2, 1},
    {Op::Cos, SAKER_EXACT(std::cos), 2, 1},
    {Op::Tan, SAKER_EXACT(std::tan), 2, 1},
    {Op::Asin, SAKER_EXACT(std::asin), 2, 1},
    {Op::Acos, SAKER_EXACT(std::acos), 2, 1},
    {Op::Atan, SAKER_EXACT(std::atan), 2, 1},
    {Op::Sinh, SAKER_EXACT(std::sinh), 2, 3},
    {Op::Cosh, SAKER_EXACT(std::cosh), 2, 3},
    {Op::Tanh, SAKER_EXACT(std::tanh), 2, 3},
    {Op::Asinh, SAKER_EXACT(std::asinh), 2, 3},
    {Op::Acosh, SAKER_EXACT(std::acosh), 2, 3},
    {Op::Atanh, SAKER_EXACT(std::atanh), 2, 3},
    {Op::Erf, SAKER_EXACT(std::erf), 2, 2},
    {Op::Erfc, SAKER_EXACT(std::erfc), 3, 5},
    {Op::Atan2, [](long double x, long double y) -> long double { return std::atan2(x, y); }, 2, 1, true},
    {Op::Pow, [](long double x, long double y) -> long double { return std::pow(x, y); }, 2, 1, true},
};

template <typename Float>
void check(const Row& row, const std::vector<Float>& xs, const std::vector<Float>& ys, double bound) {
  kernel::Kernel kernel = kernelOf(text(row.op, sizeof(Float) == 4 ? "f32" : "f64", row.two));
  // The f32 functions are computed in f64, which is far more than enough, and faster than long double.
  std::vector<long double> exact(xs.size());
  for (size_t i = 0; i < xs.size(); ++i) exact[i] = row.exact(xs[i], row.two ? ys[i] : 0);
  std::vector<Float> found(xs.size());
  int64_t count = static_cast<int64_t>(xs.size());
  for (Target target : targetsHere()) {
    void* buffers[] = {const_cast<Float*>(xs.data()), row.two ? const_cast<Float*>(ys.data()) : found.data(),
                       found.data()};
    std::fill(found.begin(), found.end(), Float(-77));
    Compiled code = compiled(kernel, target);
    ASSERT_TRUE(code.function);
    code.function(buffers, &count, 0, count);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < xs.size(); ++i) {
      double error = ulps(found[i], exact[i]);
      if (error > worst) worst = error, at = i;
    }
    // Without fused multiply-add all are the C library's, and some of those are worse.
    EXPECT_LE(worst, bound + !info(target).fma)
        << info(target).name << " " << kernel::name(row.op) << "(" << xs[at] << (row.two ? ", ..." : "") << ") is "
        << found[at] << " and not " << static_cast<double>(exact[at]);
    if (std::getenv("SAKER_SHOW_ULPS")) {
      std::printf("%-7s %-6s %zu bytes: %.3f ulp at %.9g\n", info(target).name.data(), kernel::name(row.op).data(),
                  sizeof(Float), worst, static_cast<double>(xs[at]));
    }
  }
}

constexpr float kSpecial[] = {0.0f,          -0.0f,          1.0f,       -1.0f,      INFINITY,   -INFINITY,
                              NAN,           1e-45f,         -1e-45f,    1e-39f,     -1e-39f,    1.17549435e-38f,
                              3.4028235e38f, -3.4028235e38f, 1e30f,      -1e30f,     1e5f,       100000.01f,
                              99999.99f,     88.72283f,      88.7229f,   -103.97f,   -103.98f,   -87.4f,
                              0.625f,        0.6249999f,     0.92f,      4.0f,       3.9999998f, 9.01f,
                              0.70710677f,   1.4142135f,     2.0f,       127.99999f, 128.0f,     -149.0f,
                              -150.0f,       3.1415927f,     1.5707964f, 6.2831855f, 314.15927f, 31415.926f,
                              0.5f,          22.0f};

TEST(FunctionsOfFloats, AreWithinTwoUnits) {
  const char* factor = std::getenv("SAKER_FUZZ_ITERATIONS");
  uint32_t step = 40009 / (factor ? static_cast<uint32_t>(std::strtoul(factor, nullptr, 10)) : 1);
  std::vector<float> xs(std::begin(kSpecial), std::end(kSpecial));
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += step)
    xs.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  // Most functions change where numbers are neither tiny nor huge.
  std::mt19937_64 random(1);
  for (int i = 0; i < 60000; ++i)
    xs.push_back(std::ldexp(static_cast<float>(static_cast<int64_t>(random())), -63 + static_cast<int>(random() % 18)));
  std::vector<float> ys = xs;
  std::shuffle(ys.begin(), ys.end(), random);
  for (const Row& row : kRows) check(row, xs, ys, row.bound);
}

TEST(FunctionsOfDoubles, AreTheLibrarys) {
  std::vector<double> xs(std::begin(kSpecial), std::end(kSpecial));
  std::mt19937_64 random(2);
  for (int i = 0; i < 10000; ++i) xs.push_back(std::bit_cast<double>(random()));
  for (int i = 0; i < 20000; ++i)
    xs.push_back(
        std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -63 + static_cast<int>(random() % 18)));
  std::vector<double> ys = xs;
  std::shuffle(ys.begin(), ys.end(), random);
  for (const Row& row : kRows) check(row, xs, ys, row.bound64);
}

// LLVM knows the C library's functions by name, and must not join two calls.
TEST(FunctionsOfFloats, StayTwoCalls) {
  kernel::Kernel kernel = kernelOf(
      "kernel(b0: f32, b1: out f32, b2: out f32) {\n  parallel i0 < 9\n  vector i0\n  once {\n    %0: f32 = load "
      "b0[i0]\n"
      "    %1: f32 = sin %0\n    %2: f32 = cos %0\n    store b1[i0], %1\n    store b2[i0], %2\n  }\n}\n");
  std::vector<float> x(9, 2.0f), y(9), z(9);
  for (Target target : targetsHere()) {
    void* buffers[] = {x.data(), y.data(), z.data()};
    Compiled code = compiled(kernel, target);
    ASSERT_TRUE(code.function);
    code.function(buffers, nullptr, 0, 9);
    EXPECT_NEAR(y[8], std::sin(2.0f), 1e-6f);
    EXPECT_NEAR(z[8], std::cos(2.0f), 1e-6f);
  }
}

// Where values do not change from lane to lane, functions are hoisted and computed once: the other way to write sin.
TEST(FunctionsOfFloats, OfOneValueForAllLanes) {
  kernel::Kernel kernel = kernelOf(
      "kernel(b0: f32, b1: out f32) {\n  parallel i0 < 3\n  parallel i1 < 37\n  vector i1\n  once {\n"
      "    %0: f32 = load b0[i0]\n    %1: f32 = sin %0\n    %2: f32 = exp %1\n    store b1[37*i0 + i1], %2\n  }\n}\n");
  float xs[] = {1.25f, 1e30f, -3.5f};
  for (Target target : targetsHere()) {
    std::vector<float> found(3 * 37);
    void* buffers[] = {xs, found.data()};
    compiled(kernel, target).function(buffers, nullptr, 0, 3);
    for (size_t i = 0; i < found.size(); ++i) {
      float sine = static_cast<float>(std::sin(static_cast<double>(xs[i / 37])));
      EXPECT_NEAR(found[i], std::exp(sine), 1e-6f) << info(target).name;
    }
  }
}

}  // namespace
}  // namespace saker::codegen
