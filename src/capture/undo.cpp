#include "capture/undo.h"

#include <ATen/ops/expand.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <unordered_set>

#include "aten/version_counter.h"
#include "capture/trace_tensor.h"

namespace saker::tracing {

namespace {

torch::autograd::DifferentiableViewMeta* viewMetaOf(const at::Tensor& tensor) {
  return tensor.is_view() ? torch::autograd::impl::get_view_autograd_meta(tensor) : nullptr;
}

}  // namespace

Undo::Written Undo::asItWas(const at::Tensor& tensor, uint32_t moved) const {
  Written entry{tensor, 0, 0, nullptr, 0, tensor.requires_grad(), 0};
  if (!tensor.is_inference()) entry.version = static_cast<int64_t>(tensor._version()) - moved;
  if (torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(tensor)) {
    entry.gradFn = meta->grad_fn_;
    entry.outputNumber = meta->output_nr_;
  }
  if (torch::autograd::DifferentiableViewMeta* view = viewMetaOf(tensor)) entry.viewVersion = view->get_attr_version();
  return entry;
}

void Undo::noteWrite(const at::Tensor& tensor, VersionMoves moves) {
  if (atOnce_ && isReal(tensor)) aten::takeBackWrites(tensor, moves.before + moves.after);
  // A write to a view is one in the history of what it is a view of.
  if (tensor.is_view() && seenWritten_.emplace(tensor._base().unsafeGetTensorImpl(), written_.size()).second) {
    written_.push_back(asItWas(at::Tensor(tensor._base()), moves.before));
  }
  auto [known, isNew] = seenWritten_.emplace(tensor.unsafeGetTensorImpl(), written_.size());
  if (!isNew) {
    written_[known->second].writes += moves.before + moves.after;
    return;
  }
  written_.push_back(asItWas(tensor, moves.before));
  written_.back().writes = moves.before + moves.after;
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

void Undo::noteView(const at::Tensor& tensor) {
  if (!tensor.is_view()) return;
  views_.push_back(tensor);
  if (seenWritten_.emplace(tensor.unsafeGetTensorImpl(), written_.size()).second) {
    written_.push_back(asItWas(tensor, 0));  // autograd may make its history anew
  }
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
  views_.insert(views_.end(), inner.views_.begin(), inner.views_.end());
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

bool Undo::changesHistories(const std::vector<at::Tensor>& standIns) const {
  return std::any_of(written_.begin(), written_.end(), [&](const Written& entry) {
    const torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(entry.tensor);
    if (!meta || meta->grad_fn_ == entry.gradFn) return false;
    auto isIt = [&](const at::Tensor& each) { return each.is_same(entry.tensor); };
    return isReal(entry.tensor) || std::any_of(standIns.begin(), standIns.end(), isIt);
  });
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
    if (torch::autograd::DifferentiableViewMeta* view = viewMetaOf(entry.tensor)) {
      view->set_attr_version(entry.viewVersion);
    }
    if (!meta || meta->grad_fn_ == entry.gradFn) continue;
    meta->grad_fn_ = entry.gradFn;
    meta->output_nr_ = entry.outputNumber;
    meta->requires_grad_ = entry.gradFn ? false : entry.requiresGrad;
  }
  // Views whose history autograd has made anew behind a write: that version comes again, with another history.
  for (const at::Tensor& each : views_) {
    torch::autograd::DifferentiableViewMeta* view = viewMetaOf(each);
    if (view && view->get_attr_version() > each._version()) view->set_attr_version(UINT32_MAX);
  }
  reset();
}

void Undo::reset() {
  written_.clear();
  leaves_.clear();
  views_.clear();
  seenWritten_.clear();
  seenLeaf_.clear();
}

}  // namespace saker::tracing
