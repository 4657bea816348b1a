// Bodies that compute the same: which values of one are values of another one.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "passes/in_step.h"

namespace saker::passes {

class SameValues : private InStep<SameValues> {
 public:
  explicit SameValues(const ir::Graph& graph) : of_(graph.valueLimit()) {}

  // `later`, a parameter, is given what `earlier` is.
  void tell(const ir::Value* later, ir::Value* earlier) { of_[later->id()] = earlier; }
  // Finds values of nodes whose result follows from their arguments alone. Both bodies are of the graph.
  void find(const ir::Region& earlier, const ir::Region& later);
  // nullptr: none is the same.
  ir::Value* of(const ir::Value* later) const { return later->id() < of_.size() ? of_[later->id()] : nullptr; }

 private:
  friend InStep;
  static bool sameFacts(const ir::Node& earlier, const ir::Node& later);
  static bool sameConstant(const ir::Arg& earlier, const ir::Arg& later) { return ir::sameArg(earlier, later); }
  bool sameValue(const ir::Value* earlier, const ir::Value* later) const;

  const ir::Region* body_ = nullptr;  // the later one
  std::vector<ir::Value*> of_;        // by value of the later body
};

}  // namespace saker::passes
