// Arithmetic that Python would refuse, in a run without Python.
#pragma once

#include <span>

namespace saker {

// Calls a function of Python's modules operator or math with these numbers, and throws the error that it raises.
void raiseNumberFailure(const char* name, std::span<const double> operands);

}  // namespace saker
