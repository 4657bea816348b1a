// Regions of torch.utils.checkpoint in a capture: what is recorded in one is marked for the cut
// (autograd/checkpoint.h).
#pragma once

#include <cstdint>
#include <string_view>

namespace saker::aot {

// Where this thread's capture stands.
uint32_t recordedSoFar();
// Marks what was recorded since, but for what is marked already: regions and choices inside come first.
void markRecorded(uint32_t since, uint32_t region, std::string_view what);

}  // namespace saker::aot
