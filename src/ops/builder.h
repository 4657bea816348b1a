// Making nodes whose types are inferred: what a pass uses to write operators into a graph.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "ir/graph.h"
#include "ops/operator.h"

namespace saker::ops {

// Nodes get this origin, and go before `position`, or to the end of the region where that is nullptr.
class Builder {
 public:
  Builder(ir::Graph& graph, ir::Region* region, ir::Node* position, ir::Origin origin = {})
      : graph_(graph), region_(region), position_(position), origin_(origin) {}

  ir::Graph& graph() const { return graph_; }

  // The node, or nullptr where inference refuses (nothing is inserted then).
  ir::Node* tryCall(const Operator& op, std::span<const ir::Arg> args);
  ir::Value* tryCall(std::string_view op, std::initializer_list<ir::Arg> args);
  // For calls that are right by construction: a refusal is a broken invariant.
  ir::Node* call(const Operator& op, std::span<const ir::Arg> args);
  ir::Value* call(std::string_view op, std::initializer_list<ir::Arg> args);
  // A tensor of this type, whose numbers are any.
  ir::Value* memoryOf(const ir::TensorType& type);
  // Where the types of the results are known already.
  ir::Node* insert(const Operator& op, std::span<const ir::Arg> args, std::span<const ir::Type* const> results);

 private:
  ir::Graph& graph_;
  ir::Region* region_;
  ir::Node* position_;
  ir::Origin origin_;
};

}  // namespace saker::ops
