#include "python/module_walk.h"

#include <algorithm>

#include "host/errors.h"
#include "host/objects.h"
#include "host/owned.h"
#include "watch/once.h"

namespace saker::python {

namespace {

constexpr size_t kNumbers = 4;  // of a module: its parent, whether it trains, how many parameters and buffers it has

struct Names {
  PyObject* modules = PyUnicode_InternFromString("_modules");
  PyObject* parameters = PyUnicode_InternFromString("_parameters");
  PyObject* buffers = PyUnicode_InternFromString("_buffers");
  PyObject* training = PyUnicode_InternFromString("training");
  PyObject* namedModules = PyUnicode_InternFromString("named_modules");
  PyTypeObject* moduleClass = reinterpret_cast<PyTypeObject*>(watch::importedAttribute("torch.nn", "Module"));
};

const Names& names() {
  static constinit watch::Once<Names> made;
  return made.get([] { return Names(); });
}

// Is it found by torch.nn.Module's own walk, and compared by identity?
bool isOrdinary(PyTypeObject* type) {
  const Names& known = names();
  return PyType_IsSubtype(type, known.moduleClass) && type->tp_hash == PyBaseObject_Type.tp_hash &&
         _PyType_Lookup(type, known.namedModules) == _PyType_Lookup(known.moduleClass, known.namedModules);
}

bool sameName(PyObject* a, PyObject* b) {
  if (a == b) return true;
  int same = PyObject_RichCompareBool(a, b, Py_EQ);
  if (same < 0) throwPythonError();
  return same != 0;
}

}  // namespace

bool ModuleWalk::Layout::operator==(const Layout& other) const {
  return numbers == other.numbers && std::equal(names.begin(), names.end(), other.names.begin(), other.names.end(),
                                                [](const Ref& a, const Ref& b) { return sameName(a.get(), b.get()); });
}

ModuleWalk::ModuleWalk(PyObject* module, PyObject* functional) {
  Ref none = owned(PyUnicode_FromString(""));
  if (add(module, 0, none.get())) {
    tensors.insert(tensors.end(), buffers_.begin(), buffers_.end());
  } else {
    ask(functional);
  }
}

bool ModuleWalk::addTensors(PyObject* dict, std::vector<Ref>& to) {
  Py_ssize_t at = 0;
  PyObject *name = nullptr, *tensor = nullptr;
  while (PyDict_Next(dict, &at, &name, &tensor)) {
    if (tensor == Py_None) continue;
    if (!isTensor(tensor)) return false;
    layout.names.push_back(Ref::borrow(name));
    to.push_back(Ref::borrow(tensor));
  }
  return true;
}

// False: it is to be asked for in Python.
bool ModuleWalk::add(PyObject* module, uint32_t parent, PyObject* name) {
  if (!seen_.insert(module).second) return true;
  if (!isOrdinary(Py_TYPE(module))) return false;
  const Names& known = names();
  Ref dict = owned(PyObject_GenericGetDict(module, nullptr));
  PyObject* modules = PyDict_GetItemWithError(dict.get(), known.modules);
  PyObject* parameters = PyDict_GetItemWithError(dict.get(), known.parameters);
  PyObject* buffers = PyDict_GetItemWithError(dict.get(), known.buffers);
  PyObject* training = PyDict_GetItemWithError(dict.get(), known.training);
  for (PyObject* part : {modules, parameters, buffers}) {
    if (!part || !PyDict_CheckExact(part)) return false;
  }
  if (!training || !PyBool_Check(training)) return false;
  auto index = static_cast<uint32_t>(layout.numbers.size() / kNumbers);
  layout.names.push_back(Ref::borrow(name));
  size_t before = tensors.size(), buffersBefore = buffers_.size();
  if (!addTensors(parameters, tensors) || !addTensors(buffers, buffers_)) return false;
  layout.numbers.insert(layout.numbers.end(),
                        {parent, training == Py_True ? 1u : 0u, static_cast<uint32_t>(tensors.size() - before),
                         static_cast<uint32_t>(buffers_.size() - buffersBefore)});
  Py_ssize_t at = 0;
  PyObject *key = nullptr, *child = nullptr;
  while (PyDict_Next(modules, &at, &key, &child)) {
    if (child != Py_None && !add(child, index, key)) return false;
  }
  return true;
}

void ModuleWalk::ask(PyObject* functional) {
  asked_ = true;
  layout = {};
  tensors.clear();
  Ref flags = owned(PyObject_CallMethod(functional, "flags", nullptr));
  Ref state = owned(PyObject_CallMethod(functional, "state", nullptr));
  Ref all = owned(PySequence_Tuple(flags.get()));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all.get()); ++i) {
    int training = PyObject_IsTrue(PyTuple_GET_ITEM(all.get(), i));
    if (training < 0) throwPythonError();
    layout.numbers.push_back(static_cast<uint32_t>(training));
  }
  addTensors(state.get(), tensors);
}

std::vector<Ref> ModuleWalk::fullNames() const {
  if (asked_) return layout.names;
  std::vector<Ref> paths, parameters, buffers;
  size_t next = 0;
  auto joined = [](const Ref& path, const Ref& name) {
    bool top = PyUnicode_GET_LENGTH(path.get()) == 0;
    return top ? name : owned(PyUnicode_FromFormat("%U.%S", path.get(), name.get()));
  };
  for (size_t i = 0; i < layout.numbers.size(); i += kNumbers) {
    const Ref& name = layout.names[next++];
    paths.push_back(i == 0 ? name : joined(paths[layout.numbers[i]], name));
    Ref path = paths.back();
    for (uint32_t k = 0; k < layout.numbers[i + 2]; ++k) parameters.push_back(joined(path, layout.names[next++]));
    for (uint32_t k = 0; k < layout.numbers[i + 3]; ++k) buffers.push_back(joined(path, layout.names[next++]));
  }
  parameters.insert(parameters.end(), buffers.begin(), buffers.end());
  return parameters;
}

}  // namespace saker::python
