// What is made when it is first needed, by code of Python's (an import, say). A static of C++ would not do: whoever
// makes it may let other threads run in between, and one of these would wait for it while it holds the interpreter's
// lock.
#pragma once

#include <Python.h>

#include <memory>

namespace saker::watch {

// Under the interpreter's lock; never destroyed.
template <typename T>
class Once {
 public:
  template <typename Make>
  const T& get(Make make) {
    if (made_) return *made_;
    std::unique_ptr<const T> fresh(new T(make()));
    if (!made_) made_ = fresh.release();  // another thread may have been faster
    return *made_;
  }

 private:
  const T* made_ = nullptr;
};

// nullptr, and no error: it is not there.
inline PyObject* importedAttribute(const char* module, const char* name) {
  PyObject* found = PyImport_ImportModule(module);
  PyObject* attribute = found ? PyObject_GetAttrString(found, name) : nullptr;
  Py_XDECREF(found);
  if (!attribute) PyErr_Clear();
  return attribute;
}

}  // namespace saker::watch
