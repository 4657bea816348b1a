// Guards on the slots of a live frame, for tests: no recording starts in the middle of a function yet.
#pragma once

#include <pybind11/pybind11.h>

namespace saker::python {

void bindFrameGuards(pybind11::module_& module);

}  // namespace saker::python
