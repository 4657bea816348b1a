// Functions under functools.lru_cache. A call of one is not recorded: its result is what the cache holds. That the
// cache still holds it is guarded, and a replay calls it too, which finds the result and counts and orders it as eager
// mode does.
#include <Python.h>

#include <algorithm>

#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"

namespace saker::frontend {

namespace {

class Caches final : public SubjectOf<Caches> {
 public:
  using SubjectOf::SubjectOf;

  Answer calls(PyObject* callable, const Values& args, PyObject* names) override;
  bool called(PyObject* callable, PyObject* result, bool spread) override;
  void goesOn() override;

 private:
  struct CachedCall {
    Ref callable, names;
    std::vector<Ref> arguments;
  };
  std::optional<CachedCall> caching_;
};

}  // namespace

namespace {

// What an lru_cache refers to: its dict of results, and the object that stands before keywords in its keys.
struct Cache {
  PyObject* owner;
  PyObject* dict = nullptr;
  PyObject* mark = nullptr;
};

int noteReferent(PyObject* object, void* into) {
  auto* cache = static_cast<Cache*>(into);
  PyObject** own = _PyObject_GetDictPtr(cache->owner);
  if (PyDict_CheckExact(object) && !(own && *own == object) && !cache->dict) cache->dict = object;
  if (Py_IS_TYPE(object, &PyBaseObject_Type)) cache->mark = object;
  return 0;
}

Cache cacheOf(PyObject* callable) {
  Cache cache{callable};
  if (traverseproc traverse = Py_TYPE(callable)->tp_traverse) traverse(callable, noteReferent, &cache);
  return cache;
}

// The keys that CPython may have made of the arguments: the only argument itself, or a tuple, with types or without.
std::vector<Ref> keysOf(const Cache& cache, const std::vector<Ref>& arguments, PyObject* names) {
  std::vector<Ref> keys;
  size_t named = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
  if (arguments.size() == 1 && named == 0) keys.push_back(arguments[0]);
  for (bool typed : {false, true}) {
    Ref list = Ref::steal(PyList_New(0));
    for (size_t i = 0; i < arguments.size() - named; ++i) PyList_Append(list.get(), arguments[i].get());
    if (named && cache.mark) PyList_Append(list.get(), cache.mark);
    for (size_t i = 0; i < named; ++i) {
      PyList_Append(list.get(), PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i)));
      PyList_Append(list.get(), arguments[arguments.size() - named + i].get());
    }
    for (size_t i = 0; typed && i < arguments.size(); ++i) {
      PyList_Append(list.get(), reinterpret_cast<PyObject*>(Py_TYPE(arguments[i].get())));
    }
    keys.push_back(Ref::steal(PyList_AsTuple(list.get())));
  }
  return keys;
}

// Where a link of a cache of limited size holds its result; -1: it holds another one.
Py_ssize_t offsetOf(PyObject* link, PyObject* result) {
  for (Py_ssize_t at = sizeof(PyObject); at + static_cast<Py_ssize_t>(sizeof(PyObject*)) <= Py_TYPE(link)->tp_basicsize;
       at += static_cast<Py_ssize_t>(sizeof(PyObject*))) {
    if (*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(link) + at) == result) return at;
  }
  return -1;
}

bool isLink(PyObject* object) { return std::string_view(Py_TYPE(object)->tp_name) == "functools._lru_list_elem"; }

}  // namespace

Answer Caches::calls(PyObject* callable, const Values& args, PyObject* names) {
  if (!isCached(callable)) return std::nullopt;
  if (speculative() && !subjects().attempt.mayAskCache(callable, args, names)) return false;
  // A later call has the same arguments, and finds the result in the cache.
  auto lasting = [&](auto& self, PyObject* arg) -> bool {
    if (PyTuple_Check(arg)) {
      PyObject* const* items = PySequence_Fast_ITEMS(arg);
      return std::all_of(items, items + Py_SIZE(arg), [&](PyObject* each) { return self(self, each); });
    }
    return isAtom(arg) || isNamed(arg) || placeOf(arg) != kInside;
  };
  bool found = true;
  for (PyObject* arg : args) {
    if (subjects().arrays.findsByData(arg) || (isContainer(arg) && !realize(arg, true))) return false;
    guardSpecials(Py_TYPE(arg));
    if (!isContainer(arg)) pin(arg);
    if (!isNamed(arg) && comparesInPython(arg)) {
      return stop(Why::CachedKey);
    }
    found &= lasting(lasting, arg);
  }
  if (!found) return stop(Why::CachedMade);
  expectEnd();
  caching_.emplace();
  caching_->callable = Ref::borrow(callable);
  caching_->names = Ref::borrow(names);
  for (PyObject* arg : args) caching_->arguments.push_back(Ref::borrow(arg));
  hide(callable);
  return true;
}

// What a cache gives may be older than the call.
bool Caches::called(PyObject*, PyObject* result, bool) {
  std::optional<CachedCall> call = std::exchange(caching_, std::nullopt);
  if (!call) return false;
  Cache cache = cacheOf(call->callable.get());
  for (const Ref& key : keysOf(cache, call->arguments, call->names.get())) {
    PyObject* entry = cache.dict && key ? PyDict_GetItemWithError(cache.dict, key.get()) : nullptr;
    PyErr_Clear();
    if (!entry) continue;
    Py_ssize_t offset = isLink(entry) ? offsetOf(entry, result) : -1;
    if (isLink(entry) ? offset < 0 : entry != result) continue;
    fixed(call->callable.get());
    uint32_t place = read(GuardOp::Key, fixed(cache.dict), key.get(), 0, entry);
    if (isLink(entry)) {
      // The links of a full cache are used again for other keys.
      checkIs(GuardOp::Is, place, entry);
      place = read(GuardOp::Slot, place, nullptr, offset, result);
    }
    if (!isAtom(result)) checkIs(GuardOp::Is, place, result);
    keep(key);
    Effect again;
    again.callable = call->callable;
    again.arguments = call->arguments;
    again.names = call->names;
    effects().list().push_back(std::move(again));
    noteFixed(result);
    return false;
  }
  stop(Why::CachedNotKept, /*quiet=*/true);
  return false;
}

void Caches::goesOn() {
  if (std::exchange(caching_, std::nullopt)) tape().spoil(Why::CachedRaised);
}

std::unique_ptr<Subject> makeCaches(Recorder& recorder) { return std::make_unique<Caches>(recorder); }

}  // namespace saker::frontend
