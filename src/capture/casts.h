// Kernels that call operators which autocast changes: what they compute depends on autocast, although they are no
// operators of autocast's own. A graph holds casts and runs without autocast, so it cannot call such a kernel.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "aten/autocast_state.h"
#include "capture/call.h"

namespace saker::tracing {

inline constexpr const char* kCastsInside = "its kernel computes with operators that autocast changes";

inline bool castsInside(const Call& call) {
  static constexpr std::array<std::string_view, 4> kKernels{"aten::_foreach_mm", "aten::_trilinear",
                                                            "aten::affine_grid_generator", "aten::linalg_pinv"};
  if (std::find(kKernels.begin(), kKernels.end(), call.op.operator_name().name) == kKernels.end()) return false;
  bool casts = false;
  eachTensor(call.values, [&](const at::Tensor& tensor) {
    c10::DispatchKey key = aten::autocast::keyOf(tensor.device().type());
    casts |= !call.surroundings.excluded_.has(key);
  });
  return casts;
}

}  // namespace saker::tracing
