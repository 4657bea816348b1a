// Names for the tensors that a recorded call reads from outside: parameters and buffers of modules are called as
// `named_parameters()` of the outermost module on the way calls them.
#pragma once

#include <span>

#include "frontend/guards.h"
#include "runtime/program.h"

namespace saker::frontend {

// `places` are those of the program's arguments. Other inputs keep their numbers.
void nameInputs(runtime::Program& program, const Guards& guards, std::span<const uint32_t> places);

}  // namespace saker::frontend
