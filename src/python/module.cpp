// The extension module saker._C. It is imported after torch, whose libraries it uses.
#include <torch/csrc/utils/pybind.h>

#include "python/aot.h"
#include "python/compile.h"
#include "python/computation.h"
#include "python/control.h"
#include "python/describe.h"
#include "python/frame_guards.h"
#include "python/graph.h"
#include "python/infer.h"
#include "python/native.h"
#include "python/symbols.h"
#include "python/trace.h"
#include "python/watch.h"

PYBIND11_MODULE(_C, module) {
  module.doc() = "The native part of Saker.";
  saker::python::bindGraph(module);
  saker::python::bindInfer(module);
  saker::python::bindSymbols(module);
  saker::python::bindTrace(module);
  saker::python::bindControl(module);
  saker::python::bindAot(module);
  saker::python::bindDescribe(module);
  saker::python::bindComputation(module);
  saker::python::bindWatch(module);
  saker::python::bindFrameGuards(module);
  saker::python::bindCompile(module);
  saker::python::bindNative(module);
}
