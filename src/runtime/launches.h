// Kernels of groups that do not depend on each other, launched as one: threads share what all of them do, where each
// alone would be too little to share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/kernel.h"

namespace saker::runtime {

// What a part is worth waking a thread for: see lower::Launch::work.
constexpr int64_t kWorkOfTask = 1'500'000;

class Launches {
 public:
  // `steps` of axis 0 are `work` together.
  void add(kernel::Function function, std::span<void* const> buffers, std::span<const int64_t> arguments, int64_t steps,
           int64_t work);
  void run();

 private:
  struct Task {
    kernel::Function function;
    size_t buffers, arguments;  // where its own begin
    int64_t steps;
    int64_t begin, end;  // what comes before it, in work, and with it
  };
  // The part of all that lies between two amounts of work.
  void runPart(int64_t begin, int64_t end) const;

  std::vector<Task> tasks_;
  std::vector<void*> buffers_;
  std::vector<int64_t> arguments_;
};

}  // namespace saker::runtime
