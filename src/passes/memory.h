// Which tensors may share memory, and what is written or leaves the graph. Values are put in classes: two values of
// different classes never share memory. Where an operator is unknown the worst is assumed: it writes all it gets, and
// what it returns may be anything that is reachable from outside.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace saker::passes {

class Memory {
 public:
  explicit Memory(const ir::Graph& graph);

  uint32_t classOf(const ir::Value* value) { return find(value->id()); }
  bool isWritten(const ir::Value* value) { return written_[find(value->id())]; }
  // Some value of the class is returned from the graph.
  bool escapes(const ir::Value* value) { return escapes_[find(value->id())]; }
  // Two values become one.
  void merge(const ir::Value* a, const ir::Value* b) { unite(a->id(), b->id()); }

  // The node, or a node in its regions, writes memory.
  bool writes(const ir::Node* node) const { return writes_[node->id()]; }

 private:
  bool visit(const ir::Region* region);
  bool visit(const ir::Node* node);
  bool visitKnown(const ir::Node* node);
  void uniteRegions(const ir::Node* node);
  uint32_t find(uint32_t id);
  void unite(uint32_t a, uint32_t b);

  std::vector<uint32_t> parent_;  // by value id; one more stands for the world outside
  std::vector<bool> written_;     // by class
  std::vector<bool> escapes_;
  std::vector<bool> writes_;  // by node id
  uint32_t world_;
};

}  // namespace saker::passes
