// The kinds of processors that code is generated for: how wide vectors are, and which instructions there are. One
// emitter serves all of them.
#pragma once

#include <optional>
#include <string_view>

namespace saker::codegen {

enum class Target { Scalar, Sse4, Avx2, Avx512 };
inline constexpr Target kTargets[] = {Target::Scalar, Target::Sse4, Target::Avx2, Target::Avx512};

struct TargetInfo {
  std::string_view name;  // also what SAKER_CPU says
  std::string_view cpu;   // the model whose instructions are used, as LLVM calls it
  int vectorBytes;        // 0: no vectors
  bool fma;               // fused multiply-add; functions are computed by calls where it is missing
  bool half;              // conversions of f16
};
const TargetInfo& info(Target target);
std::optional<Target> targetFromName(std::string_view name);

bool isSupported(Target target);  // by this machine
// The best one of this machine, or the lower one that the environment variable SAKER_CPU names.
Target hostTarget();

}  // namespace saker::codegen
