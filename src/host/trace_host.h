// What a trace asks of Python: the user's line, errors, letting go of the interpreter's lock.
#pragma once

#include "capture/host.h"

namespace saker {

tracing::Host pythonHost();

// The text of the error that a kernel, which may be written in Python, has thrown and that is being handled. An
// interruption (Ctrl-C) is thrown again.
std::string errorText(const std::exception& error);

}  // namespace saker
