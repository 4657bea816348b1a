// Tensors that are made of others (classes with __tensor_flatten__) in a recording. What is asked of them is an
// operator of the program, and so is making one; what their class does in Python to answer is not watched.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include "capture/host.h"
#include "host/subclass_form.h"

namespace saker::frontend {

// What the tape of a watched call asks of Python. It sees such tensors.
tracing::Host watchedHost();

// From here on this thread's operators on such tensors come to its tape. False: that cannot be, for a mode of the
// program sees them.
bool watchWrappers();

// While one lives a recording may ask for that; in the end nothing is left of it.
class WrappersScope {
 public:
  WrappersScope() = default;
  ~WrappersScope() { leave(); }
  WrappersScope(const WrappersScope&) = delete;
  WrappersScope& operator=(const WrappersScope&) = delete;
  void leave();
};

}  // namespace saker::frontend
