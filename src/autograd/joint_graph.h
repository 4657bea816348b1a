// A joint graph as the partitioners see it: which nodes the forward needs, which must wait for tangents, which may be
// in either half; who shares memory; how many bytes values take.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/partition.h"
#include "ir/each_operand.h"
#include "ir/graph.h"
#include "ops/effects.h"
#include "passes/memory.h"

namespace saker::autograd {

class JointGraph {
 public:
  // The graph is not changed as long as this lives. `backwardStart`: the first node that ran after the forward, where
  // that is known (nullptr: none did); otherwise it is the first one that reads a tangent.
  JointGraph(ir::Graph& graph, const JointLayout& layout, std::optional<const ir::Node*> backwardStart = std::nullopt);
  // Why it cannot be cut.
  const std::optional<std::string>& error() const { return error_; }

  ir::Graph& graph() const { return graph_; }
  const JointLayout& layout() const { return layout_; }

  // The nodes of the top region but for the terminator, in order. Below, a node is meant by its place here.
  const std::vector<ir::Node*>& nodes() const { return nodes_; }
  size_t placeOf(const ir::Node* topNode) const { return places_[topNode->id()]; }
  // Of a value that is no parameter.
  size_t definedAt(const ir::Value* value) const { return placeOf(value->def()); }

  bool isPrimal(const ir::Value* value) const { return value->isParameter() && value->index() < layout_.primals; }
  bool isTangent(const ir::Value* value) const { return value->isParameter() && value->index() >= layout_.primals; }

  // Effects in front of it belong to the forward, those behind to the backward. nullptr: there is no backward.
  const ir::Node* backwardStart() const { return start_ < nodes_.size() ? nodes_[start_] : nullptr; }

  // Forward results, effects of the forward and what they need. Every other node is free or in the backward.
  bool inForward(size_t node) const { return inForward_[node]; }
  // Depends on tangents; is an effect, a write or random and comes after them; may be computed only once and is not
  // in the forward; touches what the backward writes; or depends on such a node.
  bool inBackward(size_t node) const { return inBackward_[node]; }
  // May not be moved among others of its kind: effects, writes, random operators, unknown operators.
  bool isPinned(size_t node) const { return pinned_[node]; }
  // Known before the backward starts: a primal, or a result of a node that is not in the backward.
  bool isSavable(const ir::Value* value) const {
    return value->isParameter() ? isPrimal(value) : !inBackward_[definedAt(value)];
  }
  // What the node does, its bodies included.
  const ops::Effects& effectsOf(const ir::Node& topNode) const { return effects_[placeOf(&topNode)]; }
  // Metadata only: costs nothing, and its results lie in the memory of its operand.
  bool isView(size_t node) const;

  // The value whose memory this one lies in: itself, if it has memory of its own.
  const ir::Value* holderOf(const ir::Value* value) const { return values_[holder_[value->id()]]; }
  // Equal for values that may share memory, as far as operators are known.
  uint32_t knownMemory(const ir::Value* value) const { return known_.classOf(value); }
  bool forwardWrites(const ir::Value* value) const { return forwardWrites_[memory_.classOf(value)]; }
  bool backwardWrites(const ir::Value* value) const { return backwardWrites_[memory_.classOf(value)]; }

  // The forward writes to the primal this may lie in, at its end: the backward gets a copy of what was there before.
  bool mustCopy(const ir::Value* value) const { return forwardWrites(value) && value->tensor() && isOfInput(value); }

  // By example sizes; of a number 8.
  uint64_t bytesOf(const ir::Value* value) const;
  uint64_t elementsOf(const ir::Value* value) const;
  int64_t example(sym::Int size) const;
  // The memory that stays alive for these saved values beside the primals.
  uint64_t bytesOf(const std::vector<ir::Value*>& saved) const;

  // What a node reads, what its bodies read from outside included.
  template <typename F>
  void eachInput(const ir::Node* node, F&& f) const {
    ir::eachOperand(*node, [&](ir::Value* value) {
      if (value->region() == graph_.top()) f(value);
    });
  }
  // Places of the nodes that read a value; nodes().size() stands for the terminator. One may come more than once.
  template <typename F>
  void eachUser(const ir::Value* value, F&& f) const {
    for (const ir::Use* use = value->firstUse(); use; use = use->next) {
      const ir::Node* user = use->user;
      while (user->region() != graph_.top()) user = user->region()->owner();
      f(user->isReturn() ? nodes_.size() : placeOf(user));
    }
  }
  // Values in the arguments of the terminator, in order.
  std::vector<ir::Value*> forwardResults() const { return returned(0, layout_.forwardResults); }
  std::vector<ir::Value*> gradients() const { return returned(layout_.forwardResults, SIZE_MAX); }

 private:
  void findHolders();
  // Its memory may be that of a primal or a tangent.
  bool isOfInput(const ir::Value* value) const { return memory_.isFromOutside(value); }
  void followTangents();
  void findForward();
  void findBackward();
  void checkOrder();
  std::vector<ir::Value*> returned(size_t from, size_t to) const;
  template <typename F>
  void eachWritten(const ir::Node* node, F&& f) const;
  uint64_t elementsOf(const ir::TensorType& type) const;

  ir::Graph& graph_;
  JointLayout layout_;
  std::optional<std::string> error_;
  std::vector<ir::Node*> nodes_;
  std::vector<uint32_t> places_;           // by node id
  std::vector<ir::Value*> values_;         // by value id
  passes::Memory memory_;                  // inputs share none
  passes::Memory known_;                   // and operators that are not known neither
  std::vector<uint32_t> holder_;           // by value id
  std::vector<ops::Effects> effects_;      // by place
  std::vector<bool> onTangents_, pinned_;  // by place
  std::vector<bool> inForward_, inBackward_;
  std::vector<bool> forwardWrites_, backwardWrites_;  // by value id, where it stands for a memory
  size_t start_ = 0;                                  // of the backward
  sym::Assignment examples_;
  mutable std::unordered_map<const ir::Type*, uint64_t> elements_;
};

}  // namespace saker::autograd
