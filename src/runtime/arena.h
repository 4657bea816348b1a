// Memory of values that live inside of a run only, kept from run to run: pages that were touched once stay so, and the
// allocator is not asked for what was just given back to it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <vector>

#include "ir/graph.h"
#include "runtime/geometry.h"

namespace saker::runtime {

// Which value lies in which buffer. Values that live at the same time lie in different ones.
struct ArenaPlan {
  struct Place {
    const ir::TensorType* type;
    size_t buffer;
  };
  std::vector<size_t> buffers;  // bytes
  std::vector<Place> places;
};

// The tensors of one plan.
class Arena {
 public:
  explicit Arena(const ArenaPlan& plan);
  const at::Tensor& at(size_t place) const { return tensors_[place]; }
  size_t bytes() const { return bytes_; }

 private:
  std::vector<at::Tensor> tensors_;
  size_t bytes_ = 0;
};

// Arenas that no run uses. Runs at the same time, by several threads or inside of each other, have one each.
class IdleArenas {
 public:
  std::unique_ptr<Arena> take(const ArenaPlan& plan);
  void give(std::unique_ptr<Arena> arena);

 private:
  static constexpr size_t kMost = 2;
  static constexpr size_t kMostBytes = size_t{1} << 30;  // of one that is kept
  std::mutex lock_;
  std::vector<std::unique_ptr<Arena>> idle_;
};

}  // namespace saker::runtime
