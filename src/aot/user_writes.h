// What operators of the user's that write (aten/on_copies.h) move in version counters that the caller sees.
#pragma once

#include <span>

#include "aot/callers.h"
#include "aot/joint.h"

namespace saker::aot {

// Which counters of the caller's move when the user's operators run.
void noteUserWrites(Joint& joint, tracing::Trace& trace, const Callers& callers, std::span<const at::Tensor> results);
// Throws NotAheadOfTime where a backward cannot notice such a write.
void checkUserWrites(const Joint& joint, tracing::Trace& trace);

}  // namespace saker::aot
