// The state around a call that decides what operators do.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string>

namespace saker::frontend {

struct Ambient {
  bool gradMode, inferenceMode, autocastCache, deterministic, deterministicWarnOnly, mkldnn;
  std::array<bool, 4> attention;  // which kernels may be chosen
  std::array<bool, 2> autocast;   // CPU, CUDA
  std::array<c10::ScalarType, 2> autocastType;
  c10::ScalarType defaultType;
  int64_t functionModes, dispatchModes;
  bool functorch;

  static Ambient now();
  bool operator==(const Ambient&) const = default;
  std::string difference(const Ambient& other) const;
};

}  // namespace saker::frontend
