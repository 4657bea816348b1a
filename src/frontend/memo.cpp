#include "frontend/memo.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_map>
#include <unordered_set>

#include "frontend/guards.h"
#include "frontend/kinds.h"

namespace saker::frontend {

namespace {

uint64_t numberOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

const uint64_t* wordAt(const void* pointer) { return static_cast<const uint64_t*>(pointer); }

}  // namespace

// As TensorShape::fits, for the usual tensor: on the CPU, strided, of few dimensions, no view.
bool Memo::Seen::fits() const {
  if (Py_TYPE(object) != type) return false;
  const c10::TensorImpl& impl = *THPVariable_Unpack(object).unsafeGetTensorImpl();
  if (impl.key_set() != keys || impl.dtype() != dtype || impl.has_symbolic_sizes_strides()) return false;
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(impl.autograd_meta());
  bool differentiable = meta && (meta->requires_grad_ || meta->grad_fn_);
  if (differentiable != requiresGrad || (meta && (meta->is_view_ || !meta->grad_fn_ != leaf))) return false;
  c10::IntArrayRef s = impl.sizes(), t = impl.strides();
  if (s.size() != dims || impl.storage_offset() != offset) return false;
  bool same = true;
  for (size_t i = 0; i < dims; ++i) same &= s[i] == sizes[i] && t[i] == strides[i];
  return same;
}

// Goes through the instructions in order. A place is stable when the words so far decide what it holds; each keeps
// alive what the next ones look at.
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
        return stable_[at.place] = instance(owner, index);
      case Op::Key:
        return stable_[at.place] = PyDict_Check(owner) && dict(owner, index);
      case Op::MethodSelf:
      case Op::MethodFunction:
        return stable_[at.place] = true;
      case Op::Item:
        if (PyTuple_Check(owner)) return stable_[at.place] = true;
        word(nullptr, index);
        return stable_[at.place] = true;
      case Op::Slot:
        word(wordAt(reinterpret_cast<char*>(owner) + at.number), numberOf(found_[at.place]));
        return stable_[at.place] = true;
      case Op::Cell:
        word(wordAt(&reinterpret_cast<PyCellObject*>(owner)->ob_ref), numberOf(found_[at.place]));
        return stable_[at.place] = true;
      default:
        return false;
    }
  }

  bool check(uint32_t index, const Instruction& at) {
    if (!stable_[at.place]) return false;
    PyObject* object = found_[at.place];
    switch (at.op) {
      case Op::IsType:
        if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) && !shapeFollows(index)) type(object);
        return true;
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
        return instance(object, index);
      case Op::Tensor:
        return tensor(object, index, guards_.tensors[static_cast<size_t>(at.number)]);
      default:
        return false;
    }
  }

  // Then the type is checked with the shape.
  bool shapeFollows(uint32_t index) const {
    if (index + 1 >= guards_.instructions.size()) return false;
    const Instruction& next = guards_.instructions[index + 1];
    return next.op == Op::Tensor && next.place == guards_.instructions[index].place;
  }

  uint32_t word(const uint64_t* at, uint64_t value) {
    memo_.words_.push_back({at, value});
    memo_.lookups_.emplace_back();
    return static_cast<uint32_t>(memo_.words_.size() - 1);
  }

  void type(PyObject* object) {
    if (typed_.insert(object).second) word(wordAt(&object->ob_type), numberOf(Py_TYPE(object)));
  }

  bool instance(PyObject* object, uint32_t index) {
    PyObject** slot = _PyObject_GetDictPtr(object);
    if (!slot || !*slot) return false;
    type(object);
    if (slots_.insert(object).second) word(wordAt(slot), numberOf(*slot));
    return dict(*slot, index);
  }

  bool dict(PyObject* dict, uint32_t index) {
    auto [known, isNew] = dicts_.try_emplace(dict, 0);
    if (isNew) known->second = word(versionOf(dict), *versionOf(dict));
    memo_.lookups_[known->second].push_back(index);
    return true;
  }

  bool tensor(PyObject* object, uint32_t index, const TensorShape& shape) {
    const torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(THPVariable_Unpack(object));
    bool usual = shape.device.is_cpu() && shape.dynamic.empty() && shape.sizes.size() <= 4 &&
                 shape.strides.size() == shape.sizes.size() && !(meta && meta->is_view_);
    if (!usual) {
      type(object);
      return false;
    }
    Seen seen{object,
              Py_TYPE(object),
              THPVariable_Unpack(object).unsafeGetTensorImpl(),
              meta,
              shape.keys,
              c10::scalarTypeToTypeMeta(shape.dtype),
              shape.requiresGrad,
              shape.leaf,
              static_cast<uint8_t>(shape.sizes.size()),
              index,
              shape.offset,
              {},
              {}};
    std::copy(shape.sizes.begin(), shape.sizes.end(), seen.sizes.begin());
    std::copy(shape.strides.begin(), shape.strides.end(), seen.strides.begin());
    memo_.tensors_.push_back(seen);
    return true;
  }

  Memo& memo_;
  const Guards& guards_;
  const std::vector<PyObject*>& found_;
  std::vector<bool> stable_;
  std::unordered_set<PyObject*> typed_, slots_;
  std::unordered_map<PyObject*, uint32_t> dicts_;
};

