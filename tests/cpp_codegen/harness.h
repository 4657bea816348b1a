// What the tests of generated code share: compiling texts for every processor of this machine, and comparing numbers.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "kernel/parse.h"
#include "kernel/verify.h"

namespace saker::codegen {

inline kernel::Kernel kernelOf(const std::string& text) {
  kernel::Parsed parsed = kernel::parse(text);
  EXPECT_TRUE(parsed.ok()) << parsed.error->line << ':' << parsed.error->column << ": " << parsed.error->message << '\n'
                           << text;
  std::vector<kernel::Diagnostic> wrong = kernel::verify(parsed.kernel);
  EXPECT_TRUE(wrong.empty()) << wrong[0].message << '\n' << text;
  return std::move(parsed.kernel);
}

inline std::vector<Target> targetsHere() {
  std::vector<Target> found;
  for (Target target : kTargets) {
    if (isSupported(target)) found.push_back(target);
  }
  return found;
}

inline Compiled compiled(const kernel::Kernel& kernel, Target target, const Options& options = {}) {
  const kernel::Kernel* one[] = {&kernel};
  Result result = compile(one, target, options);
  EXPECT_TRUE(result.ok()) << result.error;
  return result.ok() ? result.kernels[0] : Compiled{};
}

// How many floats lie between the true result and this one. 0 if both are nan or the same; huge if one is nan or their
// signs of zero differ.
template <typename Float, typename True>
double ulps(Float found, True exact) {
  constexpr double kHuge = 1e30;
  Float rounded = static_cast<Float>(exact);
  if (std::isnan(found) || std::isnan(rounded)) return std::isnan(found) && std::isnan(rounded) ? 0 : kHuge;
  if (found == rounded) return found == 0 && std::signbit(found) != std::signbit(rounded) ? kHuge : 0;
  if (std::isinf(rounded) && std::isinf(found)) return kHuge;
  constexpr Float kMax = std::numeric_limits<Float>::max();
  // Beyond the largest number, infinity is the next one.
  if (std::isinf(found))
    return static_cast<double>((static_cast<long double>(kMax) - std::fabs(exact)) /
                               (kMax - std::nextafter(kMax, Float(0)))) +
           1;
  if (std::isinf(rounded)) return std::fabs(found) == kMax ? 1 : kHuge;
  Float magnitude = std::fabs(rounded);
  long double unit =
      static_cast<long double>(std::nextafter(magnitude, std::numeric_limits<Float>::infinity())) - magnitude;
  if (std::isinf(unit)) unit = static_cast<long double>(kMax) - std::nextafter(kMax, Float(0));
  return static_cast<double>(std::fabs(static_cast<long double>(found) - exact) / unit);
}

}  // namespace saker::codegen
