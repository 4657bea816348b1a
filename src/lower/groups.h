// Chooses which nodes of a list belong to one group. Each group has a depth, and what it reads of others has a lower
// one: so that no group waits for itself, and one pass over the nodes is enough.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "lower/can_lower.h"
#include "lower/fuse.h"
#include "lower/space.h"
#include "lower/symbol_order.h"
#include "lower/write_order.h"

namespace saker::lower {

class Groups {
 public:
  static constexpr uint32_t kNoGroup = UINT32_MAX;
  struct Group {
    std::vector<ir::Node*> nodes;  // computed ones, in order
    uint32_t depth = 0;
    Int elements = 0;            // of its largest values
    Int into = 0;                // of a result that elements are put into, at places that are data
    std::optional<Space> space;  // that it reduces
    std::string ended;
    bool gone = false;  // became part of another one
    std::vector<WriteOrder::Touch> touches;
    bool writes = false;
    bool raises = false;  // because of data
  };

  // `order` and `symbols`: of the same nodes.
  Groups(std::span<ir::Node* const> nodes, const FuseOptions& options, const WriteOrder& order,
         const SymbolOrder& symbols);

  // Of a node of the list: its group, or kNoGroup.
  uint32_t of(const ir::Node* node) const;
  const std::vector<Group>& all() const { return groups_; }
  Part part(const ir::Node* node) const { return facts_[node->id()].part; }
  bool has(const ir::Node* node) const { return node->id() < facts_.size() && facts_[node->id()].known; }

 private:
  struct Facts {
    Part part = Part::Library;
    bool known = false;  // a node of the list
    bool cheap = false;
    uint32_t group = kNoGroup;
    uint32_t depth = 0;
    std::string reason;
  };

  void place(ir::Node* node);
  void join(ir::Node* node, uint32_t group);
  void merge(uint32_t into, uint32_t from);
  void sink();
  // leave_to_readers.cpp
  using Values = std::vector<const ir::Value*>;
  void leaveToReaders();
  bool tryToLeave(uint32_t own, const std::vector<const ir::Node*>& nodes, const ir::Value* needed);
  std::vector<uint32_t> readersOf(const ir::Node* node, uint32_t own) const;
  bool isStored(const ir::Value* value, uint32_t own) const;
  void sources(const ir::Node* node, Values& found) const;
  bool fits(const Group& group, const ir::Node* node, std::string* why) const;
  bool fits(const Group& a, const Group& b) const;
  uint32_t sibling(const ir::Node* node, uint32_t depth) const;
  // The nodes that make what a node reads, through views and fills.
  void producers(const ir::Node* node, std::vector<const ir::Node*>& found) const;
  void readers(const ir::Value* value, std::vector<const ir::Node*>& found) const;
  uint32_t depthOf(const ir::Node* node) const;

  bool seesThrough(const ir::Value* value, const ir::Value* written) const;
  bool agree(std::span<const WriteOrder::Touch> a, std::span<const WriteOrder::Touch> b) const;

  const FuseOptions& options_;
  const WriteOrder& order_;
  const SymbolOrder& symbols_;
  std::vector<Facts> facts_;  // by node id
  std::vector<Group> groups_;
  std::vector<std::vector<uint32_t>> readBy_;  // by value id: groups that read it
  const ir::Node* lastOrdered_ = nullptr;
};

}  // namespace saker::lower
