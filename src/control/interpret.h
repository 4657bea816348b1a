// Calls the operators of a graph one by one through PyTorch's dispatcher: on stand-ins, whoever is around records,
// differentiates or batches them. Nodes with bodies are one call each.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <vector>

#include "capture/trace.h"
#include "ir/graph.h"

namespace saker::control {

struct Interpretation {
  const std::vector<c10::IValue>& objects;  // what opaque arguments refer to
  tracing::Trace& trace;                    // that sizes which change belong to
  // Calls the operator of a node; `makes`: it takes no tensor, and is of the table. Empty: with autograd on or off as
  // it was when the node was recorded.
  std::function<void(const ir::Node& node, const c10::OperatorHandle& handle, bool makes, torch::jit::Stack& stack)>
      call = {};
  // A number that is no expression of sizes. Empty: it is refused.
  std::function<c10::IValue(const ir::Value* value)> number = {};
};

// Calls the operator of a node with autograd on or off as it was when the node was recorded.
void callAsRecorded(const ir::Node& node, const c10::OperatorHandle& handle, torch::jit::Stack& stack);

// One tensor for each parameter. What the graph returns: tensors, None for what is no tensor.
std::vector<c10::IValue> interpret(const ir::Graph& graph, const Interpretation& how,
                                   const std::vector<at::Tensor>& inputs);

}  // namespace saker::control
