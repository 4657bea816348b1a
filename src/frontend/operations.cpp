#include "frontend/operations.h"

#include "frontend/operations_rows.h"
#include "watch/once.h"
#include "watch/ref.h"

namespace saker::frontend {

namespace {

Ref find(const std::string& path) {
  size_t dot = path.rfind('.');
  Ref module = Ref::steal(PyImport_ImportModule(path.c_str()));
  if (module) return module;
  PyErr_Clear();
  if (dot == std::string::npos) return {};
  Ref owner = find(path.substr(0, dot));
  if (!owner) return {};
  Ref found = Ref::steal(PyObject_GetAttrString(owner.get(), path.substr(dot + 1).c_str()));
  if (!found) PyErr_Clear();
  return found;
}

template <typename Visit>
void eachWord(std::string_view words, Visit visit) {
  for (size_t at = 0; at < words.size();) {
    size_t end = std::min(words.find(' ', at), words.size());
    if (end > at) visit(std::string(words.substr(at, end - at)));
    at = end + 1;
  }
}

// An attribute of a type as it stands in its dict, not bound.
Ref raw(PyObject* owner, const std::string& name) {
  if (PyType_Check(owner)) {
    Ref key = Ref::steal(PyUnicode_InternFromString(name.c_str()));
    return Ref::borrow(_PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner), key.get()));
  }
  Ref found = Ref::steal(PyObject_GetAttrString(owner, name.c_str()));
  if (!found) PyErr_Clear();
  return found;
}

PyTypeObject* typeNamed(const std::string& name) {
  static const char* const places[] = {"builtins.", "types.", "collections.", "torch."};
  for (const char* place : places) {
    Ref found = find(place + name);
    if (found && PyType_Check(found.get())) return reinterpret_cast<PyTypeObject*>(found.release());
  }
  return nullptr;
}

}  // namespace

const void* Operations::keyOf(PyObject* callable) {
  if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  if (PyInstanceMethod_Check(callable)) return keyOf(PyInstanceMethod_GET_FUNCTION(callable));
  PyTypeObject* type = Py_TYPE(callable);
  if (type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type) {
    return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  }
  if (type == &PyWrapperDescr_Type) return reinterpret_cast<PyWrapperDescrObject*>(callable);
  return callable;
}

void Operations::put(Behaviour behaviour, PyObject* object) {
  if (!object) return;
  Py_INCREF(object);  // the table lives as long as the process
  calls_.insert_or_assign(keyOf(object), behaviour);
}

void Operations::addAll(Behaviour behaviour, const char* ownerName) {
  Ref owner = find(ownerName);
  if (!owner) return;
  Ref names = Ref::steal(PyObject_Dir(owner.get()));
  for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names.get()); ++i) {
    std::string name = PyUnicode_AsUTF8(PyList_GET_ITEM(names.get(), i));
    if (behaviour == Behaviour::Tensor && known::kNotOperators.find(" " + name + " ") != std::string_view::npos)
      continue;
    Ref found = raw(owner.get(), name);
    if (!found) continue;
    // What a type inherits has its own row.
    if (PyType_Check(owner.get()) && Py_TYPE(found.get()) == &PyWrapperDescr_Type &&
        reinterpret_cast<PyDescrObject*>(found.get())->d_type != reinterpret_cast<PyTypeObject*>(owner.get()) &&
        behaviour != Behaviour::Tensor) {
      continue;
    }
    if (calls_.count(keyOf(found.get()))) continue;
    bool callable = PyCFunction_Check(found.get()) || Py_TYPE(found.get()) == &PyMethodDescr_Type ||
                    Py_TYPE(found.get()) == &PyClassMethodDescr_Type || Py_TYPE(found.get()) == &PyWrapperDescr_Type ||
                    (PyType_Check(found.get()) && !PyType_Check(owner.get()));
    if (callable) put(behaviour, found.get());
  }
}

void Operations::add(Behaviour behaviour, const char* ownerName, std::string_view names) {
  if (names == "*") return addAll(behaviour, ownerName);
  Ref owner = find(ownerName);
  if (!owner) return;
  eachWord(names, [&](const std::string& name) { put(behaviour, raw(owner.get(), name).get()); });
}

