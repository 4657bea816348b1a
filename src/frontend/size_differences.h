// What a recording with symbolic sizes asks of the sizes of a call, in words, where it does not hold.
#pragma once

#include <string>

#include "frontend/segment.h"

namespace saker::frontend {

// "x.size(0): expected 3, found 4", or "expected s0 % 2 == 0, found s0 = 7 (x.size(0))". Empty: they are as asked.
// `found`: by the guards of the segment, which hold.
std::string differingSizes(const Segment& segment, const std::vector<PyObject*>& found);

}  // namespace saker::frontend
