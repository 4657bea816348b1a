// Functions that are compiled on the plain tensors inside of arguments that are tensor subclasses.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>

#include "python/aot_variants.h"

namespace saker::python {

class Apart;

// What was compiled of one function for calls with such arguments, by their structure, their forms and what autograd
// knows of them.
class Aparts {
 public:
  Aparts();
  ~Aparts();

  // Is this call one for it?
  static bool takes(const CallArguments& call);
  // Nothing: the call is to be made in eager mode, and nothing was done yet.
  std::optional<Ref> run(PyObject* compile, PyObject* function, const CallArguments& call);
  int traverse(const Visitor& visit) const;

 private:
  struct Key;
  std::unique_ptr<KeyedList<Key, std::shared_ptr<Apart>>> made_;
};

void bindApart(py::module_& module);

}  // namespace saker::python