Operations::Operations() {
  for (const known::Row& row : known::rows) add(row.behaviour, row.owner, row.names);
  Ref tensor = find("torch._C.TensorBase");
  for (const char* name : known::kTensorAttributes) {
    Ref found = tensor ? raw(tensor.get(), name) : Ref();
    if (found) descriptors_.emplace(Ref(found).release(), Behaviour::Tensor);
  }
  for (const known::Attribute& row : known::attributes) {
    Ref owner = find(row.owner);
    if (!owner) continue;
    eachWord(row.names, [&](const std::string& name) {
      Ref found = raw(owner.get(), name);
      if (found) descriptors_.emplace(found.release(), Behaviour::Pure);
    });
  }
  eachWord(known::kValueTypes, [&](const std::string& name) {
    if (PyTypeObject* type = typeNamed(name)) valueTypes_.emplace(type, true);
  });
  valueTypes_.emplace(&PyDictKeys_Type, true);
  valueTypes_.emplace(&PyDictValues_Type, true);
  valueTypes_.emplace(&PyDictItems_Type, true);
  valueTypes_.emplace(&PyDictProxy_Type, true);
  valueTypes_.emplace(Py_TYPE(Py_None), true);
  valueTypes_.emplace(&PyEllipsis_Type, true);
  valueTypes_.emplace(Py_TYPE(Py_NotImplemented), true);
  for (PyTypeObject* type : {&PyListIter_Type,
                             &PyListRevIter_Type,
                             &PyTupleIter_Type,
                             &PyDictIterKey_Type,
                             &PyDictIterValue_Type,
                             &PyDictIterItem_Type,
                             &PyDictRevIterKey_Type,
                             &PyDictRevIterValue_Type,
                             &PyDictRevIterItem_Type,
                             &PySetIter_Type,
                             &PyRangeIter_Type,
                             &PyUnicodeIter_Type,
                             &PyBytesIter_Type,
                             &PyEnum_Type,
                             &PyZip_Type,
                             &PyMap_Type,
                             &PyFilter_Type,
                             &PyReversed_Type,
                             &PySeqIter_Type,
                             &PyCallIter_Type,
                             &PyLongRangeIter_Type}) {
    iterators_.emplace(type, true);
  }
  Ref itertools = find("itertools");
  Ref names = Ref::steal(PyObject_Dir(itertools.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
    Ref found = raw(itertools.get(), PyUnicode_AsUTF8(PyList_GET_ITEM(names.get(), i)));
    if (found && PyType_Check(found.get()))
      iterators_.emplace(reinterpret_cast<PyTypeObject*>(Ref(found).release()), true);
  }
  // Types that have no name that can be imported.
  Ref globals = Ref::steal(PyDict_New());
  PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
  auto each = [&](const char* objects, auto visit) {
    std::string text = std::string("(lambda c: [type(o) for o in (") + objects + ")])(__import__('collections'))";
    Ref types = Ref::steal(PyRun_String(text.c_str(), Py_eval_input, globals.get(), globals.get()));
    for (Py_ssize_t i = 0; types && i < PyList_GET_SIZE(types.get()); ++i) {
      visit(reinterpret_cast<PyTypeObject*>(Ref::borrow(PyList_GET_ITEM(types.get(), i)).release()));
    }
  };
  each(
      "iter(c.OrderedDict()), iter(c.deque()), reversed(c.deque()), iter(bytearray()), iter('a'), iter('\\u20ac'), "
      "reversed(c.OrderedDict())",
      [&](PyTypeObject* type) { iterators_.emplace(type, true); });
  each("c.OrderedDict().keys(), c.OrderedDict().values(), c.OrderedDict().items()",
       [&](PyTypeObject* type) { valueTypes_.emplace(type, true); });
  PyErr_Clear();
}

const Operations& Operations::table() {
  static constinit watch::Once<Operations> made;
  return made.get([] { return Operations(); });
}

Behaviour Operations::ofCall(PyObject* callable) const {
  auto found = calls_.find(keyOf(callable));
  if (found != calls_.end()) return found->second;
  // A method-wrapper: a slot wrapper bound to an object.
  if (Py_TYPE(callable) == &_PyMethodWrapper_Type) {
    static PyObject* const nameKey = PyUnicode_InternFromString("__name__");
    static PyObject* const ownerKey = PyUnicode_InternFromString("__objclass__");
    Ref name = Ref::steal(PyObject_GetAttr(callable, nameKey));
    Ref owner = Ref::steal(PyObject_GetAttr(callable, ownerKey));
    PyErr_Clear();
    if (name && owner && PyType_Check(owner.get())) {
      PyObject* descriptor = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner.get()), name.get());
      auto bound = calls_.find(descriptor);
      if (bound != calls_.end()) return bound->second;
    }
  }
  if (PyType_Check(callable) && PyExceptionClass_Check(callable)) return Behaviour::Shallow;
  return Behaviour::Unknown;
}

Behaviour Operations::ofDescriptor(PyObject* descriptor) const {
  auto found = descriptors_.find(descriptor);
  return found == descriptors_.end() ? Behaviour::Unknown : found->second;
}

std::string Operations::name(PyObject* callable) {
  Ref name = Ref::steal(PyObject_GetAttrString(callable, "__qualname__"));
  if (!name || !PyUnicode_Check(name.get())) {
    PyErr_Clear();
    return std::string("a ") + Py_TYPE(callable)->tp_name;
  }
  Ref module = Ref::steal(PyObject_GetAttrString(callable, "__module__"));
  PyErr_Clear();
  std::string text = PyUnicode_AsUTF8(name.get());
  // pybind11 says in the name how it was built.
  if (text.starts_with("pybind11_")) text = text.substr(text.rfind('.') + 1);
  // Functions of torch are methods of a class that nobody sees.
  constexpr std::string_view kFunctions = "_VariableFunctionsClass.";
  if (text.starts_with(kFunctions)) text = text.substr(kFunctions.size());
  constexpr std::string_view kBase = "TensorBase.";
  if (text.starts_with(kBase)) text = "Tensor." + text.substr(kBase.size());
  if (module && PyUnicode_Check(module.get())) text = std::string(PyUnicode_AsUTF8(module.get())) + "." + text;
  return text;
}

}  // namespace saker::frontend
