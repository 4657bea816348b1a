#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "frontend/wrapped.h"
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

// A view that was made while autograd was off requires grad only because what it is a view of does.
bool isLeaf(const at::Tensor& tensor) {
  const torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta && meta->requires_grad_ && tensor.is_leaf();
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

Answer MadeObjects::calls(PyObject* callable, const Values& args, PyObject* names) {
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
  if (speculative()) return stop(Why::AttemptMakesParameter);
  return true;
}

void MadeObjects::becomesParameter(PyObject* tensor) {
  const at::Tensor& real = tensorOf(tensor);
  if (!tape().computed(real)) return tape().spoil(Why::ParameterOfUnknown);
  keep(Ref::borrow(tensor));
  leaves_.insert(tensor);
  parameters_.insert(tensor);
  PyObject* flag = real.requires_grad() ? Py_True : Py_False;
  if (!subjects().arrays.hosts(becomeFunction(), {tensor, reinterpret_cast<PyObject*>(Py_TYPE(tensor)), flag}, nullptr))
    return;
  subjects().arrays.hosting()->sets = subjects().arrays.hosting()->repeatable = true;
  subjects().arrays.hosted(Py_None);
}

// namedtuple(typename, field_names, *, rename=False, defaults=None, module=None)
Answer MadeObjects::callsFunction(PyObject* function, const watch::Arguments& arguments) {
  if (arguments.positional != 2 || !isPartOf(function, "namedtuple", "collections/__init__.py")) return std::nullopt;
  PyObject *name = arguments.values[0], *given = arguments.values[1];
  Ref fields = isText(name) ? fieldsOf(given) : Ref();
  if (speculative() || !fields) return std::nullopt;
  if (!realize(given, true)) return false;
  Ref keywords = Ref::steal(PyDict_New());
  for (Py_ssize_t i = 0; arguments.names && i < PyTuple_GET_SIZE(arguments.names); ++i) {
    PyObject* key = PyTuple_GET_ITEM(arguments.names, i);
    PyObject* value = arguments.values[arguments.positional + static_cast<size_t>(i)];
    Ref copy = Ref::borrow(value);
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) {  // of defaults
      if (!realize(value, false)) return false;
      copy = Ref::steal(PySequence_Tuple(value));
    } else if (!isAtom(value)) {
      return std::nullopt;
    }
    PyDict_SetItem(keywords.get(), key, copy.get());
  }
  naming_ = NamedClass{Ref::borrow(function), Ref::steal(PyTuple_Pack(2, name, fields.get())), keywords};
  hide(function);
  return true;
}

// It says which module it belongs to by the frame that made it.
void MadeObjects::namedTuple(PyObject* type) {
  NamedClass made = std::move(*naming_);
  naming_.reset();
  Ref module = Ref::steal(PyObject_GetAttrString(type, "__module__"));
  if (!module || !isText(module.get())) return PyErr_Clear();
  PyDict_SetItemString(made.keywords.get(), "module", module.get());
  keep(Ref::borrow(type));
  classes_.insert(type);
  namedClasses_.emplace(type, std::move(made));
}

// Has the program used it, or a tensor that autograd sees as a view of the same one?
bool MadeObjects::usedBefore(const at::Tensor& tensor) const {
  if (tape().made(tensor)) return true;
  auto baseOf = [](const at::Tensor& each) { return each.is_view() ? each._base() : each; };
  return std::any_of(tape().inputs().begin(), tape().inputs().end(), [&](const tracing::Tape::Input& input) {
    return (input.tensor.is_view() || tensor.is_view()) && baseOf(input.tensor).is_same(baseOf(tensor));
  });
}

bool MadeObjects::setsRequiresGrad(PyObject* tensor, PyObject* flag) {
  static PyObject* const set = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__setattr__");
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  // Of a transform of torch.func: the operators below are what counts.
  if (tensorOf(tensor).unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::FuncTorchGradWrapper)) {
    return true;
  }
  const at::Tensor& real = tensorOf(tensor);
  if (flag == Py_True && real.requires_grad() && !real.is_leaf()) return true;  // it does
  if (!PyBool_Check(flag) || !real.is_leaf() || !(real.is_floating_point() || real.is_complex())) {
    return stop(Why::SetsRequiresGrad);
  }
  if (placeOf(tensor) == kInside) return makesLeaf(tensor, flag);
  if (usedBefore(real)) return stop(Why::SetsRequiresGradOfUsed);
  if (!effect(set, {tensor, name, flag})) return false;
  effects().list().back().early = true;
  histories_.push_back(tensor);
  return true;
}

