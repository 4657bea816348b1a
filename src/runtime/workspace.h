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

// Memory in which workspaces of several plans lie, of which one is in use: forward and backward of a program, and other
// programs of about that size. All of it is guarded by one lock.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  explicit Arena(size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  // One that nobody uses and that is not much larger, or a new one. It is the caller's until it is given back.
  static std::shared_ptr<Arena> take(size_t bytes);
  // False: somebody uses it.
  bool tryTake();
  void give();
  // Is there a larger one that `bytes` would be taken from now?
  bool isSurpassed(size_t bytes) const;
  const c10::Storage& memory() const { return memory_; }

 private:
  bool suits(size_t bytes) const;

  c10::Storage memory_;
  size_t bytes_;
  bool taken_ = true;
};

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

  explicit Workspace(const WorkspacePlan& plan);  // for use
  ~Workspace();
  Workspace(const Workspace&) = delete;
  // Between uses its arena is that of others.
  bool tryTake();
  void give();
  bool shouldMove() const { return arena_ && arena_->isSurpassed(arenaBytes_); }
  const at::Tensor& at(size_t place) const { return tensors_[place]; }
  void* memory(size_t buffer) const { return buffers_[buffer]; }
  // Memory for one launch after the other whose size is known in a run, which grows to what the largest of them needs.
  void* scratch(size_t bytes);
  size_t bytes() const { return bytes_ + arenaBytes_; }
  // Of all workspaces in this process, those too that wait for the next run.
  static size_t allBytes();

 private:
  void add(size_t bytes);

  std::shared_ptr<Arena> arena_;
  size_t arenaBytes_ = 0;  // that the plan needs
  bool inUse_ = true;
  std::vector<at::Tensor> tensors_;
  std::vector<void*> buffers_;
  c10::Storage scratch_;
  size_t bytes_ = 0;  // apart from the arena
};

// Workspaces that no run uses. Runs at the same time, by several threads or inside of each other, have one each.
class IdleWorkspaces {
 public:
  std::unique_ptr<Workspace> take(const WorkspacePlan& plan);
  void give(std::unique_ptr<Workspace> workspace);

 private:
  static constexpr size_t kMost = 2;
  static constexpr int kMostMoves = 8;
  static constexpr size_t kMostBytes = size_t{1} << 30;  // of one that is kept
  std::mutex lock_;
  std::vector<std::unique_ptr<Workspace>> idle_;
  int moves_ = 0;  // to larger arenas
  uint64_t madeBefore_ = 0;  // how many arenas there were when a larger one was looked for
};

}  // namespace saker::runtime
