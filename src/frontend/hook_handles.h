// The handles of the hooks that a replay registers on tensors. The operator that registers a hook gives its handle
// here; the operator that removes the hook, and what the call returns or stores, find it here by its number.
#pragma once

#include <Python.h>

#include <cstddef>
#include <vector>

#include "watch/ref.h"

namespace saker::frontend {

// While one lives, it is the table of this thread's replay.
class HookHandles {
 public:
  explicit HookHandles(size_t count);
  ~HookHandles();
  HookHandles(const HookHandles&) = delete;
  HookHandles& operator=(const HookHandles&) = delete;

  static void set(size_t number, PyObject* handle);
  // Borrowed; nullptr with an error set, where no hook of this number was registered.
  static PyObject* at(size_t number);

 private:
  std::vector<Ref> handles_;
  HookHandles* before_;
};

}  // namespace saker::frontend
