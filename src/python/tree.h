// Nested arguments and results: the leaves, in PyTorch's order (torch.utils._pytree), and the structure around them.
// Tuples, lists and dicts are walked here; other containers that PyTorch knows are asked for, in Python. A torch.Size
// is a leaf: out of parts it would be made again as a tuple.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "watch/ref.h"

namespace saker::python {

// Visits the Python objects that something holds, for the garbage collector.
struct Visitor {
  visitproc visit;
  void* argument;
  int operator()(const Ref& object) const { return object ? visit(object.get(), argument) : 0; }
  int operator()(const std::vector<Ref>& objects) const;
};

class Tree {
 public:
  // Adds `object` behind what was added before.
  void add(PyObject* object, std::vector<Ref>& leaves);

  // The first object that was added, out of other leaves.
  Ref build(const std::vector<Ref>& leaves) const;

  bool isLeaf() const { return nodes_.size() == 1 && nodes_[0].kind == Kind::Leaf; }
  bool operator==(const Tree& other) const;  // may run code of keys
  uint64_t hash() const { return hash_; }
  int traverse(const Visitor& visit) const;

 private:
  enum class Kind : uint32_t { Leaf, Tuple, List, Dict, Foreign };
  struct Node {
    Kind kind;
    uint32_t count;  // of children; of a foreign one, leaves
    bool operator==(const Node&) const = default;
  };
  struct Reader;

  static Kind kindOf(PyObject* object);
  void addNode(Kind kind, Py_ssize_t count);
  void addForeign(PyObject* object, std::vector<Ref>& leaves);
  void mix(uint64_t next) { hash_ = (hash_ ^ next) * 0x9e3779b97f4a7c15ull + (hash_ >> 29); }
  Ref build(Reader& reader) const;

  std::vector<Node> nodes_;  // before their children
  std::vector<Ref> keys_;    // of dicts
  std::vector<Ref> specs_;   // of foreign nodes
  uint64_t hash_ = 0;
};

// Are they the same, or of one class and equal?
bool sameConstant(PyObject* a, PyObject* b);

}  // namespace saker::python