void Memo::arm(const Guards& guards, const std::vector<PyObject*>& found) {
  disarm();
  Builder(*this, guards, found).build();
  found_ = found;
  copied_.clear();
  std::vector<bool> wanted(guards.places, guards.wantsAll);
  for (uint32_t place : guards.wanted) wanted[place] = true;
  auto uses = [&](const Instruction& at) {
    if (at.op > Op::ContextValue || at.op > Op::Fixed) wanted[at.op > Op::ContextValue ? at.place : at.parent] = true;
    if (at.op == Op::Same || at.op == Op::Different) wanted[static_cast<size_t>(at.number)] = true;
  };
  for (uint32_t index : rest_) uses(guards.instructions[index]);
  for (const Word& word : words_) {
    if (!word.at) uses(guards.instructions[word.value]);
  }
  for (uint32_t place = 0; place < guards.places; ++place) {
    if (wanted[place]) copied_.push_back(place);
  }
  armed_ = true;
}

void Memo::disarm() {
  armed_ = false;
  words_.clear();
  lookups_.clear();
  tensors_.clear();
  rest_.clear();
}

// A dict was written to: what is looked up in it may be as it was.
bool Memo::lookAgain(Word& word, const std::vector<uint32_t>& lookups, Guards& guards, const CallArguments& call,
                     std::vector<PyObject*>& found) {
  if (lookups.empty()) return false;
  found = found_;
  for (uint32_t index : lookups) {
    const Instruction& at = guards.instructions[index];
    if (!guards.step(at, call, found)) return false;
    if (at.op <= Op::ContextValue && found[at.place] != found_[at.place]) return false;
  }
  word.value = *word.at;
  return true;
}

Memo::Answer Memo::check(Guards& guards, const CallArguments& call, std::vector<PyObject*>& found) {
  // What is looked at lies all over the memory: ask for it ahead.
  constexpr size_t kAhead = 16, kTensorsAhead = 4;
  found.resize(guards.places);
  for (uint32_t place : copied_) found[place] = found_[place];
  size_t count = words_.size();
  for (size_t i = 0; i < count; ++i) {
    Word& word = words_[i];
    if (i + kAhead < count) __builtin_prefetch(words_[i + kAhead].at);
    if (word.at) {
      if (*word.at != word.value && !lookAgain(word, lookups_[i], guards, call, found)) return Answer::Unknown;
      continue;
    }
    const Instruction& at = guards.instructions[word.value];
    if (!guards.step(at, call, found) || found[at.place] != found_[at.place]) return Answer::Unknown;
  }
  auto fails = [&](uint32_t instruction) {
    guards.failed_ = &guards.instructions[instruction];
    return Answer::Fails;
  };
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (i + kTensorsAhead < tensors_.size()) {
      const Seen& next = tensors_[i + kTensorsAhead];
      __builtin_prefetch(next.object);
      for (size_t line = 0; line < 3; ++line) __builtin_prefetch(static_cast<const char*>(next.impl) + line * 64);
      if (next.meta) __builtin_prefetch(next.meta);
      if (next.meta) __builtin_prefetch(static_cast<const char*>(next.meta) + 128);
    }
    if (!tensors_[i].fits()) return fails(tensors_[i].instruction);
  }
  for (uint32_t index : rest_) {
    if (!guards.step(guards.instructions[index], call, found)) return fails(index);
  }
  return Answer::Holds;
}

}  // namespace saker::frontend
