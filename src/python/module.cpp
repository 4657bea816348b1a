// The extension module saker._C. It is imported after torch, whose libraries it uses.
#include <torch/csrc/utils/pybind.h>

#include "python/infer.h"

PYBIND11_MODULE(_C, module) {
  module.doc() = "The native part of Saker.";
  saker::python::bindInfer(module);
}
