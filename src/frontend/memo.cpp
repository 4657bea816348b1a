#include "frontend/memo.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "frontend/guards.h"
#include "frontend/kinds.h"
#include "host/objects.h"
#include "watch/dict_changes.h"

namespace saker::frontend {

namespace {

uint64_t numberOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

const uint64_t* wordAt(const void* pointer) { return static_cast<const uint64_t*>(pointer); }

// CPython makes one object of each of these, which never dies.
bool isImmortal(PyObject* object) {
  constexpr long kSmallest = -5, kLargest = 256;
  if (object == Py_None || object == Py_True || object == Py_False || object == Py_Ellipsis) return true;
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  long value = PyLong_AsLongAndOverflow(object, &overflow);
  return !overflow && value >= kSmallest && value <= kLargest;
}

// An object at the address of one that was found before: is it that one, or told from it by what is checked of its
// contents (versions of dicts, elements of lists)? Not so numbers, strings, tuples, methods and functions, which are
// taken for granted while they are the same objects.
bool isTold(PyObject* object) {
  if (PyTuple_Check(object)) return false;
  return (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) || isImmortal(object) || isTensor(object) ||
         PyModule_Check(object) || PyDict_CheckExact(object) || PyList_CheckExact(object) || PyType_Check(object);
}

}  // namespace

// As TensorShape::fits, for the usual tensor: on the CPU, strided, of few dimensions, no view.
bool Memo::Seen::has(const Form& form) const {
  if (Py_TYPE(object) != form.type || THPVariable_Unpack(object).unsafeGetTensorImpl() != impl) return false;
  if (impl->autograd_meta() != meta) return false;
  bool differs = impl->key_set() != form.keys;
  differs |= impl->dtype() != form.dtype;
  differs |= impl->has_symbolic_sizes_strides();
  differs |= impl->storage_offset() != form.offset;
  if (meta) {
    differs |= meta->is_view_;
    // Only leaves say that they require gradients: of the others, what made them.
    if (!meta->requires_grad_ || !(form.leaf && form.requiresGrad)) {
      bool leaf = !meta->grad_fn_;
      differs |= (leaf != form.leaf) | ((meta->requires_grad_ | !leaf) != form.requiresGrad);
    }
  }
  c10::IntArrayRef s = impl->sizes(), t = impl->strides();
  if (differs || s.size() != form.dims) return false;
  for (size_t i = 0; i < form.dims; ++i) {
    differs |= s[i] != form.sizes[i];
    differs |= t[i] != form.strides[i];
  }
  return !differs;
}

// Goes through the instructions in order. A place is stable when words decide what it holds. Each word belongs to a
// level: what the levels before it say keeps alive what it looks at.
class Memo::Builder {
 public:
  Builder(Memo& memo, const Guards& guards, const std::vector<PyObject*>& found)
      : memo_(memo), guards_(guards), found_(found), since_(guards.places, kMoves) {}

  void build() {
    for (uint32_t i = 0; i < guards_.instructions.size(); ++i) {
      const GuardInstruction& at = guards_.instructions[i];
      bool decided = at.op <= GuardOp::ContextValue ? load(i, at) : check(i, at);
      if (!decided) memo_.rest_.push_back(i);
    }
    sort();
  }

 private:
  static constexpr uint32_t kMoves = UINT32_MAX;
  struct Placed {
    Word word;
    uint32_t level;
    std::vector<uint32_t> lookups;
  };
  struct PlacedLoad {
    uint32_t instruction, level;
  };

  bool stable(uint32_t place) const { return since_[place] != kMoves; }

