// Tensors that are made of others: making one, and taking it apart, are operators of the graph that call the class
// again. So is a torch.autograd.Function: its forward and backward are code of the user that runs whenever it would.

#include <algorithm>

#include "frontend/higher_order.h"
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "frontend/wrapped.h"

#include "host/objects.h"
namespace saker::frontend {

namespace {

class Wrappers final : public SubjectOf<Wrappers> {
 public:
  using SubjectOf::SubjectOf;

  Answer calls(PyObject* callable, const Values& args, PyObject* names) override;
  // An attribute of one that was made here.
  Answer readsAttribute(PyObject* owner, PyObject* name) override;
  // What one from outside is made of.
  void found(uint32_t place, PyObject* object) override;
};

}  // namespace

Answer Wrappers::calls(PyObject* callable, const Values& args, PyObject* names) {
  if (higher_order::appliesFunction(callable)) {
    if (higher_order::inTransform()) return stop({Why::CallsUnknown, Operations::name(callable)});
    if (!subjects().arrays.hostsUserCode(callable, args, names, /*keeps=*/true)) return false;
    hide(calling());
    return true;
  }
  if (!PyType_Check(callable) || !isWrapperClass(reinterpret_cast<PyTypeObject*>(callable))) return std::nullopt;
  if (!watchWrappers()) return stop(Why::WrapperUnderMode);
  if (!subjects().arrays.hosts(callable, args, names)) return false;
  subjects().arrays.hosting()->wraps = subjects().arrays.hosting()->repeatable = true;
  hide(calling());
  return true;
}

Answer Wrappers::readsAttribute(PyObject* owner, PyObject* name) {
  if (!isTensor(owner) || placeOf(owner) != kInside || !isWrapperClass(Py_TYPE(owner))) return std::nullopt;
  PyObject* dict = instanceDict(owner);
  PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  if (!value || !isTensor(value) || tape().made(tensorOf(value)) || placeOf(value) != kInside) {
    return std::nullopt;
  }
  static PyObject* const getAttribute = PyDict_GetItemString(PyEval_GetBuiltins(), "getattr");
  if (!subjects().arrays.hosts(getAttribute, {owner, name}, nullptr)) return false;
  subjects().arrays.hosting()->wraps = subjects().arrays.hosting()->repeatable = true;
  return true;
}

// Its class may look at all of it.
void Wrappers::found(uint32_t place, PyObject* object) {
  if (!isTensor(object) || !isWrapperClass(Py_TYPE(object))) return;
  if (speculative() || !watchWrappers()) {
    tape().spoil(Why::WrapperFound);
    return;
  }
  PyObject* dict = instanceDict(object);
  Ref items = dict ? Ref::steal(PyDict_Items(dict)) : Ref();
  for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    PyObject* value = PyTuple_GET_ITEM(item, 1);
    read(GuardOp::Attribute, place, PyTuple_GET_ITEM(item, 0), 0, value);
    realize(value, true);
  }
}

std::unique_ptr<Subject> makeWrappers(Recorder& recorder) { return std::make_unique<Wrappers>(recorder); }

}  // namespace saker::frontend
