// Memory that the caller can write to between forward and backward: primals, results, and views of them. The backward
// reads it as it is only where eager mode reads it too, and raises if it was written; elsewhere it must read a copy, or
// something that follows from it and was saved.
#pragma once

#include <utility>
#include <vector>

#include "autograd/joint_graph.h"

namespace saker::autograd {

// Reads of a value by a node (by place; nodes().size() stands for the gradients that are returned) that need a copy.
class LateReads {
 public:
  LateReads() = default;
  explicit LateReads(std::vector<std::pair<uint32_t, size_t>> reads);
  bool needsCopy(const ir::Value* value, size_t reader) const;

 private:
  std::vector<std::pair<uint32_t, size_t>> reads_;  // value id and place, sorted
};

class Exposure {
 public:
  explicit Exposure(const JointGraph& joint);
  // If the backward computes again whatever is not banned (by place).
  LateReads find(const std::vector<bool>& isBanned) const;

 private:
  using Row = std::vector<uint64_t>;  // a bit each
  // Values on one memory, and who may write to it.
  struct Exposed {
    std::vector<ir::Value*> values;
    std::vector<size_t> writable;
  };
  class Search;

  void findExposed();
  void followTangents();
  void followGradients();
  bool isCovered(const Exposed& memory, const Row& tangents, const Row& gradients) const;

  const JointGraph& joint_;
  size_t gradientCount_ = 0;
  std::vector<Exposed> memories_;
  std::vector<std::vector<Row>> allowed_;  // by what is writable, by tangent: the gradients for which it may be read
  std::vector<Row> tangents_, gradients_;  // by place, of nodes of the backward: what leads to it, where it leads to
  std::vector<Row> returnedAs_;            // by value id: the gradients that it is itself
};

}  // namespace saker::autograd