  bool load(uint32_t index, const GuardInstruction& at) {
    uint32_t& since = since_[at.place];
    if (at.op == GuardOp::Fixed) since = 0;
    if (at.op <= GuardOp::Fixed || !stable(at.parent)) return at.op == GuardOp::Fixed;
    PyObject* owner = found_[at.parent];
    uint32_t level = since_[at.parent];
    switch (at.op) {
      case GuardOp::Attribute:
      case GuardOp::DictOf:
        since = instance(owner, level, index);
        break;
      case GuardOp::Key:
        if (PyDict_Check(owner)) since = dict(owner, level, index);
        break;
      case GuardOp::MethodSelf:
      case GuardOp::MethodFunction:
        since = level;
        break;
      case GuardOp::Item:
        since = level;
        if (PyTuple_Check(owner)) break;
        if (!isTold(found_[at.place])) return moves(since);
        loads_.push_back({index, level});
        since = level + 1;
        break;
      case GuardOp::Slot:
        if (!isTold(found_[at.place])) return moves(since);
        since = word(wordAt(reinterpret_cast<char*>(owner) + at.number), numberOf(found_[at.place]), level);
        break;
      case GuardOp::Cell:
        if (!isTold(found_[at.place])) return moves(since);
        since = word(wordAt(&reinterpret_cast<PyCellObject*>(owner)->ob_ref), numberOf(found_[at.place]), level);
        break;
      default:
        break;
    }
    if (since == kMoves) return false;
    PyObject* object = found_[at.place];
    if (isTold(object) && !isTensor(object) && !isImmortal(object)) type(object, since);
    return true;
  }

  static bool moves(uint32_t& since) {
    since = kMoves;
    return false;
  }

