// The watched loop for tests: watch_run, watch_stop_at.
#pragma once

#include <pybind11/pybind11.h>

namespace saker::python {

void bindWatch(pybind11::module_& module);

}  // namespace saker::python
