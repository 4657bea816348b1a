// Regions of torch.utils.checkpoint in what this thread records: their nodes are marked for the cut between forward and
// backward (autograd/checkpoint.h).
#pragma once

#include <cstdint>
#include <string_view>

namespace saker::aot {

// Where the recording stands, and a number for one more region of it; 0 where nothing is recorded.
uint32_t recordedSoFar();
uint16_t nextCheckpoint();

// Marks what was recorded since, but for what is marked already: regions and choices inside come first. `what` is
// "save", "recompute" or "redraw".
void markRecorded(uint32_t since, uint16_t region, std::string_view what);

// Has what was recorded since written to memory from before?
bool wroteBefore(uint32_t since);

}  // namespace saker::aot
