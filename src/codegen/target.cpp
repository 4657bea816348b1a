#include "codegen/target.h"

#include <cstdlib>

namespace saker::codegen {
namespace {

constexpr TargetInfo kInfos[] = {
    {"scalar", "x86-64", 0, false, false},
    {"sse4", "x86-64-v2", 16, false, false},
    {"avx2", "x86-64-v3", 32, true, true},
    {"avx512", "x86-64-v4", 64, true, true},
};

}  // namespace

const TargetInfo& info(Target target) { return kInfos[static_cast<size_t>(target)]; }

std::optional<Target> targetFromName(std::string_view name) {
  for (Target target : kTargets) {
    if (info(target).name == name) return target;
  }
  return std::nullopt;
}

bool isSupported(Target target) {
#if defined(__x86_64__)
  switch (target) {
    case Target::Scalar:
      return true;
    case Target::Sse4:
      return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    case Target::Avx2:
      return __builtin_cpu_supports("x86-64-v3");
    case Target::Avx512:
      return __builtin_cpu_supports("x86-64-v4");
  }
#endif
  return false;
}

Target hostTarget() {
  Target best = Target::Scalar;
  for (Target target : kTargets) {
    if (isSupported(target)) best = target;
  }
  const char* wanted = std::getenv("SAKER_CPU");
  std::optional<Target> named = wanted ? targetFromName(wanted) : std::nullopt;
  return named && *named < best ? *named : best;
}

}  // namespace saker::codegen
