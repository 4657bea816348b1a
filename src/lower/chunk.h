// Few numbers made of many elements each: chunks of them become numbers, on several threads, and a second kernel makes
// one of these for each. Chunks are as large whatever the number of threads is, so that sums do not depend on it. Where
// rows are so short that they fill no vector, several in a row are summed up beside each other.
#pragma once

#include <optional>

#include "lower/lower.h"

namespace saker::lower {

struct Chunks {
  Launch first, second;
};
// Nothing where the kernel is of another kind, or small. Numbers of chunks are put behind `temporaries`.
std::optional<Chunks> splitIntoChunks(const Launch& launch, std::vector<Temporary>& temporaries);

// Number of steps, and of lines in all of them.
void measure(Launch& launch);

}  // namespace saker::lower
