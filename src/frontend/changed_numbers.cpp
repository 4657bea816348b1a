#include "frontend/changed_numbers.h"

#include <algorithm>

#include "frontend/kinds.h"

namespace saker::frontend {

namespace {

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
    for (const Instruction& at : guards_.instructions) {
      if (at.op > Op::ContextValue) {
        if (found_[at.place]) visit(at, found_[at.place].get(), holders_[at.place], bool(ofArgument_[at.place]));
        continue;
      }
      load(at);
    }
    PyErr_Clear();
  }

  struct Holder {
    PyObject* dict = nullptr;
    PyObject* key = nullptr;
  };

 private:
  void load(const Instruction& at) {
    if (at.op == Op::Fixed) {
      found_[at.place] = at.object;
      return;
    }
    if (at.op == Op::Positional || at.op == Op::Keyword) {
      size_t index = static_cast<size_t>(at.number) + (at.op == Op::Keyword ? guards_.positional : 0);
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
      case Op::Attribute:
        if (!isPythonClass(Py_TYPE(owner))) return;
        holders_[at.place] = {instanceDict(owner), at.object.get()};
        break;
      case Op::Key:
        if (!PyDict_CheckExact(owner) || !PyUnicode_CheckExact(at.object.get())) return;
        holders_[at.place] = {owner, at.object.get()};
        break;
      case Op::DictOf:
        value = isPythonClass(Py_TYPE(owner)) ? instanceDict(owner) : nullptr;
        break;
      case Op::Item:
        if ((PyList_Check(owner) || PyTuple_Check(owner)) && at.number < Py_SIZE(owner)) {
          value = PySequence_Fast_ITEMS(owner)[at.number];
        }
        break;
      case Op::Cell:
        value = PyCell_Check(owner) ? PyCell_GET(owner) : nullptr;
        break;
      case Op::MethodSelf:
        value = Py_IS_TYPE(owner, &PyMethod_Type) ? PyMethod_GET_SELF(owner) : nullptr;
        break;
      default:
        return;
    }
    if (Holder& holder = holders_[at.place]; holder.dict) value = PyDict_GetItemWithError(holder.dict, holder.key);
    found_[at.place] = Ref::borrow(value);
  }

  const Guards& guards_;
  const CallArguments& call_;
  std::vector<Ref> found_;
  std::vector<bool> ofArgument_;
  std::vector<Holder> holders_;
};

}  // namespace

std::vector<ChangedNumber> changedFloats(const Guards& guards, const CallArguments& call) {
  std::vector<ChangedNumber> out;
  Walk(guards, call).eachCheck([&](const Instruction& at, PyObject* now, Walk::Holder, bool) {
    if (at.op != Op::Equals || !PyFloat_CheckExact(at.object.get()) || !PyFloat_CheckExact(now)) return;
    if (!sameValue(at.object.get(), now)) out.push_back({guards.expression(at.place), Ref::borrow(now), {}, {}});
  });
  return out;
}

std::vector<ChangedNumber> changedCounters(const Guards& guards, const CallArguments& call) {
  std::vector<ChangedNumber> out;
  Walk(guards, call).eachCheck([&](const Instruction& at, PyObject* now, Walk::Holder holder, bool ofArgument) {
    if (ofArgument || !holder.dict || !isSize(now)) return;
    bool changed = at.op == Op::Equals && isSize(at.object.get()) && !sameValue(at.object.get(), now);
    if (!changed && at.op != Op::Number) return;
    auto same = [&](const ChangedNumber& each) {
      return each.dict.get() == holder.dict && each.key.get() == holder.key;
    };
    if (std::any_of(out.begin(), out.end(), same)) return;
    out.push_back({guards.expression(at.place), Ref::borrow(now), Ref::borrow(holder.dict), Ref::borrow(holder.key)});
  });
  return out;
}

}  // namespace saker::frontend
