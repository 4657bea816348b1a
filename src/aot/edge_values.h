// Which values of a recording edges of autograd's graph lead to.
#pragma once

#include <map>
#include <utility>

#include "capture/trace.h"

namespace saker::aot {

class EdgeValues {
 public:
  explicit EdgeValues(tracing::Trace& trace) : trace_(trace) {}

  // An operator is given this tensor.
  void note(const at::Tensor& tensor);
  // What had this history when an operator was given it; nullptr: nothing, or what will not stay in the recording.
  ir::Value* find(const torch::autograd::Edge& edge) const;

 private:
  struct Noted {
    uint64_t sequence;  // of the node: another one may lie at its address by now
    ir::Value* value;
  };
  tracing::Trace& trace_;
  std::map<std::pair<const torch::autograd::Node*, uint32_t>, Noted> noted_;
};

}  // namespace saker::aot
