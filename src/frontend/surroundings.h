// The state of PyTorch and of the interpreter around a call that is followed without running it. Such a call may be
// given up at any instruction, with everything that it was about to put back left undone: this puts it back.
#pragma once

#include <ATen/ThreadLocalState.h>

#include <vector>

#include "frontend/ambient.h"
#include "watch/ref.h"

namespace saker::frontend {

class Surroundings {
 public:
  Surroundings();
  ~Surroundings();
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;

 private:
  at::ThreadLocalState thread_;
  Flags flags_;
  Ambient before_;
  std::vector<int64_t> order_;  // in which kernels for attention are tried
  int nesting_;                 // of autocast regions
  Ref context_;                 // of context variables: a copy, in which the call may set them
};

}  // namespace saker::frontend
