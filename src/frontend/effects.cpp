#include "frontend/effects.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "frontend/guards.h"
#include "frontend/kinds.h"
#include "host/objects.h"

namespace saker::frontend {

// The dict that a call writes a key or an attribute to; nullptr: it is another call.
static PyObject* writtenDict(PyObject* callable, const std::vector<PyObject*>& args) {
  static PyObject* const setAttribute =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__setattr__");
  static PyObject* const setItem = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "__setitem__");
  if (args.size() != 3) return nullptr;
  if (callable == setItem && PyDict_CheckExact(args[0])) return args[0];
  if (callable != setAttribute || !isPythonClass(Py_TYPE(args[0])) || isTensor(args[0])) return nullptr;
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(args[0]), args[1]);
  return !descriptor || !Py_TYPE(descriptor)->tp_descr_set ? instanceDict(args[0]) : nullptr;
}

static bool deletesKey(PyObject* callable, const std::vector<PyObject*>& args) {
  static PyObject* const deleteItem = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "__delitem__");
  return callable == deleteItem && args.size() == 2 && PyDict_CheckExact(args[0]);
}

void Effects::add(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names) {
  Effect made;
  PyObject* dict = deletesKey(callable, args) ? args[0] : writtenDict(callable, args);
  if (dict && PyUnicode_CheckExact(args[1])) {
    made.dict = Ref::borrow(dict);
    made.key = Ref::borrow(args[1]);
    made.before = Ref::borrow(PyDict_GetItemWithError(dict, args[1]));
  }
  made.callable = Ref::borrow(callable);
  for (PyObject* arg : args) made.arguments.push_back(Ref::borrow(arg));
  made.names = Ref::borrow(names);
  list_.push_back(std::move(made));
}

std::vector<Effects::Restored> Effects::restoredSince(size_t first) const {
  std::vector<Restored> found;
  for (const Pending& each : pending_) {
    if (each.effect >= first) return {};
  }
  for (size_t i = first; i < list_.size(); ++i) {
    const Effect& each = list_[i];
    if (!each.dict) return {};
    PyObject *dict = each.dict.get(), *key = each.key.get(), *owner = each.arguments[0].get();
    auto known = std::find_if(found.begin(), found.end(), [&](const Restored& other) {
      return other.dict == dict && PyUnicode_Compare(other.key, key) == 0;
    });
    if (known != found.end()) {
      if (known->value && !each.before) return {};  // it was deleted: its place among the keys is another one
      continue;
    }
    if (PyDict_GetItemWithError(dict, key) != each.before.get()) return {};
    found.push_back({dict, key, owner == dict ? nullptr : owner, each.before.get()});
  }
  for (size_t i = 0; i < first; ++i) {
    for (const Ref& argument : list_[i].arguments) {
      for (const Restored& each : found) {
        if (argument.get() == each.dict || argument.get() == each.owner || list_[i].dict.get() == each.dict) return {};
      }
    }
  }
  return found;
}

void Effects::succeeded(PyObject* callable) {
  auto found =
      std::find_if(pending_.rbegin(), pending_.rend(), [&](const Pending& each) { return each.callable == callable; });
  if (found == pending_.rend()) return;
  Pending done = *found;
  pending_.erase(std::next(found).base());
  if (done.length < 0) return;
  Effect& extended = list_[done.effect];
  PyObject* list = extended.arguments[0].get();
  Ref added = Ref::steal(PyList_GetSlice(list, done.length, PyList_GET_SIZE(list)));
  extended.arguments[1] = Ref::steal(PyList_AsTuple(added.get()));
}

// A call that failed has changed nothing, if it does one thing only.
bool Effects::dropFailed() {
  static const std::unordered_set<std::string> single = {"pop", "popitem", "popleft", "remove", "insert", "append"};
  std::sort(pending_.begin(), pending_.end(), [](const Pending& a, const Pending& b) { return a.effect > b.effect; });
  for (const Pending& each : pending_) {
    if (!single.contains(nameOf(list_[each.effect].callable.get()))) return false;
    list_.erase(list_.begin() + static_cast<ptrdiff_t>(each.effect));
  }
  pending_.clear();
  return true;
}

bool Effects::writtenAlong(PyTypeObject* type, PyObject* name) const {
  PyObject* order = type->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); ++i) {
    if (written(PyTuple_GET_ITEM(order, i), name)) return true;
  }
  return false;
}

bool Effects::remember(PyObject* container) {
  if (changed(container)) return true;
  PyObject* copy = nullptr;
  if (PyODict_Check(container)) {
    copy = PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyODict_Type), container);
  } else if (PyDict_Check(container)) {
    copy = PyDict_Copy(container);
  } else {
    Ref items = itemsOf(container);  // a copy of a set may be in another order
    copy = PyAnySet_Check(container) || !items ? items.release() : PySequence_List(items.get());
  }
  if (!copy) {
    PyErr_Clear();
    return false;
  }
  before_.emplace(container, Ref::steal(copy));
  return true;
}

PyObject* Effects::before(PyObject* container) const {
  auto found = before_.find(container);
  return found == before_.end() ? nullptr : found->second.get();
}

std::vector<PyObject*> Effects::changedObjects() const {
  std::vector<PyObject*> out;
  for (const auto& [object, copy] : before_) out.push_back(object);
  for (const auto& [owner, name] : written_) out.push_back(owner);
  return out;
}

bool Effects::undoes(PyObject* callable, const std::vector<PyObject*>& args) {
  PyObject* dict = writtenDict(callable, args);
  if (deletesKey(callable, args)) {
    // One that the call has put there: where it stood among the others does not matter.
    auto isSame = [&](const Undo& each) {
      return each.dict.get() == args[0] && !each.before && PyUnicode_CheckExact(args[1]) &&
             PyUnicode_CheckExact(each.key.get()) && PyUnicode_Compare(each.key.get(), args[1]) == 0;
    };
    if (std::any_of(undo_.begin(), undo_.end(), isSame)) dict = args[0];
  }
  if (!dict) return false;
  undo_.push_back({Ref::borrow(dict), Ref::borrow(args[1]), Ref::borrow(PyDict_GetItemWithError(dict, args[1]))});
  return true;
}

void Effects::undo() {
  for (auto each = undo_.rbegin(); each != undo_.rend(); ++each) {
    if (each->before) {
      PyDict_SetItem(each->dict.get(), each->key.get(), each->before.get());
    } else {
      PyDict_DelItem(each->dict.get(), each->key.get());
    }
  }
  undo_.clear();
}

}  // namespace saker::frontend
