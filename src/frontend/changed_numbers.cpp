#include "frontend/changed_numbers.h"

#include <algorithm>
#include <utility>

#include "frontend/kinds.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

// What lies under this very key, without asking it for its hash: optimizers keep their state under parameters.
PyObject* underSameKey(PyObject* dict, PyObject* wanted) {
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (key == wanted) return value;
  }
  return nullptr;
}

// Its attributes are what its dict holds, and reading one runs no code.
bool keepsDict(PyTypeObject* type) {
  static constinit watch::Once<PyObject*> found;
  PyObject* names = found.get([] { return watch::importedAttribute("types", "SimpleNamespace"); });
  return isPythonClass(type) || reinterpret_cast<PyObject*>(type) == names;
}

// Finds again what the loads of a recording found, as far as that runs no code of the program.
class Walk {
 public:
  Walk(const Guards& guards, const CallArguments& call) : guards_(guards), call_(call) {
    found_.resize(guards.places);
    ofArgument_.resize(guards.places);
    holders_.resize(guards.places);
  }

  template <typename Visit>
  void eachCheck(Visit visit) {
    for (const GuardInstruction& at : guards_.instructions) {
      if (at.op > GuardOp::ContextValue) {
        bool isOther = at.op == GuardOp::IsType && found_[at.place] &&
                       reinterpret_cast<PyObject*>(Py_TYPE(found_[at.place].get())) != at.object.get();
        if (isOther) found_[at.place] = Ref();  // nothing is known of what it holds
        if (found_[at.place]) visit(at, found_[at.place].get(), holders_[at.place], bool(ofArgument_[at.place]));
        continue;
      }
      load(at);
    }
    PyErr_Clear();
  }

 private:
  void load(const GuardInstruction& at) {
    if (at.op == GuardOp::Fixed) {
      found_[at.place] = at.object;
      return;
    }
    if (at.op == GuardOp::Positional || at.op == GuardOp::Keyword) {
      size_t index = static_cast<size_t>(at.number) + (at.op == GuardOp::Keyword ? guards_.positional : 0);
      size_t count = call_.positional + (call_.names ? static_cast<size_t>(PyTuple_GET_SIZE(call_.names)) : 0);
      if (index < count) found_[at.place] = Ref::borrow(call_.values[index]);
      ofArgument_[at.place] = true;
      return;
    }
    if (at.parent >= found_.size() || !found_[at.parent]) return;
    PyObject* owner = found_[at.parent].get();
    ofArgument_[at.place] = ofArgument_[at.parent];
    PyObject* value = nullptr;
    switch (at.op) {
      case GuardOp::Attribute:
        if (!keepsDict(Py_TYPE(owner))) return;
        inDict(at, instanceDict(owner), value);
        break;
      case GuardOp::Key:
        if (!PyDict_Check(owner)) return;
        if (!isAtom(at.object.get())) {
          value = underSameKey(owner, at.object.get());
          break;
        }
        inDict(at, owner, value);  // of a class derived from dict, too: guards read what it holds
        if (!PyDict_CheckExact(owner)) holders_[at.place] = {};
        break;
      case GuardOp::Slot:
        if (!isPythonClass(Py_TYPE(owner)) || PyType_Check(owner)) return;
        value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(owner) + at.number);
        holders_[at.place] = {NumberHolder::Kind::Slot, owner, nullptr, at.number};
        break;
      case GuardOp::DictOf:
        value = keepsDict(Py_TYPE(owner)) ? instanceDict(owner) : nullptr;
        break;
      case GuardOp::Item:
        if ((PyList_Check(owner) || PyTuple_Check(owner)) && at.number < Py_SIZE(owner)) {
          value = PySequence_Fast_ITEMS(owner)[at.number];
          if (PyList_CheckExact(owner)) holders_[at.place] = {NumberHolder::Kind::List, owner, nullptr, at.number};
        } else if (isDeque(owner)) {
          found_[at.place] = Ref::steal(PySequence_GetItem(owner, static_cast<Py_ssize_t>(at.number)));
          if (!found_[at.place]) PyErr_Clear();
          return;
        }
        break;
      case GuardOp::Cell:
        value = PyCell_Check(owner) ? PyCell_GET(owner) : nullptr;
        holders_[at.place] = {NumberHolder::Kind::Cell, owner, nullptr, 0};
        break;
      case GuardOp::Referent:  // schedulers wrap the step of an optimizer that they refer to weakly
        value = PyWeakref_CheckRefExact(owner) ? PyWeakref_GET_OBJECT(owner) : nullptr;
        break;
      case GuardOp::MethodSelf:
        value = Py_IS_TYPE(owner, &PyMethod_Type) ? PyMethod_GET_SELF(owner) : nullptr;
        break;
      default:
        return;
    }
    found_[at.place] = Ref::borrow(value);
  }

  void inDict(const GuardInstruction& at, PyObject* dict, PyObject*& value) {
    if (!dict) return;
    value = PyDict_GetItemWithError(dict, at.object.get());
    holders_[at.place] = {NumberHolder::Kind::Dict, dict, at.object.get(), 0};
  }

  const Guards& guards_;
  const CallArguments& call_;
  std::vector<Ref> found_;
  std::vector<bool> ofArgument_;
  std::vector<NumberHolder> holders_;
};

