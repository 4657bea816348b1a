#include "frontend/hook_handles.h"

#include <utility>

namespace saker::frontend {

namespace {

HookHandles*& current() {
  static thread_local HookHandles* handles = nullptr;
  return handles;
}

}  // namespace

HookHandles::HookHandles(size_t count) : handles_(count), before_(std::exchange(current(), this)) {}

HookHandles::~HookHandles() { current() = before_; }

void HookHandles::set(size_t number, PyObject* handle) {
  HookHandles* table = current();
  if (table && number < table->handles_.size()) table->handles_[number] = Ref::borrow(handle);
}

PyObject* HookHandles::at(size_t number) {
  HookHandles* table = current();
  PyObject* handle = table && number < table->handles_.size() ? table->handles_[number].get() : nullptr;
  if (!handle) {
    PyErr_SetString(PyExc_RuntimeError,
                    "a hook was not registered by the recorded operators, so there is no handle to remove it; the back "
                    "end must run all operators of the graph, on the thread that calls it");
  }
  return handle;
}

}  // namespace saker::frontend
