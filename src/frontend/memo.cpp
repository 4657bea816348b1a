#include "frontend/memo.h"

#include <unordered_map>

#include "frontend/guards.h"

namespace saker::frontend {

namespace {

uint64_t versionOf(PyObject* dict) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
}

}  // namespace

// Goes through the instructions in order. A place is stable when the witnesses so far decide what it holds.
class Memo::Builder {
 public:
  Builder(Memo& memo, const Guards& guards, const std::vector<PyObject*>& found)
      : memo_(memo), guards_(guards), found_(found), stable_(guards.places, false) {}

  void build() {
    for (uint32_t i = 0; i < guards_.instructions.size(); ++i) {
      const Instruction& at = guards_.instructions[i];
      bool decided = at.op <= Op::ContextValue ? load(i, at) : check(i, at);
      if (!decided) memo_.rest_.push_back(i);
    }
  }

 private:
  bool load(uint32_t index, const Instruction& at) {
    if (at.op == Op::Fixed) return stable_[at.place] = true;
    if (at.op == Op::Positional || at.op == Op::Keyword || !stable_[at.parent]) return false;
    PyObject* owner = found_[at.parent];
    switch (at.op) {
      case Op::Attribute:
      case Op::DictOf:
        return stable_[at.place] = instance(owner, index, true);
      case Op::Key:
        return stable_[at.place] = PyDict_Check(owner) && dict(owner, index);
      case Op::MethodSelf:
      case Op::MethodFunction:
        return stable_[at.place] = true;
      case Op::Item:
        if (!PyTuple_Check(owner)) break;
        return stable_[at.place] = true;
      case Op::Slot:
      case Op::Cell:
        break;
      default:
        return false;
    }
    memo_.witnesses_.push_back({nullptr, nullptr, nullptr, found_[at.place], 0, index, true});
    return stable_[at.place] = true;
  }

  bool check(uint32_t index, const Instruction& at) {
    if (!stable_[at.place]) return false;
    PyObject* object = found_[at.place];
    switch (at.op) {
      case Op::IsType:
        return !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) || instance(object, index, false);
      case Op::Is:
      case Op::Equals:  // of values that never change
        return true;
      case Op::Same:
      case Op::Different:
        return stable_[static_cast<size_t>(at.number)];
      case Op::Length:
      case Op::Empty:
        return PyTuple_Check(object) || (PyDict_Check(object) && dict(object, index));
      case Op::NoKey:
        return PyDict_Check(object) && dict(object, index);
      case Op::Keys:  // an OrderedDict can change its order and keep its version
        return PyDict_CheckExact(object) && dict(object, index);
      case Op::NoAttribute:
        return instance(object, index, true);
      default:
        return false;
    }
  }

  bool instance(PyObject* object, uint32_t index, bool looksUp) {
    PyObject** slot = looksUp ? _PyObject_GetDictPtr(object) : nullptr;
    if (looksUp && (!slot || !*slot)) return false;
    auto [known, isNew] = instances_.try_emplace(object, memo_.witnesses_.size());
    if (isNew) memo_.witnesses_.push_back({object, Py_TYPE(object), nullptr, nullptr, 0, 0, false});
    if (!looksUp) return true;
    Witness& witness = memo_.witnesses_[known->second];
    if (!witness.slot) {
      witness.slot = slot;
      witness.dict = *slot;
      arm(witness);
      dicts_.try_emplace(*slot, known->second);
    }
    memo_.lookups_[witness.lookups].push_back(index);
    return true;
  }

  bool dict(PyObject* dict, uint32_t index) {
    auto [known, isNew] = dicts_.try_emplace(dict, memo_.witnesses_.size());
    if (isNew) {
      memo_.witnesses_.push_back({nullptr, nullptr, nullptr, dict, 0, 0, false});
      arm(memo_.witnesses_.back());
    }
    memo_.lookups_[memo_.witnesses_[known->second].lookups].push_back(index);
    return true;
  }

  void arm(Witness& witness) {
    witness.version = versionOf(witness.dict);
    witness.lookups = static_cast<uint32_t>(memo_.lookups_.size());
    memo_.lookups_.emplace_back();
  }

  Memo& memo_;
  const Guards& guards_;
  const std::vector<PyObject*>& found_;
  std::vector<bool> stable_;
  std::unordered_map<PyObject*, size_t> instances_, dicts_;
};

void Memo::arm(const Guards& guards, const std::vector<PyObject*>& found) {
  disarm();
  Builder(*this, guards, found).build();
  found_ = found;
  armed_ = true;
}

void Memo::disarm() {
  armed_ = false;
  witnesses_.clear();
  lookups_.clear();
  rest_.clear();
}

bool Memo::lookAgain(Witness& witness, Guards& guards, const CallArguments& call, std::vector<PyObject*>& found) {
  for (uint32_t index : lookups_[witness.lookups]) {
    const Instruction& at = guards.instructions[index];
    if (!guards.step(at, call, found)) return false;
    if (at.op <= Op::ContextValue && found[at.place] != found_[at.place]) return false;
  }
  witness.version = versionOf(witness.dict);
  return true;
}

Memo::Answer Memo::check(Guards& guards, const CallArguments& call, std::vector<PyObject*>& found) {
  found = found_;
  for (Witness& witness : witnesses_) {
    if (witness.object && Py_TYPE(witness.object) != witness.type) return Answer::Unknown;
    if (witness.slot && *witness.slot != witness.dict) return Answer::Unknown;
    if (witness.load) {
      const Instruction& at = guards.instructions[witness.lookups];
      if (!guards.step(at, call, found) || found[at.place] != witness.dict) return Answer::Unknown;
    } else if (witness.dict && versionOf(witness.dict) != witness.version) {
      if (!lookAgain(witness, guards, call, found)) return Answer::Unknown;
    }
  }
  for (uint32_t index : rest_) {
    if (guards.step(guards.instructions[index], call, found)) continue;
    guards.failed_ = &guards.instructions[index];
    return Answer::Fails;
  }
  return Answer::Holds;
}

}  // namespace saker::frontend
