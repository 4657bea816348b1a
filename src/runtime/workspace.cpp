#include "runtime/workspace.h"

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string_view>
#include <utility>

#include "aten/kept_call.h"
#include "aten/trace_key.h"

namespace saker::runtime {

namespace {

// What operators allocate themselves is given back to the system and taken again, page by page, in one call and not in
// another, as it lies in the heap. The thresholds are those that the C library would reach by itself (32 MiB), and what
// a program of this kind needs again at once.
void keepHeap() {
#ifdef __GLIBC__
  const char* wanted = std::getenv("SAKER_KEEP_MEMORY");
  if (wanted && std::string_view(wanted) == "0") return;
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

constexpr size_t kLargePage = 2 << 20;

void freeBuffer(void* memory) { std::free(memory); }

// Memory that is used in every call lies in large pages where the system has them: fewer places to look up.
c10::Storage allocate(size_t bytes) {
  if (bytes < kLargePage) {
    return at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions().dtype(at::kByte)).storage();
  }
  size_t whole = (bytes + kLargePage - 1) / kLargePage * kLargePage;
  void* memory = std::aligned_alloc(kLargePage, whole);
  if (!memory) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(memory, whole, MADV_HUGEPAGE);
#endif
  return {c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(memory, memory, &freeBuffer, c10::kCPU), nullptr,
          /*resizable=*/false};
}

// Memory of the arena that keeps the arena.
c10::Storage partOf(const c10::Storage& arena, void* memory, size_t bytes) {
  auto release = [](void* kept) { delete static_cast<c10::Storage*>(kept); };
  c10::DataPtr data(memory, new c10::Storage(arena), release, c10::kCPU);
  return {c10::Storage::use_byte_size_t(), bytes, std::move(data), c10::GetCPUAllocator(), /*resizable=*/true};
}

std::atomic<size_t> taken = 0;

// All arenas, in the order in which they were made.
std::mutex arenasLock;
std::atomic<uint64_t> arenasMade = 0;
std::vector<Arena*>& arenas() {
  static auto& all = *new std::vector<Arena*>;  // workspaces may outlive what is static
  return all;
}

}  // namespace

Arena::Arena(size_t bytes) : memory_(allocate(bytes)), bytes_(bytes) { taken += bytes_; }

Arena::~Arena() {
  std::lock_guard held(arenasLock);
  std::erase(arenas(), this);
  taken -= bytes_;
}

// One that is much larger would be kept for a small program.
bool Arena::suits(size_t bytes) const {
  constexpr size_t kTimes = 4;
  return !taken_ && bytes_ >= bytes && bytes_ / kTimes <= bytes;
}

// The largest: so all that may share one come to do so.
std::shared_ptr<Arena> Arena::take(size_t bytes) {
  {
    std::vector<std::shared_ptr<Arena>> found;  // goes when the lock is given back: one may end with it
    std::lock_guard held(arenasLock);
    size_t best = 0;
    for (Arena* each : arenas()) {
      if (!each->suits(bytes)) continue;
      std::shared_ptr<Arena> living = each->weak_from_this().lock();
      if (!living) continue;
      found.push_back(std::move(living));
      if (found.back()->bytes_ > found[best]->bytes_) best = found.size() - 1;
    }
    if (!found.empty()) {
      found[best]->taken_ = true;
      return found[best];
    }
  }
  auto made = std::make_shared<Arena>(bytes);
  std::lock_guard held(arenasLock);
  arenas().push_back(made.get());
  ++arenasMade;
  return made;
}

bool Arena::tryTake() {
  std::lock_guard held(arenasLock);
  return !std::exchange(taken_, true);
}

void Arena::give() {
  std::lock_guard held(arenasLock);
  taken_ = false;
}

bool Arena::isSurpassed(size_t bytes) const {
  std::lock_guard held(arenasLock);
  return std::any_of(arenas().begin(), arenas().end(),
                     [&](const Arena* each) { return each->bytes_ > bytes_ && each->suits(bytes); });
}

void keepMemory() {
  static const bool once = (keepHeap(), true);
  (void)once;
}

Workspace::Workspace(const WorkspacePlan& plan) {
  c10::InferenceMode ordinary(false);
  aten::RunForReal real;
  std::vector<c10::Storage> storages;
  c10::Storage arena;
  if (plan.bytes > 0) {
    arena_ = Arena::take(plan.bytes);
    arenaBytes_ = plan.bytes;
    arena = arena_->memory();
    for (const Block& block : plan.buffers) {
      buffers_.push_back(static_cast<char*>(arena.mutable_data()) + block.offset);
      storages.push_back(partOf(arena, buffers_.back(), block.bytes));
    }
  }
  for (const WorkspacePlan::Place& place : plan.places) {
    Geometry told = geometryOf(*place.type, {});
    told.offset = 0;
    tensors_.push_back(tensorOver(storages[place.buffer], *place.type, told));
  }
  if (arena) {  // behind those of the places: what keeps the arena where no value lies in it
    tensors_.push_back(at::empty({0}, at::TensorOptions().dtype(at::kByte)));
    tensors_.back().unsafeGetTensorImpl()->set_storage_keep_dtype(arena);
  }
  calls.resize(plan.calls);
}

Workspace::~Workspace() {
  give();
  taken -= bytes_;
}

bool Workspace::tryTake() {
  if (arena_ && !arena_->tryTake()) return false;
  return inUse_ = true;
}

void Workspace::give() {
  if (std::exchange(inUse_, false) && arena_) arena_->give();
}

void Workspace::add(size_t bytes) {
  bytes_ += bytes;
  taken += bytes;
}

size_t Workspace::allBytes() { return taken; }

void* Workspace::scratch(size_t bytes) {
  size_t had = scratch_ ? scratch_.nbytes() : 0;
  if (had < bytes) {
    c10::InferenceMode ordinary(false);
    aten::RunForReal real;
    scratch_ = allocate(bytes);
    add(bytes - had);
  }
  return scratch_.mutable_data();
}

std::unique_ptr<Workspace> IdleWorkspaces::take(const WorkspacePlan& plan) {
  std::unique_ptr<Workspace> left;  // goes when the lock is given back
  {
    std::lock_guard held(lock_);
    const uint64_t made = arenasMade;
    const bool look = std::exchange(madeBefore_, made) != made && moves_ < kMostMoves;
    for (size_t i = idle_.size(); i-- > 0;) {
      bool moves = look && idle_[i]->shouldMove();
      if (!moves && !idle_[i]->tryTake()) continue;
      std::unique_ptr<Workspace> workspace = std::move(idle_[i]);
      idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i));
      if (!moves) return workspace;
      ++moves_;
      left = std::move(workspace);
      break;
    }
  }
  left.reset();
  return std::make_unique<Workspace>(plan);
}

void IdleWorkspaces::give(std::unique_ptr<Workspace> workspace) {
  workspace->give();
  std::lock_guard held(lock_);
  if (idle_.size() < kMost && workspace->bytes() <= kMostBytes) idle_.push_back(std::move(workspace));
}

}  // namespace saker::runtime
