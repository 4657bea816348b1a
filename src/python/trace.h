#pragma once

#include "python/call.h"

namespace saker::python {

void bindTrace(py::module_& module);

}  // namespace saker::python
