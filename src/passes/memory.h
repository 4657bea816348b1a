// Which tensors of a graph may share memory, and what is written or leaves the graph: the one analysis that passes,
// autograd and the runtime ask. Values are put in classes: two values of different classes never share memory. What one
// node does is asked of ops/effects.h.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace saker::passes {

class Memory {
 public:
  struct Assumptions {
    bool inputsShare = true;  // inputs may share memory with each other
    // What operators do that are not in the table.
    enum class Unknown : uint8_t {
      Anything,       // they write all they get, and return anything that can be reached from outside
      ShareOperands,  // their results may lie in what they get
      Nothing,        // they write nothing, and return memory of their own
    } unknown = Unknown::Anything;
  };

  explicit Memory(const ir::Graph& graph, Assumptions assumptions = {true, Assumptions::Unknown::Anything});

  // The least number of a value in the class.
  uint32_t classOf(const ir::Value* value) const { return find(value->id()); }
  bool isWritten(const ir::Value* value) const { return written_[find(value->id())]; }
  // Some value of the class is returned from the graph.
  bool escapes(const ir::Value* value) const { return escapes_[find(value->id())]; }
  // Some value of the class is an input of the graph.
  bool isFromOutside(const ir::Value* value) const { return outside_[find(value->id())]; }
  // Every operator is in the table: nothing was assumed.
  bool allKnown() const { return allKnown_; }
  // Two values become one.
  void merge(const ir::Value* a, const ir::Value* b) { unite(a->id(), b->id()); }

  // The node, or a node in its regions, writes memory.
  bool writes(const ir::Node* node) const { return writes_[node->id()]; }

 private:
  bool visit(const ir::Region* region);
  bool visit(const ir::Node* node);
  bool visitUnknown(const ir::Node* node);
  void visitKnown(const ir::Node* node);
  void uniteRegions(const ir::Node* node);
  uint32_t find(uint32_t id) const;
  void unite(uint32_t a, uint32_t b);

  Assumptions assumptions_;
  mutable std::vector<uint32_t> parent_;           // by value id; one more stands for the world outside
  std::vector<bool> written_, escapes_, outside_;  // by class
  std::vector<bool> writes_;                       // by node id
  uint32_t world_;
  bool allKnown_ = true;
};

}  // namespace saker::passes
