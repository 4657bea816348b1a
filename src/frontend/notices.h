// Lines for every user: a compiled function runs eagerly, or its gradients are not compiled. Each place is told of
// once, through the logger "saker" of Python's logging module (python/saker/_logs.py says why it is that one).
#pragma once

#include <Python.h>

#include <string>

#include "capture/reasons.h"

namespace saker::frontend {

// "NAME runs eagerly: it ... [reason]", with the line that led there. `what` is "runs eagerly", say.
void tellOnce(PyObject* function, const std::string& what, const Stop& why);
// Everything may be told again.
void forgetNotices();

}  // namespace saker::frontend
