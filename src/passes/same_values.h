// Bodies that compute the same: which values of one are values of another one.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace saker::passes {

class SameValues {
 public:
  explicit SameValues(const ir::Graph& graph) : of_(graph.valueLimit()) {}

  // `later`, a parameter, is given what `earlier` is.
  void tell(const ir::Value* later, ir::Value* earlier) { of_[later->id()] = earlier; }
  // Finds values of nodes whose result follows from their arguments alone. Both bodies are of the graph.
  void find(const ir::Region& earlier, const ir::Region& later);
  // nullptr: none is the same.
  ir::Value* of(const ir::Value* later) const { return later->id() < of_.size() ? of_[later->id()] : nullptr; }

 private:
  bool equal(const ir::Node& earlier, const ir::Node& later);
  bool equal(const ir::Arg& earlier, const ir::Arg& later) const;
  bool equal(const ir::Region& earlier, const ir::Region& later);
  void tellResults(const ir::Node& earlier, const ir::Node& later);

  const ir::Region* body_ = nullptr;  // the later one
  std::vector<ir::Value*> of_;        // by value of the later body
};

}  // namespace saker::passes
