// The modules, parameters and buffers of a torch.nn.Module as they are at one call. A module that is found under two
// names has its parameters and buffers once, under the first.
#pragma once

#include <Python.h>

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "watch/ref.h"

namespace saker::python {

class ModuleWalk {
 public:
  // `functional`: saker._aot.Functional, which is asked about modules that list their parts in a way of their own.
  ModuleWalk(PyObject* module, PyObject* functional);

  // What a function of the module is compiled for: the tree of modules, which are in training mode, names.
  struct Layout {
    std::vector<uint32_t> numbers;
    std::vector<Ref> names;
    bool operator==(const Layout& other) const;
  };
  Layout layout;
  std::vector<Ref> tensors;  // parameters, then buffers

  // By tensor: where it is, as in "layers.0.weight".
  std::vector<Ref> fullNames() const;

 private:
  bool add(PyObject* module, uint32_t parent, PyObject* name);
  bool addTensors(PyObject* dict, std::vector<Ref>& to);
  void ask(PyObject* functional);

  bool asked_ = false;  // in Python: `names` are full
  std::vector<Ref> buffers_;
  std::unordered_set<PyObject*> seen_;
};

}  // namespace saker::python
