// Autocast as it was around a call. Graphs hold casts and run without autocast; code of the user's that a replay calls
// is to find what it found when the call was recorded.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <optional>

#include "aten/autocast_state.h"

namespace saker::frontend {

// While a graph is compiled or runs: casts are in it.
struct NoAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::autocast_dispatch_keyset};
};

struct CastsAround {
  c10::DispatchKeySet on;
  std::array<c10::ScalarType, 2> dtypes;  // of the CPU and of CUDA

  // Nothing: it is off.
  static std::optional<CastsAround> now();
};

class UnderCasts {
 public:
  explicit UnderCasts(const CastsAround& around);
  ~UnderCasts();
  UnderCasts(const UnderCasts&) = delete;
  UnderCasts& operator=(const UnderCasts&) = delete;

 private:
  std::array<c10::ScalarType, 2> before_;
  std::optional<c10::impl::ForceDispatchKeyGuard> guard_;
};

}  // namespace saker::frontend
