// What a trace asks of Python: the user's line, errors, letting go of the interpreter's lock.
#pragma once

#include "capture/host.h"

namespace saker {

tracing::Host pythonHost();

// The text of an error thrown by a kernel, which may be written in Python.
std::string errorText(const std::exception& error);

}  // namespace saker
