// Internal to the graph: use lists, and the journal by which changes are undone. Changes are undone in reverse order,
// so whatever a change points to is again as it was right after the change: neighbours in lists need no search.
#pragma once

#include "ir/graph.h"

namespace saker::ir {

struct Graph::Change {
  enum class Kind : uint8_t {
    Create,        // object: the node
    Link,          // object: the node
    Unlink,        // object: the node; first: its region; second: the node behind it
    Use,           // object: the use; first: its value; second: what pointed to it
    Args,          // object: the node; first, count: its arguments; second, count2: its uses (dropped before)
    Type,          // object: the value; first: its type
    Name,          // object: the value; first, count: its name
    Location,      // object: the node; first: its location
    Attributes,    // object: the node; count, count2: the bits of its attributes
    AddParameter,  // object: the region; first, count: its array of parameters and their capacity
    AddRegion,     // object: the node; first: its array of regions
    AddResults,    // object: the node, which had none
    Erase,         // object: the node, out of its region and without uses
  };
  Kind kind;
  uint32_t count = 0;
  uint32_t count2 = 0;
  void* object = nullptr;
  const void* first = nullptr;
  const void* second = nullptr;
};

inline void Graph::record(const Change& change) {
  if (checkpoints_ > 0) journal_.push_back(change);
}

}  // namespace saker::ir
