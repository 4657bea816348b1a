// Eager mode's backward raises where a tensor that it saved was written since. Here a backward may read another tensor,
// or a copy: so what eager mode would check is noted while the joint graph is captured, and checked beside.
#pragma once

#include <c10/core/TensorImpl.h>

#include <functional>
#include <unordered_map>
#include <vector>

#include "aot/joint.h"
#include "aot/paths.h"
#include "autograd/partition.h"

namespace saker::aot {

// Sees what the backward of a capture reads.
class SavedReads {
 public:
  // Only what was there before the backward counts: parameters and nodes of smaller numbers.
  SavedReads(tracing::Trace& trace, size_t parameters, uint32_t nodes)
      : trace_(trace), parameters_(parameters), nodes_(nodes) {}

  // A tensor that the caller sees after the call.
  void addVisible(const at::Tensor& tensor, VersionCheck::Counter counter);
  // An operator of the backward is about to read a tensor.
  void note(const at::Tensor& read, const tracing::ReadAs* as);
  // The first visible tensor that counts writes with this one, which is visible too.
  VersionCheck::Counter counterOf(const at::Tensor& visible) const;
  // How many were noted; forgets what was noted since there were so many.
  size_t count() const { return reads_.size(); }
  void forgetSince(size_t count) {
    reads_.erase(reads_.begin() + static_cast<std::ptrdiff_t>(count), reads_.end());
    reader_ = nullptr;
  }
  std::vector<VersionCheck> checks(const Paths& paths) const;

 private:
  struct Read {
    const torch::autograd::Node* reader;
    VersionCheck check;
  };

  void add(const at::Tensor& read, const tracing::ReadAs* as);

  tracing::Trace& trace_;
  const torch::autograd::Node* reader_ = nullptr;  // the last one
  size_t parameters_;
  uint32_t nodes_;
  std::unordered_map<const c10::StorageImpl*, std::vector<std::pair<at::Tensor, VersionCheck::Counter>>> visible_;
  std::vector<Read> reads_;
};

// What the caller can write to after a call, and where eager mode would notice it.
std::vector<autograd::Writable> writableAfter(const Joint& joint);

// Version counters as a call leaves them.
class Versions {
 public:
  Versions() = default;
  // `tensors` by number.
  Versions(const Joint& joint, const std::vector<at::Tensor>& tensors);
  using EdgeOf = std::function<torch::autograd::Edge(size_t gradient)>;  // of the stage
  // Throws eager mode's error if a backward with these tangents and gradients of a stage reads what was written since.
  void check(const Joint& joint, const Joint::Stage& stage, const sym::Assignment& symbols, const EdgeOf& edgeOf,
             const std::vector<bool>& given, const std::vector<bool>& wanted) const;

 private:
  struct Expected {
    c10::VariableVersion counter;
    uint32_t version;
    bool counts;
  };
  std::vector<Expected> expected_;  // by check
};

}  // namespace saker::aot
