// What must stay in order because memory is written: in a list of nodes, those that read or write a tensor and those
// that write to the same memory; and what may raise because of data, with what is written before and behind it.
#pragma once

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"

namespace saker::passes {
class Memory;
}

namespace saker::lower {

class WriteOrder {
 public:
  // A value whose memory a node reads or writes; making what is written to later is a write, too.
  struct Touch {
    uint32_t memory;  // its class: values of different classes share nothing
    const ir::Value* value;
    bool written;
  };

  // Of nodes that write nothing: there is no order.
  WriteOrder() = default;
  WriteOrder(std::span<ir::Node* const> nodes, const passes::Memory& memory);

  std::span<const ir::Node* const> before(const ir::Node* node) const { return of(node).before; }
  std::span<const ir::Node* const> behind(const ir::Node* node) const { return of(node).behind; }
  std::span<const Touch> touches(const ir::Node* node) const { return of(node).touches; }
  // Of a result of a node: some node of the list writes to its memory.
  bool isWritten(const ir::Value* value) const { return written_.contains(value); }

 private:
  struct Entry {
    std::vector<const ir::Node*> before, behind;
    std::vector<Touch> touches;
  };
  const Entry& of(const ir::Node* node) const;
  void order(const ir::Node* first, const ir::Node* second);

  std::unordered_map<const ir::Node*, Entry> entries_;
  std::unordered_set<const ir::Value*> written_;
};

}  // namespace saker::lower
