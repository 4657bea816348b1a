// What a call does to objects that were there before it: calls of C code that a replay makes again, in order, and what
// the objects held before.
#pragma once

#include <Python.h>

#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "watch/ref.h"

namespace saker::frontend {

// A call of C code that is done again: list.append(l, x), object.__setattr__(o, "n", v), print("..."). Without a
// callable, a write to a cell.
struct Effect {
  Ref callable;
  std::vector<Ref> arguments;
  Ref names;           // of keyword arguments, or nothing
  bool early = false;  // before the operators: it changes how they see a tensor
  bool inner = false;  // it changes what the call made: where the call fails, nobody sees it
  bool hook = false;   // it puts a hook where an operator has registered a stand-in
  // Of a write to a key of a dict, or to an attribute that lies in one: the dict, the key, and what was there.
  Ref dict = {}, key = {}, before = {};
};

class Effects {
 public:
  std::vector<Effect>& list() { return list_; }
  const std::vector<Effect>& list() const { return list_; }
  void add(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names);

  // What effects from this one on wrote to, if each is a write to a key of a dict that was there, holds again what it
  // held, and was not written before; else nothing.
  struct Restored {
    PyObject *dict, *key, *owner;  // `owner`: the object whose attributes are in the dict, or nullptr
    PyObject* value;
  };
  std::vector<Restored> restoredSince(size_t first) const;
  void forgetSince(size_t first) { list_.resize(first); }

  // Calls of C code that change something outside, until they have succeeded. `length`: of the list that an iterator
  // extends; -1: none does.
  void begin(PyObject* callable, Py_ssize_t length) { pending_.push_back({callable, list_.size(), length}); }
  void succeeded(PyObject* callable);
  // Forgets effects of calls that raised. False: one may have done a part of what it does.
  bool dropFailed();

  // Has the call written this attribute, key (or, with nullptr, all) of an object?
  bool written(PyObject* owner, PyObject* key) const { return written_.contains({owner, key}); }
  void write(PyObject* owner, PyObject* key) { written_.emplace(owner, key); }
  // The same of a class, or of a base of it.
  bool writtenAlong(PyTypeObject* type, PyObject* name) const;

  // Before the first write to a container: a copy of what it held. False: it cannot be copied.
  bool remember(PyObject* container);
  bool changed(PyObject* container) const { return before_.contains(container); }
  // What a container held before the call changed it; nullptr: it did not.
  PyObject* before(PyObject* container) const;
  // All objects that were written to.
  std::vector<PyObject*> changedObjects() const;

  // A write to an attribute or a key that undo() takes back. False: it is another change.
  bool undoes(PyObject* callable, const std::vector<PyObject*>& args);
  void undo();

 private:
  struct Pending {
    PyObject* callable;
    size_t effect;
    Py_ssize_t length;
  };
  struct Undo {
    Ref dict, key, before;
  };
  std::vector<Effect> list_;
  std::vector<Pending> pending_;
  std::set<std::pair<PyObject*, PyObject*>> written_;
  std::unordered_map<PyObject*, Ref> before_;  // containers that were written: as they were
  std::vector<Undo> undo_;
};

}  // namespace saker::frontend
