// Storages of tensors from outside: which one a tensor has, and its size. What is in one is data, and other calls on it
// are not known.

#include "frontend/subjects/subjects.h"
#include "host/objects.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

class Storages final : public SubjectOf<Storages> {
 public:
  using SubjectOf::SubjectOf;

  Answer calls(PyObject* callable, const Values& args, PyObject* names) override;
};

}  // namespace

namespace {

// The tensor's storage holds the object that shows it to Python.
PyObject* storageOf(PyObject* tensor, void*) {
  const at::Tensor& real = tensorOf(tensor);
  if (!real.has_storage()) Py_RETURN_NONE;
  return wrapStorage(real.storage());
}

// As if it was an attribute of the tensor, so that a guard can look it up.
PyObject* storageAttribute() {
  static PyGetSetDef part = {"untyped_storage()", &storageOf, nullptr, nullptr, nullptr};
  static PyObject* const made = PyDescr_NewGetSet(tensorClass(), &part);
  return made;
}

const void* methodOf(PyObject* callable) {
  if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  return nullptr;
}

}  // namespace

Answer Storages::calls(PyObject* callable, const Values& args, PyObject*) {
  static constinit watch::Once<PyObject*> foundStorage, foundType;
  PyObject* storage = foundStorage.get(
      [] { return PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensorClass()), "untyped_storage"); });
  PyObject* type = foundType.get([] { return watch::importedAttribute("torch", "UntypedStorage"); });
  static PyObject* const count = type ? PyObject_GetAttrString(type, "nbytes") : nullptr;
  const void* method = methodOf(callable);
  bool takes = method && storage && method == methodOf(storage);
  bool counts = method && count && method == methodOf(count);
  if (!takes && !counts) return std::nullopt;
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : args.empty() ? nullptr : args[0];
  if (!self) return true;  // the program will be told
  if (placeOf(self) == kInside) return stop(Why::ReadsStorageOfMade);
  if (counts) return subjects().flags.asks(count, {self});
  if (!isTensor(self) || !tensorOf(self).has_storage()) return stop(Why::ReadsStorage);
  Ref held = Ref::steal(storageOf(self, nullptr));
  read(GuardOp::Computed, placeOf(self), storageAttribute(), 0, held.get());
  // A call that gave the tensor another storage since it was first asked.
  if (placeOf(held.get()) == kInside) return stop(Why::ReadsStorageOfChanged);
  return true;
}

std::unique_ptr<Subject> makeStorages(Recorder& recorder) { return std::make_unique<Storages>(recorder); }

}  // namespace saker::frontend
