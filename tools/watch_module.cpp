// The watched loop as an extension module of its own, without torch: for running CPython's tests under it, also with
// versions of CPython for which no torch is at hand. Built by scripts/build_watch.sh.
#include "python/watch.h"

PYBIND11_MODULE(saker_watch, module) { saker::python::bindWatch(module); }
