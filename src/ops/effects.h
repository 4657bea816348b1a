// What one call does, its bodies included: what it writes, whose memory its results lie in, what else can be seen of
// it. Passes, autograd and the runtime ask here. memory.h of src/passes answers the same for a whole graph.
#pragma once

#include <cstdint>

#include "ir/graph.h"
#include "ops/operator.h"

namespace saker::ops {

struct Effects {
  uint32_t traits = 0;   // Trait, of the operator and of those in its bodies
  bool unknown = false;  // one of them is not in the table: it may do anything
  bool writes = false;   // one of them writes; not what the call leaves unwritten although the operator may write

  bool has(Trait trait) const { return traits & trait; }
  // Nothing is seen of it but its results: the node may be removed when they are unused.
  bool removable() const { return !unknown && !writes && !has(kRandom) && !has(kEffect) && !has(kDataDependent); }
  // Only its place among others like it says what it does: it draws, reads a state, or is seen from outside.
  bool ordered() const { return unknown || has(kReadsState) || has(kRandom) || has(kEffect); }
};

Effects effectsOf(const ir::Node& node);

}  // namespace saker::ops
