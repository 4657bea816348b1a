// A compiled function that is given the node of a torch.autograd.Function: its backward, compiled by itself. What the
// node has saved is unpacked again before each replay.
#include <torch/csrc/autograd/python_function.h>

#include <algorithm>

#include "aten/torch_version/autograd_node.h"
#include "frontend/kinds.h"
#include "frontend/saved.h"
#include "frontend/subjects/subjects.h"

#include "host/objects.h"
namespace saker::frontend {

namespace {

class Nodes final : public SubjectOf<Nodes> {
 public:
  using SubjectOf::SubjectOf;

  Answer readsDescriptor(PyObject* owner, PyObject* name, PyObject* descriptor, uint32_t place) override;
  void readAttribute(PyObject* owner, PyObject* name, PyObject* value) override;
};

}  // namespace

namespace {

THPFunction* nodeOf(PyObject* object) {
  return PyType_IsSubtype(Py_TYPE(object), &THPFunctionType) ? reinterpret_cast<THPFunction*>(object) : nullptr;
}

bool isNamedAs(PyObject* name, const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }

}  // namespace

bool savesPlainly(PyObject* node) {
  THPFunction* self = nodeOf(node);
  if (!self || !aten::heldNode(self->cdata) || self->has_freed_buffers || self->clear_saved_tensors_on_access)
    return false;
  return std::none_of(self->saved_variables.begin(), self->saved_variables.end(),
                      [](const torch::autograd::SavedVariable& each) { return each.has_hooks(); });
}

Ref savedTensor(PyObject* node, size_t number, PyObject* count) {
  if (!savesPlainly(node)) return {};
  THPFunction* self = nodeOf(node);
  if (PyLong_AsSize_t(PyList_GET_ITEM(count, 0)) != self->saved_variables.size() ||
      number >= self->saved_variables.size())
    return {};
  try {
    return Ref::steal(wrapTensor(self->saved_variables[number].unpack(aten::heldNode(self->cdata))));
  } catch (const std::exception&) {  // written to since, or freed: the program will be told
    PyErr_Clear();
    return {};
  }
}

Answer Nodes::readsDescriptor(PyObject* owner, PyObject* name, PyObject* descriptor, uint32_t place) {
  if (!nodeOf(owner) || place == kInside || written(owner, name)) return std::nullopt;
  if (isNamedAs(name, "saved_tensors")) {
    if (!speculative() && savesPlainly(owner)) return true;
    return stop(Why::ReadsSavedByUser);
  }
  if (!isNamedAs(name, "needs_input_grad")) return std::nullopt;
  Ref value = Ref::steal(PyObject_GenericGetAttr(owner, name));
  PyErr_Clear();
  if (value) read(GuardOp::Computed, place, descriptor, 0, value.get());
  return true;
}

void Nodes::readAttribute(PyObject* node, PyObject* name, PyObject* saved) {
  if (!isNamedAs(name, "saved_tensors") || stopped()) return;
  uint32_t place = placeOf(node);
  if (!nodeOf(node) || place == kInside || !PyTuple_CheckExact(saved)) return;
  if (PyTuple_GET_SIZE(saved) == 0) {
    stop(Why::ReadsSavedNothing);
    return;
  }
  // They are new objects each time that they are read, so that each time has a key of its own.
  PyObject* count = keep(Ref::steal(Py_BuildValue("[n]", PyTuple_GET_SIZE(saved))));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(saved); ++i)
    read(GuardOp::Saved, place, count, i, PyTuple_GET_ITEM(saved, i));
}

std::unique_ptr<Subject> makeNodes(Recorder& recorder) { return std::make_unique<Nodes>(recorder); }

}  // namespace saker::frontend