bool MadeObjects::callsBetween(PyObject* method, const Values& args) {
  if (!subjects().arrays.hosts(method, args, nullptr)) return false;
  subjects().arrays.hosting()->sets = subjects().arrays.hosting()->repeatable = true;
  subjects().arrays.hosting()->wraps = isWrapperClass(Py_TYPE(args[0]));  // its class is not asked
  subjects().arrays.hosted(Py_None);
  return !stopped();
}

// A tensor that the call made: the replay tells autograd at the same place.
bool MadeObjects::makesLeaf(PyObject* tensor, PyObject* flag) {
  static PyObject* const require = PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensorClass()), "requires_grad_");
  if (speculative()) return stop(Why::SetsRequiresGradOfMade);
  if (!tape().computed(tensorOf(tensor))) return stop(Why::SetsRequiresGradOfUnknown);
  if (leaves_.insert(tensor).second) keep(Ref::borrow(tensor));
  return callsBetween(require, {tensor, flag});
}

bool MadeObjects::detaches(PyObject* tensor) {
  static PyObject* const detach = PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensorClass()), "detach_");
  static PyObject* const isView = PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensorClass()), "_is_view");
  const at::Tensor& real = tensorOf(tensor);
  c10::DispatchKeySet keys = real.unsafeGetTensorImpl()->key_set();
  if (keys.has(c10::DispatchKey::Python)) return stop({Why::DetachesInPlace, "a tensor that is made of others"});
  if (keys.has(c10::DispatchKey::FuncTorchGradWrapper) || keys.has(c10::DispatchKey::FuncTorchBatched)) {
    return stop({Why::DetachesInPlace, "a tensor of a transform of torch.func"});
  }
  if (real._fw_grad(0).defined()) return stop({Why::DetachesInPlace, "a tensor with a tangent"});
  tape().detaches(real);
  bool outside = placeOf(tensor) != kInside;
  if (outside && !subjects().flags.asks(isView, {tensor})) return false;
  // A view raises. Whether a tensor requires grad is guarded, or follows from what is.
  if (real.is_view() || !real.requires_grad()) return true;
  if (speculative()) return stop({Why::DetachesInPlace, "a tensor that requires grad"});
  if (!outside && !tape().computed(real)) return stop({Why::DetachesInPlace, "a tensor that no operator made"});
  if (outside) histories_.push_back(tensor);
  // An operator that may fail is a place where the program may end before this.
  if (!outside || usedBefore(real) || tape().risk().any) return callsBetween(detach, {tensor});
  if (!effect(detach, {tensor})) return false;
  effects().list().back().early = true;
  return true;
}

bool MadeObjects::called(PyObject*, PyObject* result, bool spread) {
  if (!naming_ || spread) return false;
  namedTuple(result);
  return true;
}

bool MadeObjects::gave(PyObject* callable, PyObject* result, size_t arguments) {
  if (isTensor(result) && isMakeSubclass(callable)) {
    becomesParameter(result);
    return true;
  }
  // Functions that make tensors tell autograd themselves.
  if (isTensor(result) && isLeaf(tensorOf(result)) && !leaves_.contains(result) && placeOf(result) == kInside &&
      tape().computed(tensorOf(result))) {
    makesLeaf(result, Py_True);
    return true;
  }
  if (!PyType_Check(result) || (callable == reinterpret_cast<PyObject*>(&PyType_Type) && arguments == 1)) return false;
  bool makes = PyCFunction_Check(callable) ||
               (PyType_Check(callable) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(callable), &PyType_Type));
  if (makes && (Py_TYPE(callable) == &PyType_Type || !PyCFunction_Check(callable) ||
                nameOf(callable) == "__build_class__" || nameOf(callable) == "__new__")) {
    keep(Ref::borrow(result));
    classes_.insert(result);
  }
  return false;
}

}  // namespace saker::frontend