  bool check(uint32_t index, const GuardInstruction& at) {
    if (!stable(at.place)) return false;
    PyObject* object = found_[at.place];
    uint32_t level = since_[at.place];
    switch (at.op) {
      case GuardOp::IsType:
        if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) && !shapeFollows(index)) type(object, level);
        return true;
      case GuardOp::Is:
      case GuardOp::Equals:  // of values that never change
        return true;
      case GuardOp::Same:
      case GuardOp::Different:
        return stable(static_cast<uint32_t>(at.number));
      case GuardOp::Length:
      case GuardOp::Empty:
        return PyTuple_Check(object) || (PyDict_Check(object) && dict(object, level, index) != kMoves);
      case GuardOp::NoKey:
        return PyDict_Check(object) && dict(object, level, index) != kMoves;
      case GuardOp::Keys:  // an OrderedDict can change its order and keep its version
        return PyDict_CheckExact(object) && dict(object, level, index) != kMoves;
      case GuardOp::NoAttribute:
        return instance(object, level, index) != kMoves;
      case GuardOp::Tensor:
        return tensor(object, level, index, guards_.tensors[static_cast<size_t>(at.number)]);
      default:
        return false;
    }
  }

  // Then the type is checked with the shape.
  bool shapeFollows(uint32_t index) const {
    if (index + 1 >= guards_.instructions.size()) return false;
    const GuardInstruction& next = guards_.instructions[index + 1];
    return next.op == GuardOp::Tensor && next.place == guards_.instructions[index].place;
  }

  // These give the level from which on what they found is alive.
  uint32_t word(const uint64_t* at, uint64_t value, uint32_t level) {
    words_.push_back({{at, value}, level, {}});
    return level + 1;
  }

  uint32_t type(PyObject* object, uint32_t level) {
    if (typed_.insert(object).second) word(wordAt(&object->ob_type), numberOf(Py_TYPE(object)), level);
    return level;
  }

  uint32_t instance(PyObject* object, uint32_t level, uint32_t index) {
    PyObject** slot = _PyObject_GetDictPtr(object);
    if (!slot || !*slot) return kMoves;
    type(object, level);
    if (slots_.insert(object).second) word(wordAt(slot), numberOf(*slot), level);
    return dict(*slot, level + 1, index);
  }

  uint32_t dict(PyObject* dict, uint32_t level, uint32_t index) {
    auto [known, isNew] = dicts_.try_emplace(dict, words_.size());
    if (isNew) {
      memo_.watched_ &= watch::watchDict(dict);
      word(watch::versionOf(dict), *watch::versionOf(dict), level);
    }
    Placed& placed = words_[known->second];
    placed.lookups.push_back(index);
    return placed.level + 1;
  }

  bool tensor(PyObject* object, uint32_t level, uint32_t index, const TensorShape& shape) {
    const c10::TensorImpl* impl = THPVariable_Unpack(object).unsafeGetTensorImpl();
    const torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(THPVariable_Unpack(object));
    bool usual = shape.device.is_cpu() && shape.dynamic.empty() && shape.sizes.size() <= 4 &&
                 shape.strides.size() == shape.sizes.size() && !(meta && meta->is_view_);
    if (!usual) {
      type(object, level);
      return false;
    }
    Form form{.type = Py_TYPE(object),
              .keys = shape.keys,
              .dtype = c10::scalarTypeToTypeMeta(shape.dtype),
              .requiresGrad = shape.requiresGrad,
              .leaf = shape.leaf,
              .offset = shape.offset,
              .dims = shape.sizes.size(),
              .sizes = {},
              .strides = {}};
    std::copy(shape.sizes.begin(), shape.sizes.end(), form.sizes.begin());
    std::copy(shape.strides.begin(), shape.strides.end(), form.strides.begin());
    auto known = std::find(memo_.forms_.begin(), memo_.forms_.end(), form);
    auto number = static_cast<uint32_t>(known - memo_.forms_.begin());
    if (known == memo_.forms_.end()) memo_.forms_.push_back(form);
    memo_.tensors_.push_back({object, impl, meta, number, index});
    return true;
  }

  void sort() {
    auto isVersion = [](const Placed& placed) { return !placed.lookups.empty(); };
    std::stable_sort(words_.begin(), words_.end(), [&](const Placed& left, const Placed& right) {
      return std::pair(left.level, isVersion(left)) < std::pair(right.level, isVersion(right));
    });
    std::stable_sort(loads_.begin(), loads_.end(),
                     [](const PlacedLoad& left, const PlacedLoad& right) { return left.level < right.level; });
    size_t words = 0, loads = 0;
    while (words < words_.size() || loads < loads_.size()) {
      uint32_t level = words < words_.size() ? words_[words].level : kMoves;
      if (loads < loads_.size()) level = std::min(level, loads_[loads].level);
      size_t plain = words;  // where those end that are no versions
      for (; words < words_.size() && words_[words].level == level; ++words) {
        if (!isVersion(words_[words])) plain = words + 1;
        memo_.words_.push_back(words_[words].word);
        memo_.lookups_.push_back(std::move(words_[words].lookups));
      }
      for (; loads < loads_.size() && loads_[loads].level == level; ++loads) {
        memo_.loads_.push_back(loads_[loads].instruction);
      }
      memo_.levels_.push_back(
          {static_cast<uint32_t>(plain), static_cast<uint32_t>(words), static_cast<uint32_t>(loads)});
    }
  }

  Memo& memo_;
  const Guards& guards_;
  const std::vector<PyObject*>& found_;
  std::vector<uint32_t> since_;  // by place: from which level on it is known to be alive; kMoves: no word decides it
  std::vector<Placed> words_;
  std::vector<PlacedLoad> loads_;
  std::unordered_set<PyObject*> typed_, slots_;
  std::unordered_map<PyObject*, size_t> dicts_;
};

void Memo::arm(const Guards& guards, const std::vector<PyObject*>& found) {
  disarm();
  watched_ = true;
  Builder(*this, guards, found).build();
  changes_ = watch::dictChanges();
  found_ = found;
  copied_.clear();
  std::vector<bool> wanted(guards.places, guards.wantsAll);
  for (uint32_t place : guards.wanted) wanted[place] = true;
  auto uses = [&](const GuardInstruction& at) {
    if (at.op > GuardOp::ContextValue || at.op > GuardOp::Fixed)
      wanted[at.op > GuardOp::ContextValue ? at.place : at.parent] = true;
    if (at.op == GuardOp::Same || at.op == GuardOp::Different) wanted[static_cast<size_t>(at.number)] = true;
    if (at.op != GuardOp::Computes) return;
    for (const NumberGuard::Leaf& leaf : guards.numbers[static_cast<size_t>(at.number)].leaves()) {
      wanted[leaf.place] = true;
    }
  };
  for (uint32_t index : rest_) uses(guards.instructions[index]);
  for (uint32_t index : loads_) uses(guards.instructions[index]);
  for (const Seen& seen : tensors_) uses(guards.instructions[seen.instruction]);
  for (uint32_t place = 0; place < guards.places; ++place) {
    if (wanted[place]) copied_.push_back(place);
  }
  armed_ = true;
}

