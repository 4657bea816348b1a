// A trace that records the body of a node: what it asks of the recording around it, and what it leaves there.
#include <algorithm>

#include "capture/errors.h"
#include "capture/trace.h"
#include "capture/undo.h"
#include "ops/operator.h"

namespace saker::tracing {

Trace::Trace(Recording& outer, ir::Region* body)
    : Recording(outer, body),
      mode_(Mode::Capture),
      around_(dynamic_cast<Trace*>(&outer)),
      undo_(std::make_unique<Undo>()) {
  if (!around_) {
    if (host().othersRun()) undo_->countByOperators();
    return;
  }
  undo_->countLike(*around_->undo_);
  lastLocation_ = around_->lastLocation_;
  mayBeEager_ = around_->mayBeEager_;
  readObserver_ = around_->readObserver_;
}

bool Trace::isWithin(const Trace& other) const {
  for (const Trace* level = this; level; level = level->around_) {
    if (level == &other) return true;
  }
  return false;
}

// In the program itself, all stand-ins that arrive are its own.
bool Trace::owns(const c10::TensorImpl& tensor) const {
  const TraceTensor* own = traceTensor(tensor);
  if (!outer()) return own;
  if (own && own->value() && own->trace().get() == this) return true;
  const TraceStorage* storage = pendingStorage(tensor);
  return storage && storage->trace().get() == this;
}

ir::Value* Trace::valueAround(const at::Tensor& tensor) {
  const Trace* program = around_;
  while (program && program->around_) program = program->around_;
  // What others may write at any time cannot wait, and a body of a deferred block does.
  if (program && program->mode_ == Mode::Deferred && program->isExposed(tensor)) {
    raise({ops::Reason::Unsupported, "a body uses memory that something outside of PyTorch may write at any time"});
  }
  ir::Value* value = outer()->lend(tensor);
  auto isIt = [&](const auto& each) { return each.first == value; };
  if (std::none_of(lent_.begin(), lent_.end(), isIt)) lent_.emplace_back(value, tensor);
  return value;
}

// Tensors of the recordings around outlive a body that fails.
void Trace::noteWriteAround(const at::Tensor& tensor, TraceStorage& storage, VersionMoves moves) {
  undo_->noteWrite(tensor, moves);
  if (storage.written()) return;
  writtenAround_.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(&storage));
}

void Trace::enterBody() {
  if (around_) around_->inner_ = this;
}

void Trace::handOver() {
  writtenAround_.clear();
  // On a tape, whoever appends the node runs it, which counts the writes.
  if (!around_) return undo_->restore();
  for (const auto& [storage, written] : written_) {
    around_->written_[storage] = written;
    around_->writtenMemory_.add(*storage);
  }
  if (around_->mode_ == Mode::Capture) {
    around_->undo_->absorb(*undo_, [&](const at::Tensor& written) {
      TraceStorage* storage = pendingStorage(*written.unsafeGetTensorImpl());
      return storage && storage->trace().get() == around_;
    });
  }
  around_->generatorSet_ |= generatorSet_;
  if (!onlyEager_.empty()) around_->noteOnlyEager(onlyEager_);
  around_->stats_.recorded += stats_.recorded;
  around_->stats_.fallbacks += stats_.fallbacks;
  for (const auto& [number, location] : sequences_) around_->sequences_.emplace(number, location);
}

void Trace::endBody(const char* why) {
  if (around_) around_->inner_ = nullptr;
  for (const auto& weak : writtenAround_) {
    c10::intrusive_ptr<c10::StorageImpl> storage = weak.lock();
    if (storage) static_cast<TraceStorage*>(storage.get())->noteWrite(false);
  }
  writtenAround_.clear();
  // Not as an error of the host's: nothing was refused.
  poisonPending(std::make_exception_ptr(CaptureError(why)), why);
  reset(/*dropKeys=*/false);
}

Recording::Restore Trace::checkpoint() {
  return [this, leaves = undo_->leaves().size()](uint32_t first) {
    forgetValues(first);
    undo_->forgetLeaves(leaves);
  };
}

void Trace::forgetValues(uint32_t first) {
  auto isGone = [&](const ir::Value* value) { return value && value->id() >= first; };
  {
    std::lock_guard guard(listLock_);
    for (TraceTensor* tensor = living_; tensor; tensor = tensor->next_) {
      // A body made this level detach it (`.data`): it is again to be detached when it is used.
      while (isGone(tensor->value_) && tensor->value_->def() && tensor->value_->def()->attributes().ownVersion) {
        tensor->value_ = tensor->value_->def()->operand(0);
        tensor->hidesWrites_ = true;
      }
      if (isGone(tensor->value_)) tensor->value_ = nullptr;
    }
  }
  size_t before = inputs_.size();
  while (!inputs_.empty() && isGone(inputs_.back().value)) inputs_.pop_back();
  for (auto each = inputsOf_.begin(); each != inputsOf_.end();) {
    std::erase_if(each->second, [&](const Met& met) { return isGone(met.value); });
    each = each->second.empty() ? inputsOf_.erase(each) : std::next(each);
  }
  if (inputs_.size() == before) return;
  inputMemory_.clear();
  for (const Input& input : inputs_) inputMemory_.add(*input.storage.unsafeGetStorageImpl());
}

}  // namespace saker::tracing
