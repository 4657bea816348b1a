#include <array>
#include <bit>

#include "ir/graph_change.h"

namespace saker::ir {

Graph::Checkpoint Graph::checkpoint() {
  ++checkpoints_;
  return {journal_.size(), checkpoints_, arena_.mark(), nodeLimit(), nextValue_, live_};
}

void Graph::commit(const Checkpoint& checkpoint) {
  SAKER_CHECK(checkpoint.depth >= 1 && checkpoint.depth <= checkpoints_, "the checkpoint has ended already");
  checkpoints_ = checkpoint.depth - 1;
  // Enclosing checkpoints still need what was written.
  if (checkpoints_ == 0) journal_.clear();
}

void Graph::rollback(const Checkpoint& checkpoint) {
  SAKER_CHECK(checkpoint.depth >= 1 && checkpoint.depth <= checkpoints_, "the checkpoint has ended already");
  while (journal_.size() > checkpoint.journal) {
    undo(journal_.back());
    journal_.pop_back();
  }
  checkpoints_ = checkpoint.depth - 1;
  nodes_.resize(checkpoint.nodes);
  nextValue_ = checkpoint.values;
  live_ = checkpoint.live;
  arena_.reset(checkpoint.arena);
}

void Graph::undo(const Change& change) {
  Node* node = static_cast<Node*>(change.object);
  Value* value = static_cast<Value*>(change.object);
  switch (change.kind) {
    case Change::Kind::Create:
      for (uint32_t i = node->useCount_; i-- > 0;) node->uses_[i].remove();
      break;
    case Change::Kind::Link:
      detach(node);
      break;
    case Change::Kind::Unlink:
      link(static_cast<Region*>(const_cast<void*>(change.first)), static_cast<Node*>(const_cast<void*>(change.second)),
           node);
      break;
    case Change::Kind::Use: {
      Use* use = static_cast<Use*>(change.object);
      if (use->value) use->remove();
      use->insertAt(static_cast<Value*>(const_cast<void*>(change.first)),
                    static_cast<Use**>(const_cast<void*>(change.second)));
      break;
    }
    case Change::Kind::Args:
      for (uint32_t i = node->useCount_; i-- > 0;) node->uses_[i].remove();
      node->args_ = static_cast<Arg*>(const_cast<void*>(change.first));
      node->argCount_ = change.count;
      node->uses_ = static_cast<Use*>(const_cast<void*>(change.second));
      node->useCount_ = change.count2;
      break;
    case Change::Kind::Type:
      value->type_ = static_cast<const ir::Type*>(change.first);
      break;
    case Change::Kind::Name:
      value->name_ = {static_cast<const char*>(change.first), change.count};
      break;
    case Change::Kind::Location:
      node->location_ = static_cast<const ir::Location*>(change.first);
      break;
    case Change::Kind::Attributes:
      node->attributes_ = std::bit_cast<ir::Attributes>(
          std::array<uint16_t, 3>{static_cast<uint16_t>(change.count), static_cast<uint16_t>(change.count >> 16),
                                  static_cast<uint16_t>(change.count2)});
      break;
    case Change::Kind::AddParameter: {
      Region* region = static_cast<Region*>(change.object);
      region->parameters_ = static_cast<Value**>(const_cast<void*>(change.first));
      region->parameterCapacity_ = change.count;
      --region->parameterCount_;
      break;
    }
    case Change::Kind::AddRegion:
      node->regions_ = static_cast<Region**>(const_cast<void*>(change.first));
      --node->regionCount_;
      break;
    case Change::Kind::AddResults:
      node->results_ = nullptr;
      node->resultCount_ = 0;
      break;
    case Change::Kind::Erase:
      nodes_[node->id_] = node;
      break;
  }
}

}  // namespace saker::ir
