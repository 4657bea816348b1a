#include "capture/undo.h"

#include <ATen/ops/expand.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <unordered_set>

#include "aten/version_counter.h"
#include "capture/trace_tensor.h"

namespace saker::tracing {

void Undo::noteWrite(const at::Tensor& tensor, VersionMoves moves) {
  if (atOnce_ && isReal(tensor)) aten::takeBackWrites(tensor, moves.before + moves.after);
  auto [known, isNew] = seenWritten_.emplace(tensor.unsafeGetTensorImpl(), written_.size());
  if (!isNew) {
    written_[known->second].writes += moves.before + moves.after;
    return;
  }
  Written entry{tensor, 0, moves.before + moves.after, nullptr, 0, tensor.requires_grad()};
  if (!tensor.is_inference()) entry.version = static_cast<int64_t>(tensor._version()) - moves.before;
  if (torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(tensor)) {
    entry.gradFn = meta->grad_fn_;
    entry.outputNumber = meta->output_nr_;
  }
  written_.push_back(std::move(entry));
}

void Undo::neverCounted(const at::Tensor& tensor) {
  if (atOnce_ && isReal(tensor)) torch::autograd::impl::bump_version(tensor);
  auto known = seenWritten_.find(tensor.unsafeGetTensorImpl());
  if (known != seenWritten_.end()) --written_[known->second].writes;
}

// Nobody else has stand-ins.
bool Undo::isReal(const at::Tensor& tensor) { return !pendingStorage(*tensor.unsafeGetTensorImpl()); }

uint32_t Undo::movesOf(const void* counter, const at::Tensor& tensor) const {
  int64_t moved = 0, writes = 0;
  for (const Written& entry : written_) {
    if (aten::counterOf(entry.tensor) != counter) continue;  // not that of a view either
    moved = std::max(moved, static_cast<int64_t>(tensor._version()) - entry.version);
    writes += entry.writes;
  }
  return static_cast<uint32_t>(byOperators_ && isReal(tensor) ? writes : moved);
}

void Undo::noteLeaf(const at::Tensor& tensor) {
  if (!tensor.requires_grad() || !tensor.is_leaf()) return;
  leafOf(tensor);
}

Undo::Leaf& Undo::leafOf(const at::Tensor& tensor) {
  auto [known, isNew] = seenLeaf_.emplace(tensor.unsafeGetTensorImpl(), leaves_.size());
  if (isNew) leaves_.push_back({tensor, tensor.grad(), tensor.grad()});
  return leaves_[known->second];
}

void Undo::noteGradientSet(const at::Tensor& tensor) {
  Leaf& leaf = leafOf(tensor);
  if (!leaf.set) leaf.setFirst = tensor.grad().is_same(leaf.found);
  leaf.set = true;
}

void Undo::expectCleared(const at::Tensor& tensor) {
  Leaf& leaf = leafOf(tensor);
  leaf.saidCleared = true;
  if (leaf.found.defined()) return;
  leaf.found = at::zeros({}, tensor.options().requires_grad(false)).expand(tensor.sizes());
  tensor.mutable_grad() = leaf.found;
}

uint32_t Undo::writesTo(const at::Tensor& tensor) const {
  return tensor.is_inference() ? 0 : movesOf(aten::counterOf(tensor), tensor);
}

void Undo::absorb(Undo& inner, const std::function<bool(const at::Tensor& written)>& isGone) {
  for (Written& entry : inner.written_) {
    if (isGone(entry.tensor)) continue;
    auto [known, isNew] = seenWritten_.emplace(entry.tensor.unsafeGetTensorImpl(), written_.size());
    if (!isNew) {
      written_[known->second].writes += entry.writes;
      continue;
    }
    written_.push_back(std::move(entry));
  }
  for (const Leaf& leaf : inner.leaves_) {
    auto [known, isNew] = seenLeaf_.emplace(leaf.tensor.unsafeGetTensorImpl(), leaves_.size());
    if (isNew) leaves_.push_back(leaf);
    Leaf& mine = leaves_[known->second];
    if (leaf.set && !mine.set) mine.setFirst = leaf.setFirst && leaf.found.is_same(mine.found);
    mine.set |= leaf.set;
    mine.saidCleared |= leaf.saidCleared;
  }
  inner.reset();
}

void Undo::forgetLeaves(size_t first) {
  while (leaves_.size() > first) {
    seenLeaf_.erase(leaves_.back().tensor.unsafeGetTensorImpl());
    leaves_.pop_back();
  }
}

void Undo::restore() {
  for (const Leaf& leaf : leaves_) {
    if (!leaf.tensor.grad().is_same(leaf.grad)) leaf.tensor.mutable_grad() = leaf.grad;
  }
  std::unordered_set<const void*> counters;
  for (const Written& entry : written_) {
    const void* counter = atOnce_ && isReal(entry.tensor) ? nullptr : aten::counterOf(entry.tensor);
    if (counter && counters.insert(counter).second) aten::takeBackWrites(entry.tensor, movesOf(counter, entry.tensor));
  }
  for (auto each = written_.rbegin(); each != written_.rend(); ++each) {
    const Written& entry = *each;
    torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(entry.tensor);
    if (!meta || meta->grad_fn_ == entry.gradFn) continue;
    meta->grad_fn_ = entry.gradFn;
    meta->output_nr_ = entry.outputNumber;
    meta->requires_grad_ = entry.gradFn ? false : entry.requiresGrad;
  }
  reset();
}

void Undo::reset() {
  written_.clear();
  leaves_.clear();
  seenWritten_.clear();
  seenLeaf_.clear();
}

}  // namespace saker::tracing
