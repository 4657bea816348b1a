#include "codegen/cache.h"

namespace saker::codegen {

std::string keyOf(const std::string& text, Target target, const Options& options) {
  std::string made = "emitter " + std::to_string(kEmitterVersion) + ", " + std::string(info(target).name);
  return made + (options.eagerFunctions ? ", eager functions\n" : "\n") + text;
}

Compiled Cache::find(const std::string& key) {
  std::lock_guard lock(mutex_);
  auto found = byKey_.find(key);
  if (found == byKey_.end()) return {};
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->compiled;
}

void Cache::insert(const std::string& key, const Compiled& compiled) {
  std::lock_guard lock(mutex_);
  if (byKey_.contains(key)) return;  // another thread was faster
  entries_.push_front({key, compiled});
  byKey_.emplace(entries_.front().key, entries_.begin());
  trim();
}

void Cache::setLimit(size_t limit) {
  std::lock_guard lock(mutex_);
  limit_ = limit;
  trim();
}

size_t Cache::size() {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

void Cache::trim() {
  while (entries_.size() > limit_) {
    byKey_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

}  // namespace saker::codegen
