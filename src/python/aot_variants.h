// The arguments of one call of a function that is compiled ahead of time, and what was compiled of it for calls that
// have one structure, the same constants and one state of autograd.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "aot/compiled_function.h"
#include "aot/signature.h"
#include "python/result_tree.h"
#include "python/tree.h"

namespace saker::python {

// Parameters and buffers of a module in one call, in the order in which the function takes them, before its arguments.
struct ModuleTensors {
  PyObject* module;
  std::shared_ptr<const std::vector<Ref>> names;
  std::vector<Ref> tensors;
};

// What decides, beside tensors, which variant a call takes.
struct Structure {
  bool flat = true;  // tensors only, by position: the rest is empty
  Tree tree;
  std::vector<Ref> constants;      // the leaves, nullptr for tensors
  std::vector<size_t> parameters;  // tensors that are no plain ones for Python

  bool operator==(const Structure& other) const;
  int traverse(const Visitor& visit) const;
};

class CallArguments {
 public:
  CallArguments(PyObject* const* args, size_t count, PyObject* names, const ModuleTensors* module);

  // For calling the function in Python.
  py::tuple positional() const;
  py::dict named() const;

  PyObject* const* const args;
  const size_t count;
  PyObject* const names;
  const ModuleTensors* const module;
  std::vector<at::Tensor> tensors;
  Structure structure;
  // Does the class of a tensor answer calls itself (__torch_function__), and has no tensors inside?
  bool answersItself = false;

 private:
  void add(PyObject* tensor);
  bool takeTensors();
  void flatten();
};

uint64_t hashOf(const aot::Signature& signature);

// Entries with a key, found by a hash; `matches` decides. Other threads may add some while one compares keys, which may
// run code of Python's.
template <typename Key, typename Value>
class KeyedList {
 public:
  struct Entry {
    Key key;
    Value value;
  };

  template <typename Matches>
  Value* find(uint64_t hash, const Matches& matches) {
    auto found = entries_.find(hash);
    if (found == entries_.end()) return nullptr;
    for (Entry& entry : found->second) {
      if (matches(entry.key)) return &entry.value;
    }
    return nullptr;
  }
  Value& add(uint64_t hash, Key key, Value value) {
    std::list<Entry>& entries = entries_[hash];
    entries.push_back({std::move(key), std::move(value)});
    return entries.back().value;
  }
  template <typename Visit>
  int each(const Visit& visit) const {
    for (const auto& [hash, entries] : entries_) {
      for (const Entry& entry : entries) {
        if (int stop = visit(entry)) return stop;
      }
    }
    return 0;
  }

 private:
  std::unordered_map<uint64_t, std::list<Entry>> entries_;  // neither moves what is in it
};

// What the package compiles of a function.
struct Variant {
  std::shared_ptr<const aot::CompiledFunction> native;  // nullptr: eager mode
  std::shared_ptr<ResultTree> results;
  Ref awaited;  // eager mode for now: a saker._awaited.Awaited
};

// What saker._aot gives for it.
Variant variantOf(const py::tuple& made);
// Calls `compile(function, args, kwargs)` of saker._aot.
Variant compileFunction(PyObject* compile, const py::object& function, const py::tuple& args, const py::dict& kwargs);

class Variants {
 public:
  // Compiles where nothing was yet.
  Variant& get(PyObject* compile, PyObject* function, const CallArguments& call);
  int traverse(const Visitor& visit) const;

 private:
  struct Key {
    Structure structure;
    aot::Signature signature;
  };
  KeyedList<Key, Variant> compiled_;
};

}  // namespace saker::python
