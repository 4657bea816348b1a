// Parameters and classes of named tuples that the call makes. A parameter is what its tensor becomes in the graph; the
// class of a named tuple is made again, by the same call, where it is needed to cook a result.

#include "frontend/kinds.h"
#include "frontend/recorder.h"
#include "host/objects.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

PyTypeObject* parameterType() {
  static constinit watch::Once<PyObject*> found;
  return reinterpret_cast<PyTypeObject*>(found.get([] { return watch::importedAttribute("torch.nn", "Parameter"); }));
}

bool isMakeSubclass(PyObject* callable) {
  if (!PyCFunction_Check(callable)) return false;
  static const PyMethodDef* const known = [] {
    Ref found = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensorClass()), "_make_subclass"));
    if (!found) PyErr_Clear();
    return found && PyCFunction_Check(found.get()) ? reinterpret_cast<PyCFunctionObject*>(found.get())->m_ml : nullptr;
  }();
  return known && reinterpret_cast<PyCFunctionObject*>(callable)->m_ml == known;
}

// become(tensor, class, requires_grad): what torch.Tensor._make_subclass does to the tensor that it has detached.
PyObject* become(PyObject*, PyObject* const* args, Py_ssize_t) {
  const at::Tensor& tensor = tensorOf(args[0]);
  tensor.unsafeGetTensorImpl()->set_allow_tensor_metadata_change(true);
  tensor.unsafeGetTensorImpl()->set_requires_grad(args[2] == Py_True);
  if (PyObject_SetAttrString(args[0], "__class__", args[1]) < 0) return nullptr;
  return Py_NewRef(Py_None);
}

PyObject* becomeFunction() {
  static PyMethodDef method = {"become", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&become)),
                               METH_FASTCALL, nullptr};
  static PyObject* const function = PyCFunction_New(&method, nullptr);
  return function;
}

bool isText(PyObject* object) { return PyUnicode_CheckExact(object); }

// Names of fields as a tuple, or as they are.
Ref fieldsOf(PyObject* fields) {
  if (isText(fields)) return Ref::borrow(fields);
  if (!PyList_CheckExact(fields) && !PyTuple_CheckExact(fields)) return {};
  for (Py_ssize_t i = 0; i < Py_SIZE(fields); ++i) {
    if (!isText(PySequence_Fast_ITEMS(fields)[i])) return {};
  }
  return Ref::steal(PySequence_Tuple(fields));
}

}  // namespace

bool makesSubclass(PyObject* callable) { return isMakeSubclass(callable); }

std::optional<bool> Recorder::makesParameter(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names) {
  if (!isMakeSubclass(callable)) return std::nullopt;
  static PyObject* const dispatch = PyUnicode_InternFromString("__torch_dispatch__");
  auto* plain = tensorClass();
  auto* type = !args.empty() && PyType_Check(args[0]) ? reinterpret_cast<PyTypeObject*>(args[0]) : nullptr;
  bool known = type && !names && args.size() > 1 && args.size() <= 3 && PyType_IsSubtype(type, parameterType()) &&
               type->tp_basicsize == plain->tp_basicsize && !madeClass(args[0]) &&
               lookUp(type, dispatch) == lookUp(plain, dispatch) && isTensor(args[1]) &&
               (Py_TYPE(args[1]) == plain || Py_TYPE(args[1]) == parameterType()) &&
               (args.size() < 3 || PyBool_Check(args[2]));
  if (!known) return stop(Why::SubclassUnknown);
  if (speculative_) return stop(Why::AttemptMakesParameter);
  return true;
}

void Recorder::becomesParameter(PyObject* tensor) {
  const at::Tensor& real = tensorOf(tensor);
  if (!tape_.computed(real)) return tape_.spoil(Why::ParameterOfUnknown);
  kept_.push_back(Ref::borrow(tensor));
  leaves_.insert(tensor);
  parameters_.insert(tensor);
  PyObject* flag = real.requires_grad() ? Py_True : Py_False;
  if (!hosts(becomeFunction(), {tensor, reinterpret_cast<PyObject*>(Py_TYPE(tensor)), flag}, nullptr)) return;
  hosted_->call->sets = hosted_->call->repeatable = true;
  hosted(Py_None);
}

// namedtuple(typename, field_names, *, rename=False, defaults=None, module=None)
bool Recorder::makesNamedTuple(PyObject* function, const watch::Arguments& arguments) {
  if (arguments.positional != 2 || !isPartOf(function, "namedtuple", "collections/__init__.py")) return false;
  PyObject *name = arguments.values[0], *given = arguments.values[1];
  Ref fields = isText(name) ? fieldsOf(given) : Ref();
  if (speculative_ || !fields || !realize(given, true)) return false;
  Ref keywords = Ref::steal(PyDict_New());
  for (Py_ssize_t i = 0; arguments.names && i < PyTuple_GET_SIZE(arguments.names); ++i) {
    PyObject* key = PyTuple_GET_ITEM(arguments.names, i);
    PyObject* value = arguments.values[arguments.positional + static_cast<size_t>(i)];
    Ref copy = Ref::borrow(value);
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) {  // of defaults
      if (!realize(value, false)) return false;
      copy = Ref::steal(PySequence_Tuple(value));
    } else if (!isAtom(value)) {
      return false;
    }
    PyDict_SetItem(keywords.get(), key, copy.get());
  }
  naming_ = NamedClass{Ref::borrow(function), Ref::steal(PyTuple_Pack(2, name, fields.get())), keywords};
  hiding_ = function;
  return true;
}

// It says which module it belongs to by the frame that made it.
void Recorder::namedTuple(PyObject* type) {
  NamedClass made = std::move(*naming_);
  naming_.reset();
  Ref module = Ref::steal(PyObject_GetAttrString(type, "__module__"));
  if (!module || !isText(module.get())) return PyErr_Clear();
  PyDict_SetItemString(made.keywords.get(), "module", module.get());
  kept_.push_back(Ref::borrow(type));
  madeClasses_.insert(type);
  namedClasses_.emplace(type, std::move(made));
}

}  // namespace saker::frontend
