// Whether a node can be part of a kernel: asked of the rule of its operator, on the node's own arguments.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"

namespace saker::lower {

enum class Part : uint8_t {
  Library,   // it stays a call
  Free,      // a view or a fill: nothing is saved by keeping it, so that each group has its own
  Computed,  // it costs reading and writing memory, which groups save
};
struct Answer {
  Part part = Part::Library;
  std::string reason;  // why it stays a call
  bool cheap = false;  // its elements are arithmetic, without functions such as exp
};
// `toTheBit`: only if what it computes is eager mode's to the bit.
Answer partOf(const ir::Node& node, bool toTheBit = false);

}  // namespace saker::lower
