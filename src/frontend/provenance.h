// Where objects come from. An object that has a place is from outside: it was there before the call, and a load leads
// to it. One that has none was made inside; it needs no guards, and is made again if it escapes. Objects are told apart
// by identity.
#pragma once

#include <c10/util/flat_hash_map.h>

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "capture/tape.h"
#include "frontend/guards.h"

namespace saker::frontend {

inline constexpr uint32_t kInside = ~0u;

class Provenance {
 public:
  explicit Provenance(tracing::Tape& tape) : tape_(tape) {}

  // kInside: made during the call.
  uint32_t placeOf(PyObject* object) const;
  uint32_t placeOfTensor(const at::Tensor& tensor) const;
  PyObject* at(uint32_t place) const { return objects_[place]; }
  const std::vector<PyObject*>& objects() const { return objects_; }
  // By tensor, its place.
  const std::unordered_map<const c10::TensorImpl*, uint32_t>& tensors() const { return tensors_; }
  Guards& guards() { return guards_; }
  const Guards& guards() const { return guards_; }

  // A new place, which an instruction loads.
  uint32_t load(GuardOp op, uint32_t parent, PyObject* key, int64_t number, PyObject* object);
  // A new place, which a replay fills before the operators run.
  uint32_t give(PyObject* object);
  // A check of what is at a place.
  void check(GuardOp op, uint32_t place, PyObject* object, int64_t number = 0);
  // The object, or the tensor, is found at this place from now on.
  void settle(PyObject* object, uint32_t place) { places_.emplace(object, place); }
  void settle(const at::Tensor& tensor, uint32_t place) { tensors_.emplace(tensor.unsafeGetTensorImpl(), place); }
  // The place of a step from another place, and whether the step is a new one: then the place is for the caller to set,
  // before the next step.
  std::pair<uint32_t*, bool> step(GuardOp op, uint32_t parent, PyObject* key, int64_t number);
  // The same for checks of what is missing or empty: is it the first time?
  bool first(GuardOp op, uint32_t place, PyObject* key) { return step(op, place, key, 0).second; }
  // The first time that an object is found to lack an attribute.
  bool lacks(uint32_t place, PyObject* name) { return absent_.insert({name, place}).second; }

  // An attribute of a class, looked up along its bases; `guarded`: and it must be found again.
  PyObject* lookUp(PyTypeObject* type, PyObject* name, bool guarded);
  // Which object this is decides something: it must be this very one.
  void pin(PyObject* object);
  // A function that was found by way of the arguments of the call: each call may bring another one, of the same code.
  // It is fresh as long as nothing depends on which one it is.
  bool byArguments(uint32_t place) const { return place < byArguments_.size() && byArguments_[place]; }
  void findFresh(PyObject* function, uint32_t place);
  bool isFresh(PyObject* object) const { return !fresh_.empty() && fresh_.contains(object); }
  const std::vector<PyObject*>& functionsFound() const { return functionsFound_; }
  void pinFresh();
  // Whether it is one of the others that were told apart decides something.
  void distinguish(PyObject* object);
  // All of these are other objects than those of the same class that were only read.
  void separate(const std::vector<PyObject*>& changed);

  // Keeps an object, and its address, until the recording is done.
  PyObject* keep(Ref object);
  // Forgets all that was read by way of a place.
  void forgetBehind(uint32_t root);

 private:
  struct Step {
    PyObject* key;
    int64_t number;
    uint32_t parent;
    GuardOp op;
    bool operator==(const Step&) const = default;
  };
  // An attribute that an object lacks, or one of a class.
  struct Named {
    void* name;
    uint64_t of;
    bool operator==(const Named&) const = default;
  };
  struct Hash {
    size_t operator()(const Step& step) const;
    size_t operator()(const Named& named) const;
  };

  tracing::Tape& tape_;
  Guards guards_;
  std::vector<PyObject*> objects_;  // by place, borrowed
  std::vector<Ref> kept_;           // outside objects keep their addresses while the table stands
  // Asked at each instruction of the program: flat, and not by nodes as the standard library's.
  ska::flat_hash_map<PyObject*, uint32_t> places_;
  std::unordered_map<const c10::TensorImpl*, uint32_t> tensors_;
  ska::flat_hash_map<Step, uint32_t, Hash> reads_;
  std::unordered_map<PyTypeObject*, size_t> types_;
  ska::flat_hash_set<Named, Hash> lookups_;
  ska::flat_hash_set<Named, Hash> absent_;
  std::vector<uint32_t> distinct_;
  std::vector<char> byArguments_;  // by place: is it reached by way of the arguments?
  std::unordered_set<PyObject*> fresh_;
  std::vector<PyObject*> functionsFound_;  // those that were fresh once, in order
};

}  // namespace saker::frontend
