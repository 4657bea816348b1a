// A number that Python computed when a program was recorded, and that has no value in a run: Python would raise.
#pragma once

#include <span>

#include "runtime/sizes.h"
#include "symbolic/expr.h"

namespace saker::runtime {

// Calls the function of that name with these numbers, which raises: whoever knows Python throws its error. `name` is
// that of a function of Python's modules operator or math.
using NumberFailure = void (*)(const char* name, std::span<const double> operands);

// Once, when the language is loaded; nullptr before.
void setNumberFailure(NumberFailure raise);

// The first part of the expression that has no value fails as Python does.
[[noreturn]] void failWithoutNumber(const sym::Node* node, const sym::Flat& flat, Sizes& sizes);

}  // namespace saker::runtime
