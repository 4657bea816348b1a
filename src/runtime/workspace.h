// Memory of values that live inside of a run only, kept from run to run: pages that were touched once stay so, and the
// allocator is not asked for what was just given back to it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <vector>

#include "ir/graph.h"
#include "runtime/arrange.h"
#include "runtime/geometry.h"

namespace saker::aten {
class KeptCall;
}

namespace saker::runtime {

// Which value lies in which buffer, and where in one arena that is. Values that live at the same time lie apart.
struct WorkspacePlan {
  struct Place {
    const ir::TensorType* type;
    size_t buffer;
  };
  std::vector<Block> buffers;  // their steps are nodes in order
  size_t bytes = 0;            // of the arena
  std::vector<Place> places;
  size_t calls = 0;  // how many calls are kept from run to run

  bool any() const { return !buffers.empty() || calls != 0; }
};

// Asks the C library, once in a process, to keep some of the memory that is freed. SAKER_KEEP_MEMORY=0 forbids it.
void keepMemory();

// The tensors of one plan, and what else belongs to one run at a time and is kept for the next.
class Workspace {
 public:
  // The slots of a run, between runs: those of planned values and of views of them stay filled.
  std::vector<at::Tensor> slots;
  // Calls by their number. They know where in memory these slots are.
  struct Kept {
    std::unique_ptr<aten::KeptCall> call;
    bool tried = false;
  };
  std::vector<Kept> calls;

  explicit Workspace(const WorkspacePlan& plan);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  const at::Tensor& at(size_t place) const { return tensors_[place]; }
  void* memory(size_t buffer) const { return buffers_[buffer]; }
  // Memory for one launch after the other whose size is known in a run, which grows to what the largest of them needs.
  void* scratch(size_t bytes);
  size_t bytes() const { return bytes_; }
  // Of all workspaces in this process, those too that wait for the next run.
  static size_t allBytes();

 private:
  void add(size_t bytes);

  std::vector<at::Tensor> tensors_;
  std::vector<void*> buffers_;
  c10::Storage scratch_;
  size_t bytes_ = 0;
};

// Workspaces that no run uses. Runs at the same time, by several threads or inside of each other, have one each.
class IdleWorkspaces {
 public:
  std::unique_ptr<Workspace> take(const WorkspacePlan& plan);
  void give(std::unique_ptr<Workspace> workspace);

 private:
  static constexpr size_t kMost = 2;
  static constexpr size_t kMostBytes = size_t{1} << 30;  // of one that is kept
  std::mutex lock_;
  std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace saker::runtime
