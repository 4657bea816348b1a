// Sizes that are known when an operator has run.
#pragma once

#include <string>

#include "ops/infer.h"

namespace saker::ops {

// A symbol of its own, without an example.
inline sym::Int ownSize(Infer& in, int64_t least = 0) {
  sym::Context& symbols = in.context().symbols();
  std::string name;
  for (size_t i = symbols.symbols().size(); name.empty() || symbols.find(name); ++i) name = "u" + std::to_string(i);
  return symbols.symbol(name, sym::Range{least, sym::Range::kInf});
}

}  // namespace saker::ops
