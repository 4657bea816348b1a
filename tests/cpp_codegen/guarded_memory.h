// Memory between pages that cannot be touched: an access behind its end (or before its beginning) crashes the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace saker::codegen {

class GuardedMemory {
 public:
  // The bytes end where a forbidden page begins, or begin where one ends.
  GuardedMemory(size_t bytes, bool atEnd) : bytes_(bytes) {
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t inside = (bytes + page - 1) / page * page;
    mapped_ = inside + 2 * page;
    base_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (inside) mprotect(base_ + page, inside, PROT_READ | PROT_WRITE);
    data_ = base_ + page + (atEnd ? inside - bytes : 0);
  }
  ~GuardedMemory() { munmap(base_, mapped_); }
  GuardedMemory(const GuardedMemory&) = delete;

  char* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  size_t bytes_, mapped_;
  char* base_;
  char* data_;
};

}  // namespace saker::codegen
