#include "capture/undo.h"

#include <ATen/ops/expand.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "aten/version_counter.h"

namespace saker::tracing {

void Undo::noteWrite(const at::Tensor& tensor, uint32_t counted) {
  if (!seenWritten_.emplace(tensor.unsafeGetTensorImpl(), true).second) return;
  Written entry{tensor, 0, nullptr, 0, tensor.requires_grad()};
  if (!tensor.is_inference()) entry.version = static_cast<int64_t>(tensor._version()) - counted;
  if (torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(tensor)) {
    entry.gradFn = meta->grad_fn_;
    entry.outputNumber = meta->output_nr_;
  }
  written_.push_back(std::move(entry));
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
  if (tensor.is_inference()) return 0;
  int64_t writes = 0;
  for (const Written& entry : written_) {
    bool same = entry.tensor.is_same(tensor) || aten::sharesVersion(entry.tensor, tensor);  // a view of it was written
    if (same) writes = std::max(writes, tensor._version() - entry.version);
  }
  return static_cast<uint32_t>(writes);
}

void Undo::absorb(Undo& inner, const std::function<bool(const at::Tensor& written)>& isGone) {
  for (Written& entry : inner.written_) {
    if (isGone(entry.tensor) || !seenWritten_.emplace(entry.tensor.unsafeGetTensorImpl(), true).second) continue;
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
  inner = Undo();
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
  // From the last one on: tensors that share a version counter met it at different times.
  for (auto each = written_.rbegin(); each != written_.rend(); ++each) {
    const Written& entry = *each;
    if (!entry.tensor.is_inference()) {
      c10::VariableVersion shared = entry.tensor.unsafeGetTensorImpl()->version_counter();
      shared.set_version(entry.version);
    }
    torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(entry.tensor);
    if (!meta || meta->grad_fn_ == entry.gradFn) continue;
    meta->grad_fn_ = entry.gradFn;
    meta->output_nr_ = entry.outputNumber;
    meta->requires_grad_ = entry.gradFn ? false : entry.requiresGrad;
  }
  written_.clear();
  leaves_.clear();
  seenWritten_.clear();
  seenLeaf_.clear();
}

}  // namespace saker::tracing
