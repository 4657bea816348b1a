#include "runtime/arena.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include "aten/trace_key.h"

namespace saker::runtime {

Arena::Arena(const ArenaPlan& plan) {
  c10::InferenceMode ordinary(false);
  aten::RunForReal real;
  std::vector<c10::Storage> storages;
  for (size_t bytes : plan.buffers) {
    bytes_ += bytes;
    storages.push_back(at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions().dtype(at::kByte)).storage());
  }
  for (const ArenaPlan::Place& place : plan.places) {
    Geometry told = geometryOf(*place.type, {});
    told.offset = 0;
    tensors_.push_back(tensorOver(storages[place.buffer], *place.type, told));
  }
}

std::unique_ptr<Arena> IdleArenas::take(const ArenaPlan& plan) {
  {
    std::lock_guard held(lock_);
    if (!idle_.empty()) {
      std::unique_ptr<Arena> arena = std::move(idle_.back());
      idle_.pop_back();
      return arena;
    }
  }
  return std::make_unique<Arena>(plan);
}

void IdleArenas::give(std::unique_ptr<Arena> arena) {
  std::lock_guard held(lock_);
  if (idle_.size() < kMost && arena->bytes() <= kMostBytes) idle_.push_back(std::move(arena));
}

}  // namespace saker::runtime
