// What runs a recorded tensor program: ahead-of-time autograd, the recording itself, or a back end of the user's.
#pragma once

#include "frontend/segment.h"

namespace saker::frontend {

struct ExecutorOptions {
  bool ahead;
  Ref backend;         // of the user's; empty: none
  bool wraps = false;  // makes tensors of others, or takes them apart
  // Only such as has changed nothing where it fails: nullptr, if there is none.
  bool undone = false;
};

Executor makeExecutor(const std::shared_ptr<runtime::Program>& program, const std::vector<at::Tensor>& inputs,
                      const ExecutorOptions& options);

}  // namespace saker::frontend
