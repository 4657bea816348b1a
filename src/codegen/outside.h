// Functions that generated code calls: the C library's for single numbers, and SLEEF's for vectors, whose addresses the
// host gives (compile.h, setResolver).
#pragma once

#include <string>

#include "kernel/kernel.h"

namespace saker::codegen {

// "expf", "exp"; fmod for Rem, and functions that instructions are missing for on old processors.
std::string scalarFunction(kernel::Op op, kernel::DType dtype);
// "Sleef_expf16_u10": of an error of at most about one digit, or the very one that eager mode calls (of sin and cos in
// f32, 3.5 digits). Empty if there is none.
std::string vectorFunction(kernel::Op op, kernel::DType dtype, int lanes, bool eager);

// The address of one of the C library's functions that generated code may call, or null.
void* libraryFunction(const char* name);

}  // namespace saker::codegen
