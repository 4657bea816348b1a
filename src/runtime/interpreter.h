// Runs a graph by calling ATen, node by node, freeing each value at its last use: how a recording is run at a flush,
// and the reference that generated code is compared with.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "aten/call_node.h"
#include "ir/graph.h"

namespace saker::runtime {

// The sizes, strides and offset of a type, in numbers.
struct Geometry {
  c10::DimVector sizes, strides;
  int64_t offset = 0;
};
Geometry geometryOf(const ir::TensorType& type, const sym::Assignment& symbols);

// An ordinary tensor that sees a storage.
at::Tensor tensorOver(const c10::Storage& storage, const ir::TensorType& type, const Geometry& geometry);

class Interpreter : public aten::CallEnvironment {
 public:
  explicit Interpreter(const ir::Graph& graph, sym::Assignment symbols);

  void set(const ir::Value* value, at::Tensor tensor) { values_[value->id()] = std::move(tensor); }
  // Runs every node but the terminator.
  void run();
  // The node that is being run; after an error, the one that failed.
  const ir::Node* running() const { return running_; }
  // What an argument of the terminator is, after a run.
  c10::IValue returned(const ir::Arg& arg);

  const at::Tensor& tensor(const ir::Value* value) override { return values_[value->id()]; }
  c10::IValue number(const ir::Value* value) override;
  c10::IValue opaque(const ir::OpaqueRef& reference) override;
  const sym::Assignment& symbols() override { return symbols_; }

 protected:
  virtual void call(const ir::Node& node, const c10::OperatorHandle& handle, torch::jit::Stack& stack);
  // Called with each fresh result (not a view, not an argument that was written); what it returns is used from there
  // on.
  virtual at::Tensor fresh(const ir::Value& value, at::Tensor real);

  // The result in the geometry that its type tells: later nodes and every view count on it, so a difference is never
  // adopted.
  at::Tensor inToldLayout(const ir::Value& value, at::Tensor real, bool& moved);

 private:
  void runNode(const ir::Node& node);
  // Sizes that only the operator knew have a value from here on.
  void bindOwnSizes(const ir::TensorType& type, const at::Tensor& real);
  void take(const ir::Value& value, at::Tensor real, bool aliases);

  const ir::Graph& graph_;
  sym::Assignment symbols_;
  const ir::Node* running_ = nullptr;
  aten::Handles handles_;
  torch::jit::Stack stack_;
  std::vector<at::Tensor> values_;
  std::vector<uint32_t> lastUse_;  // by value: the number of the last node that reads it
};

// Symbols as the sizes of the inputs show them: each parameter size that is a plain symbol binds it.
sym::Assignment bindSymbols(const ir::Graph& graph, std::span<const at::Tensor> inputs);
// Names the first symbol whose value lies outside of the range that it was declared with; empty where all lie inside.
std::string outOfRange(const sym::Context& context, const sym::Assignment& symbols);

}  // namespace saker::runtime