void Memo::disarm() {
  armed_ = false;
  words_.clear();
  lookups_.clear();
  loads_.clear();
  levels_.clear();
  forms_.clear();
  tensors_.clear();
  rest_.clear();
}

// A dict was written to: what is looked up in it may be as it was.
bool Memo::lookAgain(Word& word, const std::vector<uint32_t>& lookups, const Guards& guards, const CallArguments& call,
                     Found& found) {
  if (lookups.empty()) return false;
  found.places = found_;
  for (uint32_t index : lookups) {
    const GuardInstruction& at = guards.instructions[index];
    if (!guards.step(at, call, found)) return false;
    bool loads = at.op <= GuardOp::ContextValue;
    if (loads && (found[at.place] != found_[at.place] || !isTold(found[at.place]))) return false;
  }
  word.value = *word.at;
  return true;
}

bool Memo::wordsHold(size_t from, size_t to, const Guards& guards, const CallArguments& call, Found& found) {
  constexpr size_t kBlock = 16;  // read without a branch, so that many are on their way from memory at once
  for (size_t start = from; start < to; start += kBlock) {
    size_t end = std::min(start + kBlock, to);
    uint64_t moved = 0;
    for (size_t i = start; i < end; ++i) moved |= *words_[i].at ^ words_[i].value;
    if (!moved) continue;
    for (size_t i = start; i < end; ++i) {
      Word& word = words_[i];
      if (*word.at != word.value && !lookAgain(word, lookups_[i], guards, call, found)) return false;
    }
  }
  return true;
}

bool Memo::levelsHold(const Guards& guards, const CallArguments& call, Found& found) {
  uint64_t changes = watch::dictChanges();
  bool readVersions = !watched_ || changes != changes_;
  Level done{0, 0, 0};
  for (const Level& level : levels_) {
    if (!wordsHold(done.versions, readVersions ? level.versions : level.words, guards, call, found)) return false;
    for (size_t i = done.loads; i < level.loads; ++i) {
      const GuardInstruction& at = guards.instructions[loads_[i]];
      if (!guards.step(at, call, found) || found[at.place] != found_[at.place]) return false;
    }
    done = level;
  }
  changes_ = changes;
  return true;
}

Memo::Answer Memo::check(const Guards& guards, const CallArguments& call, Found& found) {
  // What is looked at lies all over the memory: ask for it ahead.
  constexpr size_t kTensorsAhead = 6, kLine = 64;
  found.places.resize(guards.places);
  for (uint32_t place : copied_) found[place] = found_[place];
  if (!levelsHold(guards, call, found)) return Answer::Unknown;
  auto holds = [&](uint32_t instruction) {
    if (guards.step(guards.instructions[instruction], call, found)) return true;
    found.failed = &guards.instructions[instruction];
    return false;
  };
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Seen& next = tensors_[std::min(i + kTensorsAhead, tensors_.size() - 1)];
    __builtin_prefetch(next.object);
    __builtin_prefetch(next.impl);
    __builtin_prefetch(reinterpret_cast<const char*>(next.impl) + kLine);
    __builtin_prefetch(reinterpret_cast<const char*>(next.impl) + kLine * 2);
    __builtin_prefetch(&next.meta->requires_grad_);
    const Seen& seen = tensors_[i];
    const Form& form = forms_[seen.form];
    if (!seen.has(form) && (Py_TYPE(seen.object) != form.type || !holds(seen.instruction))) return Answer::Fails;
  }
  for (uint32_t index : rest_) {
    if (!holds(index)) return Answer::Fails;
  }
  return Answer::Holds;
}

}  // namespace saker::frontend
