// Cuts a joint graph, which computes results and their gradients in one, into a forward and a backward graph. What the
// backward reads of the forward is saved between them; which values these are is the choice of a strategy.
// docs/partition.md says how they choose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph.h"

namespace saker::autograd {

// Memory that may be written between forward and backward by whoever has these tensors. The backward reads it as it is
// only where these reads are: there it is noticed if it was written. Elsewhere it gets a copy, or what follows from it.
struct Writable {
  std::vector<size_t> primals, results;
  struct Read {
    std::vector<bool> tangents, gradients;  // for each of these tangents, in each of these gradients
  };
  std::vector<Read> reads;
};

// How a joint graph is laid out: its parameters are primals, then tangents; it returns forward results, then gradients
// (None where there is none). It is functional but for copies into primals at its end, which belong to the forward.
struct JointLayout {
  size_t primals = 0;
  size_t tangents = 0;
  size_t forwardResults = 0;
  std::vector<Writable> writable = {};  // other memory stays as it is
};

enum class Strategy : uint8_t {
  Default,  // the forward keeps what its results need, the rest is backward
  MinCut,   // saves little by computing cheap things again
};

struct PartitionOptions {
  Strategy strategy = Strategy::MinCut;
  // Of MinCut: 1 saves what makes the backward fastest, 0 only primals and what cannot be computed again; between them
  // the saved bytes are that share of the way from one to the other, at most.
  double memoryBudget = 1;
};

struct Cut {
  std::unique_ptr<ir::Graph> forward;   // (primals) -> (forward results..., saved...)
  std::unique_ptr<ir::Graph> backward;  // (saved..., tangents) -> (gradients)
  struct Saved {
    std::optional<size_t> primal;  // that primal itself; nothing: an intermediate
  };
  std::vector<Saved> saved;  // tensors, then numbers; primals before intermediates in each
  uint64_t savedBytes = 0;   // the memory of saved intermediates, by example sizes; shared memory counts once
};

// The cut, or why there is none. The joint graph is not changed.
std::variant<Cut, std::string> partition(const ir::Graph& joint, const JointLayout& layout,
                                         const PartitionOptions& options = {});

}  // namespace saker::autograd
