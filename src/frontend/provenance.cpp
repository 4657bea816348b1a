#include "frontend/provenance.h"

#include "frontend/aside.h"
#include "frontend/kinds.h"

namespace saker::frontend {

namespace {

uint64_t mix(uint64_t a, uint64_t b) { return (a * 0x9E3779B97F4A7C15ull) ^ (b + (a << 7) + 0xC2B2AE3D27D4EB4Full); }

// Guards are checked before a replay, and find things as they were before that code ran.
bool changedAside(PyObject* object) {
  Aside* aside = Aside::current();
  return aside && aside->changed(object);
}

template <typename Table, typename F>
void eraseIf(Table& table, F&& f) {
  Table kept;
  for (auto& entry : table) {
    if (!f(entry)) kept.insert(entry);
  }
  table = std::move(kept);
}

}  // namespace

size_t Provenance::Hash::operator()(const Step& step) const {
  uint64_t place = (uint64_t{step.parent} << 8) | static_cast<uint64_t>(step.op);
  return mix(mix(place, reinterpret_cast<uint64_t>(step.key)), static_cast<uint64_t>(step.number));
}

size_t Provenance::Hash::operator()(const Named& named) const {
  return mix(reinterpret_cast<uint64_t>(named.name), named.of);
}

uint32_t Provenance::placeOf(PyObject* object) const {
  auto found = places_.find(object);
  return found == places_.end() ? kInside : found->second;
}

uint32_t Provenance::placeOfTensor(const at::Tensor& tensor) const {
  auto found = tensors_.find(tensor.unsafeGetTensorImpl());
  return found == tensors_.end() ? kInside : found->second;
}

uint32_t Provenance::load(GuardOp op, uint32_t parent, PyObject* key, int64_t number, PyObject* object) {
  uint32_t place = give(object);
  byArguments_.resize(place + 1);
  byArguments_[place] =
      op == GuardOp::Positional || op == GuardOp::Keyword || (op > GuardOp::Fixed && byArguments(parent));
  guards_.instructions.push_back({op, place, parent, number, Ref::borrow(key)});
  return place;
}

uint32_t Provenance::give(PyObject* object) {
  objects_.push_back(object);
  kept_.push_back(Ref::borrow(object));
  return guards_.places++;
}

void Provenance::check(GuardOp op, uint32_t place, PyObject* object, int64_t number) {
  if (changedAside(objects_[place])) tape_.spoil(Why::ReadsChangedAside);
  guards_.instructions.push_back({op, place, kInside, number, Ref::borrow(object)});
}

std::pair<uint32_t*, bool> Provenance::step(GuardOp op, uint32_t parent, PyObject* key, int64_t number) {
  if (parent < objects_.size() && changedAside(objects_[parent])) tape_.spoil(Why::ReadsChangedAside);
  auto [found, isNew] = reads_.emplace(Step{key, number, parent, op}, 0);
  return {&found->second, isNew};
}

PyObject* Provenance::lookUp(PyTypeObject* type, PyObject* name, bool guarded) {
  PyObject* found = _PyType_Lookup(type, name);
  // Types of C never change.
  if (!guarded || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return found;
  if (!lookups_.insert({name, reinterpret_cast<uint64_t>(type)}).second) return found;
  auto [entry, isNew] = types_.try_emplace(type, guards_.types.size());
  if (isNew) {
    guards_.types.emplace_back();
    guards_.types.back().type = Ref::borrow(reinterpret_cast<PyObject*>(type));
  }
  TypeLookups& lookups = guards_.types[entry->second];
  // Where the call itself writes to the class, its tag says nothing about what was read before.
  if (!isNew && lookups.version != type->tp_version_tag) lookups.version = 0;
  if (isNew) lookups.version = type->tp_version_tag;
  lookups.names.emplace_back(Ref::borrow(name), found);
  lookups.kept.push_back(Ref::borrow(found));
  return found;
}

void Provenance::pin(PyObject* object) {
  uint32_t place = placeOf(object);
  if (place == kInside || isAtom(object)) return;
  fresh_.erase(object);
  check(GuardOp::Is, place, object);
}

void Provenance::findFresh(PyObject* function, uint32_t place) {
  settle(function, place);
  fresh_.insert(function);
  functionsFound_.push_back(function);
}

void Provenance::pinFresh() {
  for (PyObject* function : functionsFound_) {
    if (isFresh(function)) pin(function);
  }
}

void Provenance::distinguish(PyObject* object) {
  uint32_t place = placeOf(object);
  if (isFresh(object)) return pin(object);
  if (place == kInside || isAtom(object) || isNamed(object)) return;
  for (uint32_t other : distinct_) {
    if (other == place) return;
  }
  if (distinct_.size() > 64) return pin(object);  // one check for each pair would be many
  for (uint32_t other : distinct_) check(GuardOp::Different, place, nullptr, other);
  distinct_.push_back(place);
}

void Provenance::separate(const std::vector<PyObject*>& objects) {
  std::set<uint32_t> changed;
  for (PyObject* object : objects) {
    if (uint32_t place = placeOf(object); place != kInside) changed.insert(place);
  }
  if (changed.empty()) return;
  std::vector<bool> isFixed(guards_.places);
  for (const GuardInstruction& at : guards_.instructions) {
    if (at.op == GuardOp::Fixed) isFixed[at.place] = true;
  }
  for (uint32_t written : changed) {
    for (uint32_t place = 0; place < objects_.size(); ++place) {
      PyObject* object = objects_[place];
      if (!object || object == objects_[written] || Py_TYPE(object) != Py_TYPE(objects_[written])) continue;
      if (placeOf(object) != place || (isFixed[place] && isFixed[written])) continue;
      check(GuardOp::Different, place, nullptr, written);
    }
  }
}

PyObject* Provenance::keep(Ref object) {
  kept_.push_back(std::move(object));
  return kept_.back().get();
}

void Provenance::forgetBehind(uint32_t root) {
  std::unordered_set<uint32_t> dropped;
  std::vector<GuardInstruction> kept;
  for (GuardInstruction& at : guards_.instructions) {
    bool loads = at.op <= GuardOp::ContextValue;
    bool from = loads && at.op > GuardOp::Fixed && (at.parent == root || dropped.contains(at.parent));
    bool pair = at.op == GuardOp::Same || at.op == GuardOp::Different;
    if (from) dropped.insert(at.place);
    bool about = !loads && (at.place == root || dropped.contains(at.place));
    if (pair) about |= dropped.contains(static_cast<uint32_t>(at.number));
    if (at.op == GuardOp::Computes) {
      for (const NumberGuard::Leaf& leaf : guards_.numbers[static_cast<size_t>(at.number)].leaves()) {
        about |= dropped.contains(leaf.place);
      }
    }
    if (!from && !about) kept.push_back(std::move(at));
  }
  guards_.instructions = std::move(kept);
  eraseIf(places_, [&](const auto& entry) { return dropped.contains(entry.second); });
  std::erase_if(tensors_, [&](const auto& entry) { return dropped.contains(entry.second); });
  eraseIf(reads_, [&](const auto& entry) { return dropped.contains(entry.second); });
  eraseIf(absent_, [&](const auto& entry) { return entry.of == root; });
}

}  // namespace saker::frontend
