// Arguments of nodes that are copied from one graph to another.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"
#include "support/arena.h"

namespace saker::ir {

// The same argument of the values that stand for those of the original, by their numbers there. Lists live as long as
// what is in `scratch`.
inline Arg copyArg(const Arg& from, const std::vector<Value*>& values, Arena& scratch) {
  if (from.isValue()) return Arg::value(values[from.toValue()->id()]);
  if (!from.isList()) return from;
  std::span<const Arg> items = from.toList();
  Arg* copied = scratch.makeArray<Arg>(items.size());
  for (size_t i = 0; i < items.size(); ++i) copied[i] = copyArg(items[i], values, scratch);
  return Arg::list({copied, items.size()});
}

}  // namespace saker::ir
