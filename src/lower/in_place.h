// Which operands of a group give their memory to a result: what is read there is read, element by element, before the
// result's element is written.
#pragma once

#include <cstdint>
#include <vector>

#include "lower/lower.h"

namespace saker::lower {

// `operand` is one of the group's that has the dtype and the layout of `result`, and that nobody reads afterwards. These
// are for the caller to see to.
struct InPlace {
  uint32_t result, operand;
  bool operator==(const InPlace&) const = default;
};

// In the order of results. Of several that could take the place of one operand, one may.
std::vector<InPlace> inPlace(const ir::Node& group, const Lowered& lowered);

}  // namespace saker::lower
