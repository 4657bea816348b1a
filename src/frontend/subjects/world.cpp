#include <Python.h>

#include <algorithm>

#include "capture/plain.h"
#include "frontend/higher_order.h"
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "host/objects.h"

namespace saker::frontend {

namespace {

// Numbers and texts, and containers of such: their text is made by C.
bool isPlain(PyObject* object, int depth = 0) {
  if (isAtom(object)) return true;
  if (depth > 8) return false;
  if (PyDict_CheckExact(object)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(object, &position, &key, &value)) {
      if (!isPlain(key, depth + 1) || !isPlain(value, depth + 1)) return false;
    }
    return true;
  }
  bool known = PyList_CheckExact(object) || PyTuple_CheckExact(object) || Py_TYPE(object) == sizeClass();
  if (!known) {
    return PyType_Check(object) && Py_TYPE(object)->tp_repr == PyType_Type.tp_repr &&
           Py_TYPE(object)->tp_str == PyType_Type.tp_str;
  }
  PyObject* const* items = PySequence_Fast_ITEMS(object);
  return std::all_of(items, items + Py_SIZE(object), [&](PyObject* each) { return isPlain(each, depth + 1); });
}

}  // namespace

// A tensor is printed by a replay when all is computed, as what it is then. The text of one that the call has made
// tells its gradient function, which is another one there.
bool World::mayPrint(PyObject* object) {
  if (!isTensor(object) || speculative() || higher_order::inTransform()) return false;
  const at::Tensor& tensor = tensorOf(object);
  bool plain = Py_TYPE(object) == tensorClass() && tracing::isPlain(tensor, c10::DispatchKey::Undefined);
  if (!plain || tensor.is_inference() || (placeOf(object) == kInside && tensor.requires_grad())) return false;
  printed_.push_back({Ref::borrow(object), tensor._version()});
  return true;
}

bool World::changesPrinted() const {
  return std::any_of(printed_.begin(), printed_.end(),
                     [](const Printed& each) { return tensorOf(each.tensor.get())._version() != each.version; });
}

// What is printed is a text that the call has made, of values that are guarded, or a tensor.
bool World::prints(PyObject* callable, Values args, PyObject* names) {
  bool bound = PyCFunction_Check(callable) && !args.empty() && args[0] == PyCFunction_GET_SELF(callable);
  if (bound) args.erase(args.begin());
  size_t positional = args.size() - (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0);
  size_t tensors = printed_.size();
  for (size_t i = 0; i < args.size(); ++i) {
    if (!realize(args[i], true)) return false;
    if (isAtom(args[i]) || mayPrint(args[i])) continue;
    if (i >= positional || !isPlain(args[i])) return stop(Why::PrintsObject);
    if (!tells(args[i])) return false;
    args[i] = keep(Ref::steal(PyObject_Str(args[i])));
    if (!args[i]) return false;
  }
  if (!locks_.empty()) return stop(Why::PrintsUnderLock);
  if (printed_.size() > tensors) hide(calling());  // their texts are made by Python code
  return effect(callable, args, names);
}

// A lock is held only for a part of a call. A replay holds those from outside from before it looks at anything until
// its end; where another thread has one, the call runs eagerly.
bool World::takes(PyObject* lock, const std::string& method) {
  if (placeOf(lock) == kInside) return true;
  if (speculative()) return stop(Why::AttemptLocks);
  bool acquires = method == "acquire" || method == "__enter__";
  if ((held_[lock] += acquires ? 1 : -1) < 0) return stop(Why::ReleasesLock);
  pin(lock);
  if (std::any_of(effects().list().begin(), effects().list().end(), [](const Effect& each) {
        return each.callable &&
               (Operations::table().ofCall(each.callable.get()) == Behaviour::Host || isEmission(each.callable.get()));
      })) {
    return stop(Why::TellsUnderLock);
  }
  bool known = std::any_of(locks_.begin(), locks_.end(), [&](const Ref& each) { return each.get() == lock; });
  if (!known) locks_.push_back(Ref::borrow(lock));
  return true;
}

bool World::holdsLocks() const {
  return std::any_of(held_.begin(), held_.end(), [](const auto& each) { return each.second != 0; });
}

Answer World::behaves(Behaviour behaviour, PyObject* callable, const Values& args, PyObject* names) {
  if (behaviour == Behaviour::Host) return prints(callable, args, names);
  if (behaviour == Behaviour::Locks) return args.empty() || takes(args[0], nameOf(callable));
  return std::nullopt;
}

}  // namespace saker::frontend