bool isHeldOutside(const NumberHolder& holder, bool ofArgument) {
  return holder.kind != NumberHolder::Kind::None && (!ofArgument || holder.kind == NumberHolder::Kind::Slot);
}

void addOnce(std::vector<ChangedNumber>& all, const Guards& guards, const GuardInstruction& at, PyObject* now,
             const NumberHolder& holder) {
  auto same = [&](const ChangedNumber& each) { return each.holder == holder; };
  if (std::any_of(all.begin(), all.end(), same)) return;
  all.push_back(
      {guards.expression(at.place), Ref::borrow(now), holder, Ref::borrow(holder.owner), Ref::borrow(holder.key)});
}

}  // namespace

void NumberHolder::put(PyObject* number) const {
  switch (kind) {
    case Kind::None:
      break;
    case Kind::Dict:
      PyDict_SetItem(owner, key, number);
      break;
    case Kind::Cell:
      PyCell_Set(owner, number);
      break;
    case Kind::List:
      if (at < PyList_GET_SIZE(owner)) PyList_SetItem(owner, at, Py_NewRef(number));
      break;
    case Kind::Slot: {
      auto* slot = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(owner) + at);
      PyObject* before = std::exchange(*slot, Py_NewRef(number));
      Py_XDECREF(before);
      break;
    }
  }
}

std::vector<ChangedNumber> changedFloats(const Guards& guards, const CallArguments& call) {
  std::vector<ChangedNumber> out;
  Walk(guards, call).eachCheck([&](const GuardInstruction& at, PyObject* now, const NumberHolder&, bool) {
    if (at.op != GuardOp::Equals || !PyFloat_CheckExact(at.object.get()) || !PyFloat_CheckExact(now)) return;
    if (!sameValue(at.object.get(), now)) out.push_back({guards.expression(at.place), Ref::borrow(now), {}, {}, {}});
  });
  return out;
}

std::vector<ChangedNumber> floatsAt(const Guards& guards, const CallArguments& call,
                                    const std::set<std::string>& places) {
  std::vector<ChangedNumber> out;
  Walk(guards, call)
      .eachCheck([&](const GuardInstruction& at, PyObject* now, const NumberHolder& holder, bool ofArgument) {
        if (!isHeldOutside(holder, ofArgument) || !asksForFloat(at) || !PyFloat_CheckExact(now)) return;
        if (places.contains(guards.expression(at.place))) addOnce(out, guards, at, now, holder);
      });
  return out;
}

std::vector<ChangedNumber> changedCounters(const Guards& guards, const CallArguments& call) {
  std::vector<ChangedNumber> out;
  Walk(guards, call)
      .eachCheck([&](const GuardInstruction& at, PyObject* now, const NumberHolder& holder, bool ofArgument) {
        if (!isHeldOutside(holder, ofArgument) || !isSize(now)) return;
        bool changed = at.op == GuardOp::Equals && isSize(at.object.get()) && !sameValue(at.object.get(), now);
        if (changed || at.op == GuardOp::Number) addOnce(out, guards, at, now, holder);
      });
  return out;
}

}  // namespace saker::frontend
