#include "runtime/guard_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <new>

namespace saker::runtime {

namespace {

std::atomic<GuardPages> mode = GuardPages::Off;

}  // namespace

GuardPages guardPages() { return mode.load(std::memory_order_relaxed); }

bool setGuardPages(std::string_view name) {
  if (name != "" && name != "behind" && name != "before") return false;
  mode = name.empty() ? GuardPages::Off : name == "behind" ? GuardPages::Behind : GuardPages::Before;
  return true;
}

GuardedBuffers::~GuardedBuffers() {
  for (const Copy& each : copies_) munmap(each.base, each.mapped);
}

void* GuardedBuffers::add(const at::Tensor& tensor, bool written) {
  int64_t last = 0;  // strides of tensors are not negative
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  size_t bytes = tensor.numel() == 0 ? 0 : static_cast<size_t>(last + 1) * tensor.element_size();
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t inside = (bytes + page - 1) / page * page;
  Copy made{};
  made.mapped = inside + 2 * page;
  made.base = mmap(nullptr, made.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made.base == MAP_FAILED) throw std::bad_alloc();
  char* begin = static_cast<char*>(made.base) + page;
  made.data = begin + (mode_ == GuardPages::Behind ? inside - bytes : 0);
  made.origin = static_cast<char*>(const_cast<void*>(tensor.const_data_ptr()));
  made.bytes = bytes;
  made.written = written;
  copies_.push_back(made);
  if (!bytes) return made.data;
  mprotect(begin, inside, PROT_READ | PROT_WRITE);
  std::memcpy(made.data, made.origin, bytes);  // what is written too: there may be gaps between its elements
  if (!written) mprotect(begin, inside, PROT_READ);
  return made.data;
}

void GuardedBuffers::copyBack() {
  for (const Copy& each : copies_) {
    if (each.written && each.bytes) std::memcpy(each.origin, each.data, each.bytes);
  }
}

}  // namespace saker::runtime
