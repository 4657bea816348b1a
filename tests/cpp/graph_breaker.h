// Damages a graph in ways its interface does not allow.
#pragma once

#include "ir/graph.h"

namespace saker::ir {

struct GraphBreaker {
  static Node*& prev(Node* node) { return node->prev_; }
  static Node*& next(Node* node) { return node->next_; }
  static Region*& region(Node* node) { return node->region_; }
  static uint32_t& useCount(Node* node) { return node->useCount_; }
  static Use& use(Node* node, size_t i) { return node->uses_[i]; }
  static Arg& arg(Node* node, size_t i) { return node->args_[i]; }
  static Node*& def(Value* value) { return value->def_; }
  static uint32_t& id(Value* value) { return value->id_; }
  static uint32_t& index(Value* value) { return value->index_; }
  static Use*& uses(Value* value) { return value->uses_; }
  static Node*& owner(Region* region) { return region->owner_; }
  static Node*& last(Region* region) { return region->last_; }
  static Graph*& graph(Region* region) { return region->graph_; }
};

}  // namespace saker::ir
